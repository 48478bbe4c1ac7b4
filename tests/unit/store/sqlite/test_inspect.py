"""Tests of read-only access to a store's file while another process holds it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from tests.unit.store.rows import BINDING, LEASE, put

from freight_exchange.errors import StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store.lease_holder import Holder
from freight_exchange.store.sqlite.inspect import feeds, last_holder, open_snapshot


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of a store with a feed, without a holder."""
    path = tmp_path / "bot #1?.db"
    with closing(SQLiteStore(path)) as store:
        put(store.open(BINDING, lease=LEASE), state="one")
    return path


def change(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement, values)


def test_feeds_of_a_file_are_read_and_not_written(path: Path) -> None:
    with open_snapshot(path) as connection:
        (feed,) = feeds(connection)
        assert (feed.binding, feed.state, feed.holder) == (BINDING, "one", None)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM feed")
    assert last_holder(path) is None


def test_snapshot_stays_the_same_while_the_holder_writes(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        feed = store.open(BINDING, lease=LEASE)
        with open_snapshot(path) as connection:
            before = feeds(connection)
            put(feed, state="two")
            assert feeds(connection) == before
        assert str(before[0].holder).startswith(f"process {os.getpid()} on ")
        assert last_holder(path) == before[0].holder
        with open_snapshot(path) as connection:
            assert feeds(connection)[0].state == "two"


def test_holder_that_is_gone_or_whose_lease_ended_is_none(path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    current = Holder.current()
    for holder, seconds, is_holding in (
        (current, 60, True),
        (attrs.evolve(current, pid=1), 60, True),
        (attrs.evolve(current, pid=ended.pid), 60, False),
        # On another machine only the lease is known.
        (attrs.evolve(current, host="elsewhere", pid=ended.pid), 60, True),
        (attrs.evolve(current, host="elsewhere"), -1, False),
    ):
        change(path, "UPDATE feed SET holder = ?, lease_until = ?", holder.to_json(), time.time() + seconds)
        with open_snapshot(path) as connection:
            assert feeds(connection)[0].holder == (holder if is_holding else None)


def test_last_holder_is_the_one_of_the_newest_lease(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        store.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
    older, newer = (Holder(host="elsewhere", pid=pid, since="now") for pid in (7, 8))
    change(path, "UPDATE feed SET holder = ?, lease_until = 10", older.to_json())
    change(path, "UPDATE feed SET holder = ?, lease_until = 20 WHERE name = 'bids'", newer.to_json())
    assert last_holder(path) == newer


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRAGMA user_version = 1", "was last used by an older version"),
        ("PRAGMA user_version = 99", "was written by a newer version"),
        ("PRAGMA application_id = 1", "is another program's database"),
    ],
)
def test_file_that_cannot_be_read_is_refused(path: Path, statement: str, message: str) -> None:
    change(path, statement)
    with pytest.raises(StoreError, match=message), open_snapshot(path):
        pass


def test_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"), open_snapshot(tmp_path / "none.db"):
        pass
    assert last_holder(tmp_path / "none.db") is None
    assert list(tmp_path.iterdir()) == []
