"""Queues of deliveries, or of the jobs of a peer, which are topped up while they are measured."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg
from tools.lib.endless_exchange import EndlessExchange
from tools.lib.measured_processes import ACCOUNT, Program, run_bot, run_peer

from freight_exchange import RateRequest, RequestEvent
from freight_exchange.feed.core.state import State
from freight_exchange.feed.core.watermark import Watermark
from freight_exchange.feed.serialization import pack
from freight_exchange.platform.clock import Reading, boot_id, boot_time, wall_time
from freight_exchange.store import PostgresStore
from freight_exchange.store.protocol import Binding, Commit, NewEvent
from freight_exchange.store.work import WorkStore

__all__ = ["BotQueue", "PeerQueue", "Queue", "empty_database"]

_HANDLER: Final = "handle"
_ADD: Final = """
    WITH added AS (
        INSERT INTO freight_exchange.event (binding, key, "index", kind, payload, is_acknowledged, is_owed, at)
        SELECT binding.id, 'measured ' || number, number, 'new', %(payload)s, true, true, 0
        FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number, freight_exchange.binding
        RETURNING binding, id, "index"
    )
    INSERT INTO freight_exchange.delivery (binding, event, handler, "index", state, attempts, not_before)
    SELECT binding, id, %(handler)s, "index", 'ready', 0, 0 FROM added
"""
_ADD_JOBS: Final = """
    INSERT INTO procrastinate_jobs (queue_name, task_name, lock, args)
    SELECT 'default', %(handler)s, CASE WHEN %(locks)s THEN number::text END,
        jsonb_build_object('payload', %(payload)s::text)
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number
"""


class Queue(Protocol):
    """Queue in a separate database.

    Attributes:
        program: Program that handles its deliveries.
    """

    program: Program

    def add(self, count: int) -> None:
        """Add due deliveries, each about a separate request."""
        ...

    def settle(self) -> None:
        """Vacuum and analyze, so that the filling of the queue does not slow down a measurement."""
        ...

    def count_done(self) -> int:
        """Count the deliveries that are done."""
        ...

    def close(self) -> None:
        """Release the resources of the queue."""
        ...


class _Table:
    """Statements on a queue through a separate connection."""

    _insert: str
    _count: str
    _values: dict[str, Any]

    def __init__(self, database: str) -> None:
        self._connection = psycopg.connect(database, autocommit=True)
        self._last = 0

    def add(self, count: int) -> None:
        first, self._last = self._last + 1, self._last + count
        if count:
            # Triggers of the peer notify its workers for each job.
            with self._connection.transaction():
                self._connection.execute("SET LOCAL session_replication_role = replica")
                self._connection.execute(self._insert, {**self._values, "first": first, "last": self._last})

    def settle(self) -> None:
        self._connection.execute("VACUUM ANALYZE")
        self._connection.execute("CHECKPOINT")

    def count_done(self) -> int:
        row = self._connection.execute(self._count).fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        self._connection.close()


class BotQueue(_Table):
    """Deliveries of a bot. This process holds the term, so that no replica scans.

    Args:
        database: Address of an empty database.
        concurrency, latency: Those of `Program`.

    Attributes:
        term: The term.
    """

    _insert = _ADD
    _count = "SELECT count(*) FROM freight_exchange.delivery WHERE state = 'done'"

    def __init__(self, database: str, *, concurrency: int, latency: float = 0.0) -> None:
        super().__init__(database)
        self.program = Program(run=run_bot, database=database, concurrency=concurrency, latency=latency)
        self._store = PostgresStore(database)
        binding = Binding(EndlessExchange.url, ACCOUNT[0], self.program.name)
        self.term: WorkStore = self._store.open(binding, lease=3600.0)
        now = Reading(boot_id=boot_id(), boot=boot_time(), wall=wall_time())
        state = State(watermark=Watermark(0.0, now), stage="primed", allowance=60.0)
        self.term.commit(lambda read_set: Commit(state=state.dump()))
        self._values = {"payload": _payload(), "handler": _HANDLER}

    def publish(self) -> float:
        """Add an event and enqueue its delivery, as the replica that scans does; return the time before the latter."""
        self._last += 1
        event = NewEvent(key=f"measured {self._last}", index=self._last, kind="new", payload=_payload())
        self.term.add_event(event, at=0.0)
        (stored,) = self.term.pending()
        began = time.monotonic()
        self.term.enqueue({stored.id: [_HANDLER]}, at=0.0)
        return began

    def close(self) -> None:
        self._store.close()
        super().close()


class PeerQueue(_Table):
    """Jobs of procrastinate.

    Args:
        database: Address of an empty database.
        concurrency: That of `Program`.
        locks: Whether each job has a lock, as a request has for its deliveries.
    """

    _insert = _ADD_JOBS
    _count = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"

    def __init__(self, database: str, *, concurrency: int, locks: bool) -> None:
        import procrastinate  # in the environment of the benchmarks alone

        super().__init__(database)
        self.program = Program(run=run_peer, database=database, concurrency=concurrency)
        schema = Path(procrastinate.__file__).with_name("sql") / "schema.sql"
        self._connection.execute(schema.read_text())
        self._values = {"payload": _payload().decode(), "handler": _HANDLER, "locks": locks}


@contextmanager
def empty_database(server: str, name: str) -> Iterator[str]:
    """Make a database for the block, and return its address."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield psycopg.conninfo.make_conninfo(server, dbname=name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _payload() -> bytes:
    request = RateRequest(
        index=1,
        ref_id="FX0000001",
        commodity="Electronics",
        origin="Hong Kong",
        destination="Los Angeles",
        need_date=datetime(2030, 1, 15),
        notes="10 cartons of Electronics from Hong Kong to Los Angeles",
        quantity=10,
        length=Decimal("1.2"),
        width=Decimal("0.8"),
        height=Decimal("0.5"),
        measure_unit="m",
        weight=Decimal(40),
        mass_unit="kg",
        incoterm="FOB",
        hazardous=False,
    )
    return pack(RequestEvent(kind="new", request=request, observed_between=(None, datetime.now(UTC))))
