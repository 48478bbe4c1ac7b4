"""Tests of the migration of older files: all data is kept, and a crash or failure leaves the file as it was."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from tests.unit.store.rows import BINDING, LEASE, Watch, event, everything, put, seen

from freight_exchange.errors import StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store.sqlite.schema import COPYING_ID, VERSION, prepare

INDEXES = range(8)
FEEDS = ("requests", "bids")
Contents = list[tuple[str | None, dict[str, object]]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file of version 1, as that version wrote it."""
    path = tmp_path / "bot.db"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(Path(__file__).with_name("version_1.sql").read_text())
        old.execute("PRAGMA journal_mode = WAL")
    return path


def fill(path: Path) -> None:
    """Write the data of the file of version 1."""
    with closing(SQLiteStore(path)) as store:
        feed = store.open(BINDING, lease=LEASE)
        old = [seen(index, last_seen=index * 10.0) for index in range(1, 4)]
        put(
            feed,
            [*old, seen(4, record=None), seen(5, digest=b"")],
            [event("new:1", 1), event("gap:7", None, "gap"), event("new:2", 2)],
            state='{"epoch":1}',
        )
        feed.acknowledge([feed.pending()[0].id], at=30.0)
        bids = store.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
        put(bids, [seen(1, version=9)], [event("new:1", 1)], state="other")


def contents(path: Path) -> Contents:
    with closing(SQLiteStore(path)) as store:
        feeds = [store.open(attrs.evolve(BINDING, feed=name), lease=LEASE) for name in FEEDS]
        return [(feed.state, everything(feed, INDEXES)) for feed in feeds]


def schema(path: Path) -> tuple[int, list[str]]:
    """Return the version and the tables, as any program reads them."""
    with closing(sqlite3.connect(path)) as plain:
        (version,) = plain.execute("PRAGMA user_version").fetchone()
        rows = plain.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name")
        return version, [" ".join(sql.split()) for (sql,) in rows]


def test_migrated_file_equals_a_new_one_with_the_same_data(path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    fill(new)
    assert contents(path) == contents(new)
    assert [state for state, _ in contents(path)] == ['{"epoch":1}', "other"]
    assert schema(path) == schema(new)
    assert schema(path)[0] == VERSION


def test_migrated_file_keeps_deliveries(path: Path) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    first, second = feed.pending()
    feed.enqueue({first.id: [], second.id: ["quote"]}, at=40.0)
    (one,) = feed.claim(now=50.0, limit=9)
    assert (one.event, one.payload) == (second.id, b"payload")
    feed.settle(one.event, one.handler, state="done", at=51.0)
    feed.prune(before=1000.0)
    assert put(feed, events=[event("new:1"), event("new:2")]) == 2
    assert min(later.id for later in feed.pending()) > second.id
    store.close()


def test_crash_during_migration_leaves_the_file_as_it_was(path: Path, tmp_path: Path, watch: Watch) -> None:
    copies: list[Path] = []

    def copy_files(statement: str) -> None:
        folder = tmp_path / str(len(copies))
        folder.mkdir()
        for name in ("bot.db", "bot.db-wal"):
            if (tmp_path / name).exists():
                shutil.copy(tmp_path / name, folder)
        copies.append(folder / "bot.db")

    old = schema(path)
    watch(copy_files)
    with closing(SQLiteStore(path)) as store:
        store.open(BINDING, lease=LEASE)
    watch(None)
    expected = contents(path)
    found = [schema(copy) for copy in copies]
    assert (found[0], found[-1]) == (old, schema(path))
    assert [version for version, _ in found] == sorted(version for version, _ in found)
    assert all(one in (found[0], found[-1]) for one in found)
    assert sum(version == 1 for version, _ in found) > 20
    for copy in copies[::5]:
        assert contents(copy) == expected


def test_failure_during_migration_leaves_the_file_as_it_was(path: Path, tmp_path: Path, watch: Watch) -> None:
    old = schema(path)
    is_migrating = False
    statements: list[str] = []
    remaining = -1

    def fail(statement: str) -> None:
        nonlocal is_migrating, remaining
        is_migrating = (is_migrating or statement == "BEGIN IMMEDIATE") and "COMMIT" not in statement
        if not is_migrating or statement.startswith("after") or statement == "ROLLBACK":
            return
        statements.append(statement)
        if remaining == 0:
            raise sqlite3.OperationalError("the disk is gone")
        remaining -= 1

    for failing in range(12):
        copy = tmp_path / f"{failing}.db"
        shutil.copy(path, copy)
        store = SQLiteStore(copy)
        is_migrating, remaining = False, failing
        watch(fail)
        with pytest.raises(StoreError, match="the disk is gone"):
            store.open(BINDING, lease=LEASE)
        watch(None)
        assert schema(copy) == old
        store.open(BINDING, lease=LEASE)
        assert schema(copy)[0] == VERSION
        store.close()
    assert any("CREATE TABLE effect" in statement for statement in statements)


def test_migration_keeps_the_mark_of_a_copy_that_was_begun(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {COPYING_ID}")
        prepare(connection, str(path), accepts_begun_copy=True)
        assert connection.execute("PRAGMA application_id").fetchone() == (COPYING_ID,)
    assert schema(path)[0] == VERSION
