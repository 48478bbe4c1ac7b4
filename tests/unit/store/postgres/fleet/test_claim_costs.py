"""Tests of the cost of claims and counts on long queues, in pages that the database reads, before it has statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.unit.store.postgres.databases import database_url, empty_store
from tests.unit.store.rows import BINDING, event, put

from freight_exchange.store.postgres.fleet import work_sql
from freight_exchange.store.postgres.fleet.seat import PostgresSeat
from freight_exchange.store.work import NO_LIMIT

REQUESTS = 1000
HANDLERS = [None, ["quote"], ["log", "quote"]]


@pytest.fixture
def seat() -> Iterator[PostgresSeat]:
    store = empty_store()
    yield store.join(BINDING, handlers=["quote"], version="1", lease=60.0)
    store.close()


def enqueue(seat: PostgresSeat, key: str, indexes: range) -> None:
    """Add a delivery for each request."""
    term = seat.take_term()
    assert term is not None
    put(term, events=[event(f"{key}:{index}", index) for index in indexes])
    term.enqueue({one.id: ["quote"] for one in term.pending(limit=len(indexes))}, at=1.0)
    term.release()


def pages(query: str, seat: PostgresSeat, handlers: list[str] | None, *, limit: int = 10) -> int:
    """Count the pages that a statement reads, and roll it back."""
    values = {
        **seat.replica.own,
        "binding": seat.replica.binding_id,
        "now": 2.0,
        "limit": limit,
        "handlers": handlers,
    }
    with psycopg.connect(database_url()) as connection:

        def run() -> Any:
            row = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}", values).fetchone()
            connection.rollback()
            return row

        # This also visits earlier versions of the rows, which it marks as dead.
        run()
        row = run()
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.parametrize("handlers", HANDLERS)
def test_claim_reads_few_rows_of_a_long_queue(seat: PostgresSeat, handlers: list[str] | None) -> None:
    for key in ("first", "second"):
        enqueue(seat, key, range(REQUESTS))
    assert pages(work_sql.CLAIM, seat, handlers) < REQUESTS
    assert pages(work_sql.NEXT_DUE, seat, handlers) < REQUESTS
    assert pages(work_sql.COUNT_READY, seat, handlers) < REQUESTS / 10
    assert pages(work_sql.COUNT_OVERDUE, seat, handlers) < REQUESTS
    # A few for each delivery, and not some for each pair of them.
    assert pages(work_sql.COUNT_OVERDUE, seat, handlers, limit=NO_LIMIT) < 10 * 2 * REQUESTS


@pytest.mark.parametrize("handlers", [["log"], ["log", "rate"]])
def test_deliveries_of_a_removed_handler_cost_nothing(seat: PostgresSeat, handlers: list[str]) -> None:
    for key in range(5):
        enqueue(seat, f"{key}", range(REQUESTS))
    for query in (work_sql.CLAIM, work_sql.NEXT_DUE, work_sql.COUNT_OVERDUE, work_sql.COUNT_READY):
        assert pages(query, seat, handlers) < 30
    assert seat.work.count_ready_by_handler(limit=10) == {"quote": 10}


@pytest.mark.parametrize("handlers", HANDLERS)
def test_claim_skips_deliveries_behind_a_postponed_one(seat: PostgresSeat, handlers: list[str] | None) -> None:
    for key in ("first", "second"):
        enqueue(seat, key, range(REQUESTS))
    claimed = seat.work.claim(now=2.0, limit=REQUESTS)
    with seat.work.transaction():
        for one in claimed:
            seat.work.settle(one.event, one.handler, state="ready", not_before=100.0, at=2.0)
    enqueue(seat, "other", range(REQUESTS, REQUESTS + 20))
    assert pages(work_sql.CLAIM, seat, handlers) < REQUESTS
    assert seat.work.count_overdue(now=2.0) == (20, 1.0)
    assert [one.index for one in seat.work.claim(now=2.0, limit=2)] == [REQUESTS, REQUESTS + 1]
