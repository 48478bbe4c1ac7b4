"""Announcement of replicas on one database: only announced ones count for those of other versions."""

from __future__ import annotations

import pytest
from tests.unit.store.postgres.replicas import join, lapse, take_term

from freight_exchange.errors import FencedError
from freight_exchange.store import PostgresStore


def test_replica_counts_for_no_other_before_it_is_announced(store: PostgresStore) -> None:
    """It may never be able to scan."""
    old, new = join(store), join(store, "log", version="2", announces=False)
    twin = join(store, "log", version="2", announces=False)
    assert (old.has_newer(), new.has_peer(), twin.has_peer(), new.left_out()) == (False, False, False, ())
    term = take_term(old)
    assert new.take_term() is None
    new.announce()
    assert (old.has_newer(), new.has_peer(), old.left_out()) == (True, False, ("quote",))
    term.release()
    assert old.take_term() is None, "it is for the newer version"
    take_term(twin)
    assert (new.has_peer(), twin.has_peer()) == (True, True), "to take the term announces a replica"


def test_older_replica_that_is_not_announced_leaves_the_term_to_a_newer_one(store: PostgresStore) -> None:
    join(store).leave()
    join(store, version="2")
    again = join(store, announces=False)
    assert (again.has_newer(), again.take_term()) == (True, None)


def test_version_that_joined_first_but_is_announced_last_stays_the_older_one(store: PostgresStore) -> None:
    old, new = join(store, announces=False), join(store, version="2")
    assert (old.has_newer(), new.has_newer()) == (True, False)
    old.announce()
    assert (old.has_newer(), new.has_newer()) == (True, False)


def test_replica_whose_work_was_taken_over_is_not_announced(store: PostgresStore) -> None:
    seat, other = join(store, announces=False), join(store)
    lapse(seat)
    other.adopt()
    with pytest.raises(FencedError):
        seat.announce()
