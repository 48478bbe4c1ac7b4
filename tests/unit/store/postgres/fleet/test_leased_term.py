"""Tests of the lease of a feed without a heartbeat, as in `exchange.watch`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.store.postgres.databases import database_url, execute
from tests.unit.store.rows import BINDING, put

from freight_exchange import HeldError
from freight_exchange.errors import FencedError, StoreAwayError
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.fleet.term import PostgresTerm
from freight_exchange.store.postgres.store import PostgresStore


@pytest.fixture
def other() -> Iterator[PostgresStore]:
    """Return the store of another process."""
    store = PostgresStore(database_url())
    yield store
    store.close()


def take(store: PostgresStore) -> PostgresTerm:
    return store.open(BINDING, lease=60.0)


def lapse() -> None:
    execute("UPDATE freight_exchange.replica SET lease_until = '2000-01-01'")


def test_each_commit_renews_it(store: PostgresStore, other: PostgresStore) -> None:
    feed = take(store)
    lapse()
    put(feed, state="one")
    with pytest.raises(HeldError, match="is held by process"):
        take(other)
    put(feed, state="two")


def test_standby_that_tries_for_hours_leaves_no_rows(store: PostgresStore, other: PostgresStore) -> None:
    take(store)
    for _ in range(3):
        with pytest.raises(HeldError):
            take(other)
    assert execute("SELECT count(*) FROM freight_exchange.replica") == [(1,)]


def test_it_can_be_taken_over_once_there_was_no_commit_for_its_time(store: PostgresStore, other: PostgresStore) -> None:
    feed = take(store)
    lapse()
    take(other)
    with pytest.raises(FencedError):
        put(feed, state="one")


def test_release_raises_nothing_while_the_database_is_away(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = take(store)
    away = StoreAwayError("the database is away")
    monkeypatch.setattr(DatabaseConnection, "_connect", lambda _: away)
    execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'freight-exchange'")
    feed.release()


def test_it_is_free_after_a_try_that_failed(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(PostgresTerm, "__init__", fail)
    with pytest.raises(OSError, match=r"^$"):
        take(store)
    monkeypatch.undo()
    take(other)
