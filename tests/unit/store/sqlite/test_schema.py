"""A file of an older version becomes one of today, with all that is in it; a crash on the way leaves it as it was."""

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
from freight_exchange.store.sqlite.schema import VERSION
from freight_exchange.store.work import BotStore

INDEXES = range(8)
FEEDS = ("requests", "bids")
Contents = list[tuple[str | None, dict[str, object]]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of version 1, as it was written then."""
    path = tmp_path / "bot.db"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(Path(__file__).with_name("version_1.sql").read_text())
        old.execute("PRAGMA journal_mode = WAL")
    return path


def fill(store: BotStore) -> None:
    """What that file was filled with."""
    feed = store.open(BINDING, lease=LEASE)
    put(
        feed,
        [*(seen(index, last_seen=index * 10.0) for index in range(1, 4)), seen(4, record=None), seen(5, digest=b"")],
        [event("new:1", 1), event("gap:7", None, "gap"), event("new:2", 2)],
        state='{"epoch":1}',
    )
    feed.acknowledge([feed.pending()[0].id], at=30.0)
    bids = store.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
    put(bids, [seen(1, version=9)], [event("new:1", 1)], state="other")
    feed.release()
    bids.release()


def contents(store: BotStore) -> Contents:
    feeds = [store.open(attrs.evolve(BINDING, feed=name), lease=LEASE) for name in FEEDS]
    try:
        return [(feed.state, everything(feed, INDEXES)) for feed in feeds]
    finally:
        for feed in feeds:
            feed.release()


def written(path: Path) -> tuple[int, list[str]]:
    """The version and the schema, as a program reads them that knows nothing of stores."""
    with closing(sqlite3.connect(path)) as plain:
        (version,) = plain.execute("PRAGMA user_version").fetchone()
        return version, [
            row[0] for row in plain.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name")
        ]


def test_it_keeps_all_that_it_had(path: Path, tmp_path: Path) -> None:
    new = SQLiteStore(tmp_path / "new.db")
    fill(new)
    migrated = SQLiteStore(path)
    assert contents(migrated) == contents(new)
    assert [state for state, _ in contents(migrated)] == ['{"epoch":1}', "other"]
    assert written(path)[0] == VERSION
    as_text = [" ".join(sql.split()) for sql in written(path)[1]]
    assert as_text == [" ".join(sql.split()) for sql in written(tmp_path / "new.db")[1]]
    migrated.close()
    new.close()


def test_it_is_used_as_any_other(path: Path) -> None:
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


def test_a_crash_at_any_statement_leaves_it_as_it_was(path: Path, tmp_path: Path, watch: Watch) -> None:
    copies: list[Path] = []

    def as_it_is_on_the_disk(statement: str) -> None:
        place = tmp_path / str(len(copies))
        place.mkdir()
        for name in ("bot.db", "bot.db-wal"):
            if (tmp_path / name).exists():
                shutil.copy(tmp_path / name, place)
        copies.append(place / "bot.db")

    old = written(path)
    store = SQLiteStore(path)
    watch(as_it_is_on_the_disk)
    store.open(BINDING, lease=LEASE)
    watch(None)
    expected = contents_after_closing(store, path)
    found = [written(copy) for copy in copies]
    assert found[0] == old
    assert found[-1] == written(path)
    assert [version for version, _ in found] == sorted(version for version, _ in found)
    assert all(one in (found[0], found[-1]) for one in found), "all of it or nothing"
    assert sum(version == 1 for version, _ in found) > 20
    for copy in copies[::5]:
        again = SQLiteStore(copy)
        assert contents(again) == expected
        again.close()


def test_a_failure_at_any_statement_leaves_it_as_it_was(path: Path, tmp_path: Path, watch: Watch) -> None:
    old = written(path)
    begun = False
    statements: list[str] = []
    left = -1

    def fail(statement: str) -> None:
        nonlocal begun, left
        begun = (begun or statement == "BEGIN IMMEDIATE") and "COMMIT" not in statement
        if not begun or statement.startswith("after") or statement == "ROLLBACK":
            return
        statements.append(statement)
        if left == 0:
            raise sqlite3.OperationalError("the disk is gone")
        left -= 1

    for failing in range(12):
        copy = tmp_path / f"{failing}.db"
        shutil.copy(path, copy)
        store = SQLiteStore(copy)
        begun, left = False, failing
        watch(fail)
        with pytest.raises(StoreError, match="the disk is gone"):
            store.open(BINDING, lease=LEASE)
        watch(None)
        assert written(copy) == old
        store.open(BINDING, lease=LEASE)
        assert written(copy)[0] == VERSION
        store.close()
    assert any("CREATE TABLE effect" in statement for statement in statements)


def contents_after_closing(store: BotStore, path: Path) -> Contents:
    store.close()
    again = SQLiteStore(path)
    try:
        return contents(again)
    finally:
        again.close()
