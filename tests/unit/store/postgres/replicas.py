"""Replicas for tests: seats, terms, and expired leases."""

from __future__ import annotations

import threading

from tests.unit.store.postgres.databases import execute
from tests.unit.store.rows import BINDING, event, put

from freight_exchange.store.postgres.fleet.seat import PostgresSeat
from freight_exchange.store.postgres.store import PostgresStore
from freight_exchange.store.work import WorkStore

__all__ = ["await_lock", "enqueue", "join", "lapse", "take_term"]


def join(store: PostgresStore, *handlers: str, version: str = "1", announces: bool = True) -> PostgresSeat:
    """Take a seat with these handlers; default `quote`."""
    seat = store.join(BINDING, handlers=handlers or ["quote"], version=version, lease=60.0)
    if announces:
        seat.announce()
    return seat


def lapse(seat: PostgresSeat) -> None:
    """Expire the lease of a seat."""
    execute("UPDATE freight_exchange.replica SET lease_until = '2000-01-01' WHERE id = %s", seat.replica.id)
    # It has not seen a later one, which a database that lost commits had.
    seat.replica.renewed = 0.0


def take_term(seat: PostgresSeat) -> WorkStore:
    """Take the term, which must be free."""
    term = seat.take_term()
    assert term is not None
    return term


def await_lock(waiting: threading.Thread) -> None:
    """Wait until a statement of a thread waits for a lock of another transaction."""
    while not execute("SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
        assert waiting.is_alive(), "it did not wait"
        waiting.join(0.01)


def enqueue(seat: PostgresSeat, *indexes: int) -> None:
    """Add a delivery for each request, in a term of the seat."""
    term = take_term(seat)
    put(term, events=[event(f"{index}", index) for index in indexes])
    term.enqueue({one.id: ["quote"] for one in term.pending(limit=1000)}, at=1.0)
    term.release()
