"""Record of a run of `fleet_faults.py`: its faults, its requests and their offers."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
from tools.lib.fleet_replica import IN_OFFERS
from tests.support.postgres import PostgresServer

from freight_exchange.sandbox import Exchange

__all__ = ["DELAYED", "LOST", "FleetRecord"]

DELAYED = "offer delayed, sender ended"
LOST = "reply lost"


class FleetRecord:
    """Record of one run.

    Args:
        server: The server with the replicas' database.
        sandbox: The exchange.
        notes: File in which replicas note what they do to themselves.

    Attributes:
        prices: The price of each request that was published.
    """

    def __init__(self, server: PostgresServer, sandbox: Exchange, notes: Path) -> None:
        self._server = server
        self._sandbox = sandbox
        self._notes_file = notes
        self._faults: Counter[str] = Counter()
        self.prices: dict[int, Decimal] = {}

    def count(self, kind: str) -> None:
        """Count a fault. Lost replies and those that replicas note are counted without it."""
        self._faults[kind] += 1

    def total(self) -> int:
        """Return the number of faults."""
        return self._kinds().total()

    def point_of(self, pid: int) -> str:
        """Return the point at which a process stopped itself last; empty if it did not."""
        return next((point for _, point, noted in reversed(self._notes()) if noted == pid), "")

    def offered(self) -> list[int]:
        """Return the request of each offer."""
        return [record.offer.request for record in self._sandbox.audit_log.offers]

    def has_offered_all(self) -> bool:
        """Return whether every request has an offer."""
        return {*self.offered()} >= {*self.prices}

    def count_open(self) -> int:
        """Count the deliveries that are not done, and the offers without a result."""
        query = (
            "SELECT (SELECT count(*) FROM freight_exchange.delivery WHERE state <> 'done')"
            " + (SELECT count(*) FROM freight_exchange.effect WHERE key LIKE 'offer:%' AND state <> 'confirmed')"
        )
        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    def figures(self) -> dict[str, Any]:
        """Return the figures of the run."""
        offers = [record.offer for record in self._sandbox.audit_log.offers]
        offered, kinds = Counter(offer.request for offer in offers), self._kinds()
        within = sum(
            count for kind, count in kinds.items() if kind.partition(" ")[2] in IN_OFFERS or kind in (LOST, DELAYED)
        )
        return {
            "faults": kinds.total(),
            "  between sending and its end": f"{within} ({within / max(1, kinds.total()):.0%})",
            "requests": len(self.prices),
            "offers": len(offers),
            "offers too many": sum(count - 1 for count in offered.values()),
            "requests missed": len({*self.prices} - {*offered}),
            "wrong prices": sum(offer.amount != self.prices[offer.request] for offer in offers),
            "open at the end": self.count_open(),
            "offered twice": sorted(index for index, count in offered.items() if count > 1),
            "kinds": dict(sorted(kinds.items())),
        }

    def _kinds(self) -> Counter[str]:
        own = Counter(f"{signal} {point}" for signal, point, _ in self._notes())
        return self._faults + own + Counter({LOST: len(self._sandbox.faults.fired)})

    def _notes(self) -> list[tuple[str, str, int]]:
        """Return what the replicas did to themselves: signals, points and processes."""
        lines = self._notes_file.read_text().splitlines() if self._notes_file.exists() else []
        return [(signal, point, int(pid)) for signal, point, pid in (line.split(",") for line in lines)]
