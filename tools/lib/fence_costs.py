"""Cost of the fence: claims and settlements of one replica with and without it."""

from __future__ import annotations

import time
from unittest.mock import patch

from tools.lib.endless_exchange import EndlessExchange
from tools.lib.measured_processes import ACCOUNT
from tools.lib.waiting_queue import BotQueue

from freight_exchange.store import PostgresStore
from freight_exchange.store.postgres.fleet import work_sql
from freight_exchange.store.postgres.fleet.replica import Replica
from freight_exchange.store.protocol import Binding
from freight_exchange.store.work import Work

__all__ = ["fence_costs"]


def fence_costs(database: str, batch: int, claims: int, rounds: int) -> list[tuple[float, float]]:
    """Return the seconds of a claim with its settlements, with the fence and without, for each round."""
    queue = BotQueue(database, concurrency=1)
    queue.add(2 * batch * claims * rounds)
    queue.settle()
    store = PostgresStore(database)
    seat = store.join(
        Binding(EndlessExchange.url, ACCOUNT[0], queue.program.name), handlers=["handle"], version="", lease=3600.0
    )
    found = list[tuple[float, float]]()
    bare_claim = work_sql.CLAIM.replace("EXISTS (SELECT FROM fence) AND", "")
    try:
        for _ in range(rounds):
            fenced = _seconds(seat.work, batch, claims)
            with patch.object(Replica, "fence"), patch.object(work_sql, "CLAIM", bare_claim):
                found.append((fenced, _seconds(seat.work, batch, claims)))
    finally:
        store.close()
        queue.close()
    return found


def _seconds(work: Work, batch: int, claims: int) -> float:
    began = time.perf_counter()
    for _ in range(claims):
        claimed = work.claim(now=1.0, limit=batch)
        assert len(claimed) == batch
        with work.transaction():
            for delivery in claimed:
                work.settle(delivery.event, delivery.handler, state="done", at=1.0)
    return (time.perf_counter() - began) / claims
