"""Tests of the SQLite store: who may open a feed, take-over, and the epoch that fences a late writer."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.unit.store.rows import BINDING, LEASE, event, known, put, read_state, seen

from freight_exchange.errors import ConfigurationError, HeldError, StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store import lease_holder as holder_module
from freight_exchange.store.lease_holder import Holder
from freight_exchange.store.protocol import HeldHereError

PROGRAM = """
import sys, time
from freight_exchange.store import SQLiteStore
from freight_exchange.store.protocol import Binding, Commit

store = SQLiteStore(sys.argv[1])
feed = store.open(Binding("https://host/api", "me@co.example", "requests"), lease=60.0)
number = 0
while True:
    number += 1
    feed.commit(lambda read_set: Commit(state=str(number)))
    if number == 3:
        print("holding", flush=True)
    # Leaves other processes room to lock the database.
    time.sleep(0.005)
"""

SRC = Path(__file__).parents[4] / "src"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


@contextmanager
def holding(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process that holds the store."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True, cwd=SRC
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "holding\n"
            yield holder
        finally:
            holder.kill()


def set_holder(path: Path, holder: Holder, seconds: float) -> None:
    """Write a holder whose lease has this many seconds left, as a process that died leaves it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE feed SET holder = ?, lease_until = ?", (holder.to_json(), time.time() + seconds))


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_text_that_is_no_path_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="path"):
        SQLiteStore(name)


