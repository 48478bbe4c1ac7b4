"""A store's file is looked into beside its holder: nothing is changed, and who holds it is told."""

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

from freight_exchange.errors import StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store.holder import Holder
from freight_exchange.store.protocol import Binding, Commit
from freight_exchange.store.sqlite.inspect import feeds, open_snapshot

BINDING = Binding("https://exchange.example/api", "me@co.example", "requests")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a feed that nobody holds."""
    path = tmp_path / "bot #1?.db"
    with closing(SQLiteStore(path)) as store:
        store.open(BINDING, lease=60).commit(lambda _: Commit(state='{"said": 1}'))
    return path


def change(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement, values)


def test_it_tells_what_is_there(path: Path) -> None:
    with open_snapshot(path) as connection:
        (feed,) = feeds(connection)
    assert (feed.binding, feed.state, feed.holder) == (BINDING, '{"said": 1}', None)


def test_nothing_can_be_written_through_it(path: Path) -> None:
    with open_snapshot(path) as connection, pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM feed")


def test_it_sees_one_moment_while_the_holder_goes_on(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        held = store.open(BINDING, lease=60)
        with open_snapshot(path) as connection:
            before = feeds(connection)
            held.commit(lambda _: Commit(state='{"said": 2}'))
            assert feeds(connection) == before
        assert str(before[0].holder).startswith(f"process {os.getpid()} on ")
        with open_snapshot(path) as connection:
            assert feeds(connection)[0].state == '{"said": 2}'


def test_who_was_killed_holds_nothing(path: Path) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    here = Holder.current()
    for holder, lease, holds in (
        (here, 60, True),
        (attrs.evolve(here, pid=1), 60, True),
        (attrs.evolve(here, pid=done.pid), 60, False),
        # Of another machine only the lease can be told.
        (attrs.evolve(here, host="elsewhere", pid=done.pid), 60, True),
        (attrs.evolve(here, host="elsewhere"), -1, False),
    ):
        change(path, "UPDATE feed SET holder = ?, lease_until = ?", holder.to_json(), time.time() + lease)
        with open_snapshot(path) as connection:
            assert feeds(connection)[0].holder == (holder if holds else None)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("PRAGMA user_version = 1", "was last used by an older version"),
        ("PRAGMA user_version = 99", "was written by a newer version"),
        ("PRAGMA application_id = 1", "is another program's database"),
    ],
)
def test_what_it_cannot_read_it_says(path: Path, statement: str, sentence: str) -> None:
    change(path, statement)
    with pytest.raises(StoreError, match=sentence), open_snapshot(path):
        pass


def test_a_file_that_there_is_not_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"), open_snapshot(tmp_path / "none.db"):
        pass
    assert list(tmp_path.iterdir()) == []
