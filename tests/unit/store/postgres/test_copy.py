"""Copy of a file into a database."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.store.postgres.databases import database_url, empty_store, execute
from tests.unit.store.rows import BINDING, INDEXES, LEASE, effect, event, everything, filled, put

from freight_exchange.errors import HeldError, StoreError
from freight_exchange.store import PostgresStore, SQLiteStore
from freight_exchange.store.postgres import copy
from freight_exchange.store.postgres.copy import copy_file
from freight_exchange.store.sqlite.feed import SQLiteFeed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with rows of every kind."""
    path = tmp_path / "bot.db"
    with closing(SQLiteStore(path)) as store:
        feed = filled(store)
        feed.put_effect(effect("offer:7:0", "sending"), expected_state=None)
        assert isinstance(feed, SQLiteFeed)
        feed.acknowledge([], at=50.0, filtered=[feed.pending()[0].id])
    return path


def test_everything_is_copied_and_unfinished_work_is_adopted(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        before = everything(store.open(BINDING, lease=LEASE), INDEXES)
    empty_store().close()
    counts = copy_file(path, database_url())
    assert counts["feed"] == 1
    assert min(counts.values()) > 0
    with closing(PostgresStore(database_url())) as store:
        seat = store.join(BINDING, handlers=["a"], version="1", lease=LEASE)
        assert seat.state() == "old"
        adoption = seat.adopt()
        assert [one.key for one in adoption.effects] == ["offer:7:0"]
        assert len(adoption.deliveries) == len(before["deliveries"]["claimed"])  # type: ignore[index]
        term = seat.take_term()
        assert term is not None
        assert everything(term, INDEXES) == before
        assert put(term, events=[event("new", 9)]) == 1


def test_file_is_marked_as_moved(path: Path) -> None:
    empty_store().close()
    copy_file(path, database_url())
    for use in (lambda: SQLiteStore(path).open(BINDING, lease=LEASE), lambda: copy_file(path, database_url())):
        with pytest.raises(StoreError, match="was copied into a database"):
            use()


def test_held_file_is_not_copied(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        store.open(BINDING, lease=LEASE)
        with pytest.raises(HeldError):
            copy_file(path, database_url())


def test_database_with_events_is_refused(path: Path) -> None:
    with closing(empty_store()) as store:
        put(store.open(BINDING, lease=LEASE), events=[event("a", 1)])
    with pytest.raises(StoreError, match="is in use already"):
        copy_file(path, database_url())
    assert SQLiteStore(path).open(BINDING, lease=LEASE).state == "old"


def test_database_with_a_replica_is_refused(path: Path) -> None:
    """It has read the state that the copy would replace."""
    with closing(empty_store()) as store:
        store.join(BINDING, handlers=["a"], version="1", lease=LEASE)
        with pytest.raises(StoreError, match="is in use already"):
            copy_file(path, database_url())
    assert sum(copy_file(path, database_url()).values()) > 0


def test_copy_that_differs_is_undone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty_store().close()
    monkeypatch.setattr(copy, "_digest", lambda rows: object())
    with pytest.raises(StoreError, match=r"the copy of the table seen .* differs"):
        copy_file(path, database_url())
    assert execute("SELECT count(*) FROM freight_exchange.binding") == [(0,)]
    with closing(SQLiteStore(path)) as store:
        assert store.open(BINDING, lease=LEASE).state == "old"


def test_copy_of_a_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        copy_file(tmp_path / "none.db", database_url())