def test_second_process_learns_who_holds_the_store_and_takes_over_when_it_is_killed(path: Path) -> None:
    with holding(path) as holder:
        store = SQLiteStore(path)
        with pytest.raises(HeldError, match="is held by process") as caught:
            store.open(BINDING, lease=LEASE)
        assert not isinstance(caught.value, HeldHereError)
        assert caught.value.holder in str(caught.value)
        assert f"process {holder.pid} on {Holder.current().host} since 20" in caught.value.holder
        os.kill(holder.pid, signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
        holder.wait()
    feed = store.open(BINDING, lease=LEASE)
    assert feed.state is not None
    assert int(feed.state) >= 3
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no zombies")
def test_killed_process_that_its_parent_has_not_reaped_holds_nothing(path: Path) -> None:
    with holding(path) as holder:
        holder.kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        assert read_state(path) is not None


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_forked_child_neither_uses_nor_holds_the_store(path: Path) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    put(feed, state="parent's")
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def child() -> None:
        for call in (lambda: put(feed, state="child's"), lambda: SQLiteStore(path).open(BINDING, lease=LEASE)):
            try:
                call()
            except StoreError as error:
                there.send((type(error), str(error)))
        there.recv()

    with warnings.catch_warnings():
        # Later Pythons warn of a fork beside threads; no thread of this test matters.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = context.Process(target=child)
        process.start()
    assert "a fork cannot use it" in here.recv()[1]
    kind, message = here.recv()
    assert kind is HeldError
    assert f"is held by process {os.getpid()} on" in message
    store.close()
    assert read_state(path) == "parent's", "the living child holds nothing"
    here.send("done")
    process.join()
    assert process.exitcode == 0


def test_holder_whose_lock_file_was_removed_keeps_its_lease(path: Path) -> None:
    with holding(path) as holder:
        path.with_name("bot.db.lock").unlink()
        store = SQLiteStore(path)
        for _ in range(2):
            with pytest.raises(HeldError, match=f"is held by process {holder.pid} on .* s unless it is extended"):
                store.open(BINDING, lease=LEASE)
        assert holder.poll() is None
        holder.kill()
        holder.wait()
    assert store.open(BINDING, lease=LEASE).state is not None
    store.close()


def test_two_stores_of_one_process_exclude_each_other(path: Path) -> None:
    first, second = SQLiteStore(path), SQLiteStore(path)
    feed = first.open(BINDING, lease=LEASE)
    message = rf"is open already in this process \(process {os.getpid()} on .*\): .* share one SQLiteStore object"
    with pytest.raises(HeldHereError, match=message) as caught:
        second.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
    assert str(caught.value.holder) in str(caught.value)
    feed.release()
    second.open(BINDING, lease=LEASE)
    with pytest.raises(HeldError):
        first.open(BINDING, lease=LEASE)
    second.close()
    first.open(BINDING, lease=LEASE)
    first.close()


def test_file_is_held_until_its_last_feed_is_released(path: Path) -> None:
    first, second = SQLiteStore(path), SQLiteStore(path)
    feed = first.open(BINDING, lease=LEASE)
    other = first.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
    feed.release()
    with pytest.raises(HeldError):
        second.open(BINDING, lease=LEASE)
    put(other, state="goes on")
    first.close()


def test_collected_store_holds_nothing(path: Path) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    put(feed, state="kept")
    del store, feed
    gc.collect()
    assert read_state(path) == "kept"


def test_refused_open_leaves_the_file_free(path: Path) -> None:
    first = SQLiteStore(path)
    put(first.open(BINDING, lease=LEASE), state="kept")
    first.close()
    wrong = SQLiteStore(path)
    with pytest.raises(StoreError, match="belongs to"):
        wrong.open(attrs.evolve(BINDING, account="you@co.example"), lease=LEASE)
    assert read_state(path) == "kept"
    wrong.close()


def test_writer_that_lost_its_lease_is_fenced(path: Path) -> None:
    first, second = SQLiteStore(path), SQLiteStore(path)
    late = first.open(BINDING, lease=LEASE)
    put(late, [seen(1)], [event("a", 1)], state="first")
    # As on a network file system whose locks do not work.
    path.with_name("bot.db.lock").unlink()
    feed = second.open(BINDING, lease=LEASE)
    assert feed.state == "first"
    ids = [one.id for one in late.pending()]
    for write in (
        lambda: put(late, [seen(1, version=9)], [event("b")], state="late"),
        lambda: late.acknowledge(ids, at=1.0),
        lambda: late.prune(before=1000.0),
    ):
        with pytest.raises(StoreError, match=f"was taken over by process {os.getpid()}"):
            write()
    late.release()
    first.close()
    assert known(feed, 1) == {1: seen(1)}
    assert feed.unacknowledged == len(feed.pending()) == 1
    put(feed, state="second")
    second.close()
    assert read_state(path) == "second"


@pytest.mark.parametrize("seconds", [30.0, -1.0])
def test_holder_on_another_host_is_respected_until_its_lease_ends(path: Path, seconds: float) -> None:
    store = SQLiteStore(path)
    put(store.open(BINDING, lease=LEASE), state="kept")
    store.close()
    elsewhere = Holder(host="elsewhere", pid=7, since="2026-01-01 00:00:00 UTC")
    set_holder(path, elsewhere, seconds)
    if seconds < 0:
        assert read_state(path) == "kept"
        return
    with pytest.raises(HeldError, match="process 7 on elsewhere since 2026") as caught:
        read_state(path)
    assert caught.value.holder == str(elsewhere)


@pytest.mark.parametrize(
    ("changes", "is_running", "is_held"),
    [
        ({}, True, True),
        ({}, False, False),
        # After a reboot another program may have the same process number.
        ({"boot": "earlier"}, True, False),
        # Another container has process numbers of its own.
        ({"host": "elsewhere"}, False, True),
    ],
)
def test_holder_on_this_machine_is_respected_only_if_it_locked_another_lock_file(
    path: Path, changes: dict[str, Any], is_running: bool, is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder_module, "_read_id", lambda file: file.name)
    monkeypatch.setattr(holder_module, "_is_running", lambda pid: is_running if pid == 7 else pid == os.getpid())
    store = SQLiteStore(path)
    store.open(BINDING, lease=LEASE).release()
    inode = path.with_name("bot.db.lock").stat().st_ino
    holder = attrs.evolve(Holder.current(), pid=7, **changes)

    def holder_that_excludes(holder: Holder, seconds: float) -> str:
        set_holder(path, holder, seconds)
        try:
            store.open(BINDING, lease=LEASE).release()
        except HeldError as error:
            return str(error.holder)
        return ""

    expected = str(holder) if is_held else ""
    assert holder_that_excludes(holder, 60) == expected
    assert holder_that_excludes(attrs.evolve(holder, lock=inode + 1), 60) == expected
    assert holder_that_excludes(holder, -1) == "", "no longer than its lease"
    assert holder_that_excludes(attrs.evolve(holder, lock=inode), 60) == "", "it had this very lock"
    store.close()


def test_every_commit_extends_the_lease(path: Path) -> None:
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE feed SET lease_until = 0")
        put(feed)
        (seconds,) = other.execute("SELECT lease_until - strftime('%s', 'now') FROM feed").fetchone()
    assert LEASE - 5 < seconds <= LEASE + 5
    store.close()


def test_released_lease_names_no_holder(path: Path) -> None:
    store = SQLiteStore(path)
    store.open(BINDING, lease=LEASE).release()
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("SELECT holder, lease_until, epoch FROM feed").fetchone() == (None, 0.0, 1)
    store.close()
