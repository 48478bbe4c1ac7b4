"""Tests of a feed in a file: it outlives the process, and a write is complete or absent after a crash or failure."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.store.rows import (
    BINDING,
    INDEXES,
    LEASE,
    STEPS,
    Watch,
    event,
    everything,
    filled,
    put,
    read_state,
    seen,
)

from freight_exchange.errors import StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store.protocol import TrackedRequest
from freight_exchange.store.sqlite import connection as connection_module

RECORD = b"x" * 900


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


def contents(path: Path) -> tuple[str | None, dict[str, object]]:
    """Open the file as the next process does, and read everything."""
    with closing(SQLiteStore(path)) as store:
        feed = store.open(BINDING, lease=LEASE)
        return feed.state, everything(feed, INDEXES)


def copy_files(path: Path, copies: list[Path]) -> None:
    """Copy the database and its log, as a crash leaves them."""
    folder = path.parent / str(len(copies))
    folder.mkdir()
    for file in (path, path.with_name(f"{path.name}-wal")):
        if file.exists():
            shutil.copy(file, folder)
    copies.append(folder / path.name)


def test_everything_outlives_the_lease_and_the_process(path: Path) -> None:
    store = SQLiteStore(path)
    feed = filled(store)
    before = everything(feed, INDEXES)
    claimed = feed.deliveries(state="claimed")
    feed.release()
    again = store.open(BINDING, lease=LEASE)
    assert everything(again, INDEXES) == before
    assert again.deliveries(state="claimed") == claimed != []
    store.close()
    assert contents(path) == ("old", before)


@pytest.mark.parametrize("step", STEPS)
def test_crash_at_any_statement_leaves_all_or_nothing(step: str, path: Path, watch: Watch) -> None:
    copies: list[Path] = []
    store = SQLiteStore(path)
    feed = filled(store)
    watch(lambda statement: copy_files(path, copies))
    STEPS[step](feed)
    watch(None)
    store.close()

    found = [contents(copy) for copy in copies]
    after = contents(path)
    assert found[0] != after
    changes = [number for number in range(1, len(found)) if found[number] != found[number - 1]]
    assert len(changes) == 1, "everything changes at one statement"
    assert found[-1] == after
    assert len(found) >= 8


def test_crash_during_creation_loses_nothing(path: Path, watch: Watch) -> None:
    copies: list[Path] = []
    watch(lambda statement: copy_files(path, copies))
    store = SQLiteStore(path)
    store.open(BINDING, lease=LEASE)
    watch(None)
    store.close()
    assert len(copies) > 20
    assert [read_state(copy) for copy in copies] == [None] * len(copies)


@pytest.mark.parametrize("step", STEPS)
def test_failure_at_any_statement_leaves_the_feed_usable(step: str, path: Path, watch: Watch) -> None:
    statements: list[str] = []
    store = SQLiteStore(path)
    feed = filled(store)
    feed.release()
    initial = path.with_name("initial.db")
    shutil.copy(path, initial)
    feed = store.open(BINDING, lease=LEASE)
    watch(statements.append)
    STEPS[step](feed)
    watch(None)
    store.close()
    count = sum(not statement.startswith("after") for statement in statements)
    assert count >= 4

    for failing in range(count):
        copy = path.with_name(f"{failing}.db")
        shutil.copy(initial, copy)
        again = SQLiteStore(copy)
        feed = again.open(BINDING, lease=LEASE)
        before = everything(feed, INDEXES)
        remaining = failing

        def fail(statement: str) -> None:
            nonlocal remaining
            if statement.startswith("after") or statement == "ROLLBACK":
                return
            remaining -= 1
            if remaining == -1:
                raise sqlite3.OperationalError("the disk is gone")

        watch(fail)
        with pytest.raises(StoreError, match="the disk is gone"):
            STEPS[step](feed)
        watch(None)
        assert remaining == -1
        assert everything(feed, INDEXES) == before
        STEPS[step](feed)
        assert everything(feed, INDEXES) != before
        assert feed.unacknowledged == len(feed.pending())
        again.close()


def test_failed_rollback_is_repeated(path: Path, watch: Watch) -> None:
    is_failing = True

    def fail(statement: str) -> None:
        if is_failing and statement in ("COMMIT", "ROLLBACK"):
            raise sqlite3.OperationalError("the disk is gone")

    store = SQLiteStore(path)
    feed = filled(store)
    watch(fail)
    with pytest.raises(StoreError, match="the disk is gone"):
        STEPS["commit"](feed)
    is_failing = False
    assert STEPS["commit"](feed) == 1
    watch(None)
    store.close()
    assert read_state(path) == "new"


def test_full_disk_is_survived(path: Path) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    put(feed, [seen(1)], [event("1", 1)], state="kept")
    before = everything(feed, INDEXES)
    requests, events = [seen(index, record=RECORD) for index in range(100)], [event("2", 2)]
    with store._database.using(feed.lease) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
    for _ in range(2):
        with pytest.raises(StoreError, match="no room left: make room"):
            put(feed, requests, events, state="lost")
    assert everything(feed, INDEXES) == before
    connection.execute("PRAGMA max_page_count = 100000")
    assert put(feed, requests, events, state="new") == 1
    assert feed.unacknowledged == len(feed.pending()) == 2
    store.close()
    assert read_state(path) == "new"


@pytest.mark.skipif(sys.platform == "win32", reason="the size of files cannot be limited")
def test_write_that_the_system_refuses_is_survived(path: Path) -> None:
    import resource

    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    put(feed, [seen(1)], state="kept")
    before = everything(feed, INDEXES)
    requests = [seen(index, record=RECORD) for index in range(100)]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name("bot.db-wal").stat().st_size + 5000, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"check the disk|make room"):
            put(feed, requests, state="lost")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert everything(feed, INDEXES) == before
    put(feed, requests, state="new")
    store.close()
    assert read_state(path) == "new"


def test_lock_of_another_program_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_BUSY_TIMEOUT", 0.05)
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked by another program"):
            put(feed, state="late")
        other.execute("ROLLBACK")
    put(feed, state="in time")
    store.close()
    assert read_state(path) == "in time"


@pytest.mark.parametrize("invalid", [seen(2**63), seen(2, first_seen=float("nan"))])
def test_value_that_cannot_be_kept_is_reported(path: Path, invalid: TrackedRequest) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    with pytest.raises(StoreError, match="cannot keep a value"):
        put(feed, [seen(1), invalid], state="lost")
    with pytest.raises(StoreError, match="cannot keep a value"):
        put(feed, state="\ud800")
    assert put(feed, [], [event("1")]) == 1
    assert feed.history(1)[0] is None
    store.close()
