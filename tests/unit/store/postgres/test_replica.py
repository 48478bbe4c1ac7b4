"""Lease of a replica: whose clock it follows, and what its heartbeat waits for."""

from __future__ import annotations

import time

import pytest
from tests.unit.store.postgres.replicas import join, lapse, take_term

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
    """A long commit would end the lease otherwise."""
    first, second = join(store), join(store)
    lapse(first)
    with first.work.transaction():
        assert second.heartbeat()
        assert not first.heartbeat()
        assert not second.heartbeat(), "nothing is to be adopted any more"
