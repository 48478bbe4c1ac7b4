"""Tests of copying a file into a database."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.unit.store.postgres.databases import database_url, empty_store, execute
from tests.unit.store.rows import BINDING, INDEXES, LEASE, effect, event, everything, filled, put

from freight_exchange.errors import HeldError, StoreAwayError, StoreError
from freight_exchange.store import PostgresStore, SQLiteStore
from freight_exchange.store.postgres import copy, schema
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.copy import copy_file
from freight_exchange.store.postgres.fleet import frozen_sessions
from freight_exchange.store.sqlite.feed import SQLiteFeed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with rows of every kind."""
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
        adoption = seat.adopt()
        assert [one.key for one in adoption.effects] == ["offer:7:0"]
        assert len(adoption.deliveries) == len(before["deliveries"]["claimed"])  # type: ignore[index]
        term = seat.take_term()
        assert term is not None
        assert term.state == "old"
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
    """The replica has read the state that the copy would replace."""
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


class TestInterruptedCopy:
    """The connection is lost with the commit, or with its reply. The death of the process has the same effect."""

    @pytest.fixture(params=["commit", "reply"])
    def lost(self, request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        """Lose the commit or its reply, and return which one."""
        empty_store().close()
        with closing(DatabaseConnection(database_url())) as database:
            schema.prepare(database)
        execute_in: Any = psycopg.Connection.execute

        def cut(self: psycopg.Connection, query: str, *args: Any, **options: Any) -> Any:
            if query != "COMMIT":
                return execute_in(self, query, *args, **options)
            if request.param == "reply":
                execute_in(self, query)
            self.close()
            raise psycopg.OperationalError("cut")

        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", cut)
            with pytest.raises(StoreAwayError, match="the copy may be complete even so: run this command again"):
                copy_file(path, database_url())
        return str(request.param)

    def test_leaves_a_file_that_no_bot_uses(self, path: Path, lost: str) -> None:
        with pytest.raises(StoreError, match=r"a copy of the store .* was begun, and may be complete: run"):
            SQLiteStore(path).open(BINDING, lease=LEASE)

    def test_is_finished_by_another_call(self, path: Path, lost: str) -> None:
        assert copy_file(path, database_url())["feed"] == 1
        assert execute("SELECT count(*) FROM freight_exchange.effect WHERE key = 'offer:7:0'") == [(1,)]
        with pytest.raises(StoreError, match="was copied into a database"):
            SQLiteStore(path).open(BINDING, lease=LEASE)

    @pytest.mark.parametrize("lost", ["reply"], indirect=True)
    def test_is_finished_beside_replicas_that_use_it(self, path: Path, lost: str) -> None:
        with closing(PostgresStore(database_url())) as store:
            term = store.join(BINDING, handlers=["a"], version="1", lease=LEASE).take_term()
            assert term is not None
            put(term, events=[event("new", 9)])
            before = everything(term, INDEXES)
            copy_file(path, database_url())
            assert everything(term, INDEXES) == before

    @pytest.mark.parametrize("lost", ["reply"], indirect=True)
    def test_is_not_begun_again_in_another_database(
        self, path: Path, lost: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The bots of both databases would make the same offers."""
        monkeypatch.setattr(copy, "_DATABASE", "SELECT 'another'")
        with pytest.raises(StoreError, match=r"into the database postgresql://.* was begun, and may be complete"):
            copy_file(path, database_url())
        self.test_leaves_a_file_that_no_bot_uses(path, lost)

    @pytest.mark.parametrize("lost", ["commit"], indirect=True)
    def test_that_never_comes_leaves_the_file_usable(self, path: Path, lost: str) -> None:
        with closing(PostgresStore(database_url())) as store:
            put(store.open(BINDING, lease=LEASE), events=[event("a", 1)])
        with pytest.raises(StoreError, match="is in use already"):
            copy_file(path, database_url())
        with closing(SQLiteStore(path)) as file:
            assert file.open(BINDING, lease=LEASE).state == "old"


def test_copy_is_not_ended_by_a_replica_that_starts_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the copy reads the file, it is as silent to the server as a frozen process."""
    empty_store().close()
    monkeypatch.setattr(frozen_sessions, "_SILENCE", 0.0)
    with closing(DatabaseConnection(database_url())) as other:
        monkeypatch.setattr(copy, "_digest", lambda rows: frozen_sessions.end_frozen(other))
        assert sum(copy_file(path, database_url()).values()) > 0


def test_copy_of_a_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        copy_file(tmp_path / "none.db", database_url())
