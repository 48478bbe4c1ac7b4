"""Tests of the connection to a store's file."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from tests.unit.store.rows import BINDING, LEASE, put, read_state

from freight_exchange.errors import HeldError, StoreError
from freight_exchange.platform.file_lock import FileLock
from freight_exchange.store import SQLiteStore
from freight_exchange.store.protocol import HeldHereError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


def test_file_that_is_removed_or_replaced_is_not_written(path: Path) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    put(feed, state="kept")
    moved = path.with_suffix(".aside")
    path.rename(moved)
    with pytest.raises(StoreError, match="removed or replaced"):
        put(feed, state="lost")
    path.write_bytes(b"another")
    with pytest.raises(StoreError, match="removed or replaced"):
        feed.pending()
    moved.replace(path)
    put(feed, state="found")
    store.close()
    assert read_state(path) == "found"


@pytest.mark.parametrize("is_replaced", [False, True])
def test_removed_or_replaced_log_stops_writes_and_an_orderly_end_saves_its_commits(
    path: Path, is_replaced: bool
) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    put(feed, state="kept")
    log = path.with_name("bot.db-wal")
    log.unlink()
    if is_replaced:
        log.write_bytes(b"another")
    message = rf"the log {log} .* removed or replaced while it was in use: stop this program with SIGTERM or Ctrl-C"
    with pytest.raises(StoreError, match=message):
        put(feed, state="lost")
    with pytest.raises(StoreError, match=message):
        feed.pending()
    with pytest.raises(StoreError, match=message):
        store.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
    feed.release()
    assert read_state(path) == "kept"


def test_log_that_a_release_removes_is_another_one_at_the_next_open(path: Path) -> None:
    store = SQLiteStore(path)
    put(store.open(BINDING, lease=LEASE), state="kept")
    store.close()
    store = SQLiteStore(path)
    for number in range(3):
        feed = store.open(BINDING, lease=LEASE)
        put(feed, state=str(number))
        feed.release()
        assert not path.with_name("bot.db-wal").exists()
        # Takes the inode of the removed log, which the next one could have too.
        path.with_name(f"between {number}").touch()
    store.close()
    assert read_state(path) == "2"


def test_locked_file_without_a_lease_is_held_by_another_process(path: Path) -> None:
    # Its lock file is locked as by another process: not through a store.
    lock = FileLock.acquire(path.with_name("bot.db.lock"))
    assert lock is not None
    store = SQLiteStore(path)
    with pytest.raises(HeldError, match="is held by another process: stop that one first") as caught:
        store.open(BINDING, lease=LEASE)
    assert type(caught.value) is HeldError
    lock.release()
    store.open(BINDING, lease=LEASE)
    with pytest.raises(HeldHereError):
        SQLiteStore(path).open(BINDING, lease=LEASE)
    store.close()


@pytest.mark.parametrize("setting", ["journal_mode = 'wal'", "synchronous = 2"])
def test_each_commit_is_synced_to_the_disk(path: Path, setting: str) -> None:
    """No test can cut the power, so this one checks the settings that survive it."""
    name, _, value = setting.partition(" = ")
    store = SQLiteStore(path)
    for _ in ("created", "opened again"):
        feed = store.open(BINDING, lease=LEASE)
        with store._database.using(feed.lease) as connection:
            assert repr(connection.execute(f"PRAGMA {name}").fetchone()[0]) == value
        feed.release()
    store.close()
