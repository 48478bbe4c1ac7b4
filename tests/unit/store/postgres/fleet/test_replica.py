"""Tests of a replica's lease: the clock that it follows, and the locks that its heartbeat waits for."""

from __future__ import annotations

import time

import pytest
from tests.unit.store.postgres.databases import database_url, execute
from tests.unit.store.postgres.replicas import join, lapse, take_term
from tests.unit.store.rows import BINDING

from freight_exchange.errors import HeldError
from freight_exchange.store.postgres.snapshot import snapshots
from freight_exchange.store.postgres.store import PostgresStore


def test_lease_follows_the_clock_of_the_database(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a machine may be years behind."""
    first, second = join(store), join(store)
    take_term(first)
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: 0.0)
        assert not first.heartbeat()
    assert not second.heartbeat()
    assert second.take_term() is None


def test_heartbeat_renews_the_lease_during_a_transaction_of_its_replica(store: PostgresStore) -> None:
    """Otherwise the lease would end during a long commit."""
    first, second = join(store), join(store)
    lapse(first)
    with first.work.transaction():
        assert second.heartbeat()
        assert not first.heartbeat()
        assert not second.heartbeat(), "nothing is to be adopted any more"


def set_back(hours: float) -> None:
    """Set back the clock of the database, as seen by the leases."""
    execute("UPDATE freight_exchange.replica SET lease_until = lease_until + make_interval(secs => %s)", hours * 3600.0)


def test_lease_of_a_replica_that_ended_before_the_clock_was_set_back_is_over(store: PostgresStore) -> None:
    """Otherwise no replica would scan for as long as the clock was set back."""
    take_term(join(store))
    set_back(24.0)
    second = join(store)
    assert second.heartbeat()
    assert second.take_term() is not None
    second.adopt()
    assert not second.heartbeat()


def test_replica_that_ended_before_the_clock_was_set_back_counts_nowhere(store: PostgresStore) -> None:
    old, _peer, newer = join(store, "quote", "log"), join(store, "quote", "log"), join(store, "quote")
    take_term(newer)
    assert (old.has_newer(), old.has_peer(), old.left_out()) == (True, True, ("log",))
    set_back(24.0 * 4)
    old.heartbeat()
    assert (old.has_newer(), old.has_peer(), old.left_out()) == (False, False, ())
    with snapshots(database_url()) as (snapshot,):
        assert (snapshot.holder, len(snapshot.replicas)) == (None, 1)


def test_lease_is_not_over_because_it_is_long(store: PostgresStore) -> None:
    take_term(join(store))
    set_back(0.9)
    second = join(store)
    assert not second.heartbeat()
    assert second.take_term() is None


def test_lease_of_a_watch_may_be_longer_than_an_hour(store: PostgresStore) -> None:
    with_long_interval = 6.0 * 3600
    term = store.open(BINDING, lease=with_long_interval)
    with pytest.raises(HeldError):
        store.open(BINDING, lease=with_long_interval)
    term.release()
