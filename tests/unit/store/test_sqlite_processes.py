"""Two processes and one file: the lock, who is said to hold it, take-over, and the epoch that fences the late."""

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

import attrs
import pytest
from tests.unit.store.rows import BINDING, LEASE, event, known, put, seen

from freight_exchange.errors import HeldError, StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store import holder as holder_module
from freight_exchange.store import lock as lock_module
from freight_exchange.store.holder import Holder
from freight_exchange.store.protocol import HeldHereError

HOLDER = """
import sys
from freight_exchange.store import SQLiteStore
from freight_exchange.store.protocol import Binding, Commit

store = SQLiteStore(sys.argv[1])
feed = store.open(Binding("https://host/api", "me@co.example", "requests"), lease=60.0)
number = 0
while True:
    number += 1
    feed.commit(lambda found: Commit(state=str(number)))
    if number == 3:
        print("holding", flush=True)
"""

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


@contextmanager
def holding(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the store by now."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT / "src"
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "holding\n"
            yield holder
        finally:
            holder.kill()


class TestTwoProcesses:
    def test_the_second_is_told_who_holds_it_and_takes_over_from_the_dead(self, path: Path) -> None:
        with holding(path) as holder:
            store = SQLiteStore(path)
            with pytest.raises(HeldError, match="is held by process") as caught:
                store.open(BINDING, lease=LEASE)
            assert caught.value.holder in str(caught.value)
            assert f"process {holder.pid} on {Holder.current().host} since 20" in caught.value.holder
            os.kill(holder.pid, signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
            holder.wait()
        feed = store.open(BINDING, lease=LEASE)
        assert feed.state is not None
        assert int(feed.state) >= 3
        store.close()

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
    def test_a_fork_neither_uses_nor_keeps_the_lock(self, path: Path) -> None:
        store = SQLiteStore(path)
        feed = store.open(BINDING, lease=LEASE)
        put(feed, state="parent's")
        context = multiprocessing.get_context("fork")
        here, there = context.Pipe()

        def child() -> None:
            try:
                put(feed, state="child's")
            except StoreError as error:
                there.send(str(error))
            try:
                SQLiteStore(path).open(BINDING, lease=LEASE)
            except HeldError as error:
                there.send((type(error), str(error)))
            there.recv()

        with warnings.catch_warnings():
            # Later Pythons warn of forks where there are threads; this one does nothing that they could disturb.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = context.Process(target=child)
            process.start()
        assert "a fork cannot use it" in here.recv()
        kind, said = here.recv()
        assert kind is HeldError
        assert f"is held by process {os.getpid()} on" in said
        store.close()
        other = SQLiteStore(path)
        assert other.open(BINDING, lease=LEASE).state == "parent's", "the child lives, and holds nothing"
        other.close()
        here.send("done")
        process.join()
        assert process.exitcode == 0

    def test_the_first_goes_on_where_its_lock_was_removed(self, path: Path) -> None:
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

    @pytest.mark.skipif(sys.platform == "win32", reason="there is none whose end is still to be asked for")
    def test_one_that_was_killed_holds_nothing_though_its_parent_has_not_asked_for_its_end(self, path: Path) -> None:
        with holding(path) as holder:
            holder.kill()
            os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
            store = SQLiteStore(path)
            assert store.open(BINDING, lease=LEASE).state is not None
            store.close()


class TestTwoObjects:
    def test_on_one_file_exclude_each_other(self, path: Path) -> None:
        first, second = SQLiteStore(path), SQLiteStore(path)
        feed = first.open(BINDING, lease=LEASE)
        said = rf"is open already in this process \(process {os.getpid()} on .*\): .* share one SQLiteStore object"
        with pytest.raises(HeldHereError, match=said) as caught:
            second.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
        assert str(caught.value.holder) in str(caught.value)
        feed.release()
        second.open(BINDING, lease=LEASE)
        with pytest.raises(HeldError):
            first.open(BINDING, lease=LEASE)
        second.close()
        first.open(BINDING, lease=LEASE)
        first.close()

    def test_a_feed_that_stays_keeps_the_file(self, path: Path) -> None:
        first, second = SQLiteStore(path), SQLiteStore(path)
        feed = first.open(BINDING, lease=LEASE)
        other = first.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
        feed.release()
        with pytest.raises(HeldError):
            second.open(BINDING, lease=LEASE)
        put(other, state="goes on")
        first.close()

    def test_a_store_that_is_forgotten_holds_nothing(self, path: Path) -> None:
        store = SQLiteStore(path)
        feed = store.open(BINDING, lease=LEASE)
        put(feed, state="kept")
        del store, feed
        gc.collect()
        again = SQLiteStore(path)
        assert again.open(BINDING, lease=LEASE).state == "kept"
        again.close()

    def test_a_refused_open_leaves_the_file_free(self, path: Path) -> None:
        first = SQLiteStore(path)
        put(first.open(BINDING, lease=LEASE), state="kept")
        first.close()
        wrong, right = SQLiteStore(path), SQLiteStore(path)
        with pytest.raises(StoreError, match="belongs to"):
            wrong.open(attrs.evolve(BINDING, account="you@co.example"), lease=LEASE)
        assert right.open(BINDING, lease=LEASE).state == "kept"
        right.close()
        wrong.close()


class TestFencing:
    def test_who_lost_the_lease_writes_nothing_more(self, path: Path) -> None:
        first, second = SQLiteStore(path), SQLiteStore(path)
        late = first.open(BINDING, lease=LEASE)
        put(late, [seen(1)], [event("a", 1)], state="first")
        # As over a network whose locks do not hold.
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
        assert _state(path) == "second"

    @pytest.mark.parametrize("left", [30.0, -1.0])
    def test_a_holder_on_another_host_is_respected_while_its_lease_lasts(self, path: Path, left: float) -> None:
        store = SQLiteStore(path)
        put(store.open(BINDING, lease=LEASE), state="kept")
        store.close()
        elsewhere = Holder(host="elsewhere", pid=7, since="2026-01-01 00:00:00 UTC")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(
                "UPDATE feed SET holder = ?, lease_until = unixepoch('now') + ?"
                if sqlite3.sqlite_version_info >= (3, 38)
                else "UPDATE feed SET holder = ?, lease_until = strftime('%s', 'now') + ?",
                (elsewhere.to_json(), left),
            )
        again = SQLiteStore(path)
        if left > 0:
            with pytest.raises(HeldError, match="process 7 on elsewhere since 2026") as caught:
                again.open(BINDING, lease=LEASE)
            assert caught.value.holder == str(elsewhere)
        else:
            assert again.open(BINDING, lease=LEASE).state == "kept"
        again.close()

    @pytest.mark.parametrize(
        ("them", "runs", "held"),
        [
            ({}, True, True),
            ({}, False, False),
            # Started anew, the machine may have given the number to another program.
            ({"boot": "earlier"}, True, False),
            # Another container, whose processes have numbers of their own.
            ({"host": "elsewhere"}, False, True),
        ],
    )
    def test_a_holder_on_this_machine_is_respected_only_where_its_lock_is_another_one(
        self, path: Path, them: dict[str, str], runs: bool, held: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(holder_module, "_read_id", lambda file: file.name)
        monkeypatch.setattr(holder_module, "_is_running", lambda pid: runs if pid == 7 else pid == os.getpid())
        store, file = SQLiteStore(path), path.with_name("bot.db.lock")
        store.open(BINDING, lease=LEASE).release()
        holder = attrs.evolve(Holder.current(), pid=7, **them)

        def kept_out_by(left: float, note: str) -> str:
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("UPDATE feed SET holder = ?, lease_until = ?", (holder.to_json(), time.time() + left))
            file.write_text(note)
            try:
                store.open(BINDING, lease=LEASE).release()
            except HeldError as error:
                return str(error.holder)
            return ""

        kept_out = str(holder) if held else ""
        assert kept_out_by(60, "") == kept_out
        assert kept_out_by(60, attrs.evolve(holder, pid=8).to_json()) == kept_out
        assert kept_out_by(-1, "") == "", "no longer than its lease"
        assert kept_out_by(60, attrs.evolve(holder, since="earlier").to_json()) == "", "it had this very lock"
        store.close()

    @pytest.mark.parametrize(
        ("them", "shared"),
        [
            ({"host": "pod-b"}, True),
            ({"host": "pod-a", "boot": "2"}, True),
            ({"host": "pod-a", "boot": "2", "machine": "n"}, False),
            ({"host": "pod-b", "boot": "2"}, False),
            ({"host": "pod-b", "boot": ""}, False),
            ({"host": "pod-a", "boot": "", "machine": ""}, True),
        ],
    )
    def test_who_is_on_this_machine_is_told_by_its_kernel_and_not_by_a_name(
        self, them: dict[str, str], shared: bool
    ) -> None:
        """A container that is made anew has another name, and two machines may have the same one."""
        us = Holder(host="pod-a", pid=1, since="now", boot="1", machine="m")
        other = attrs.evolve(us, pid=2, **them)
        assert Holder.from_json(other.to_json()) == other
        assert us.shares_locks_with(other) is shared

    def test_a_file_that_is_removed_or_replaced_under_it_is_written_no_more(self, path: Path) -> None:
        store = SQLiteStore(path)
        feed = store.open(BINDING, lease=LEASE)
        put(feed, state="kept")
        aside = path.with_suffix(".aside")
        path.rename(aside)
        with pytest.raises(StoreError, match="removed or replaced"):
            put(feed, state="lost")
        path.write_bytes(b"another")
        with pytest.raises(StoreError, match="removed or replaced"):
            feed.pending()
        aside.replace(path)
        put(feed, state="found")
        store.close()
        assert _state(path) == "found"

    @pytest.mark.parametrize("another", [False, True])
    def test_a_log_that_is_removed_or_replaced_under_it_is_told_before_more_is_lost(
        self, path: Path, another: bool
    ) -> None:
        """Until it is put into the file, all that was committed lies in it: a kill would leave nothing of that."""
        store = SQLiteStore(path)
        feed = store.open(BINDING, lease=LEASE)
        put(feed, state="kept")
        log = path.with_name("bot.db-wal")
        log.unlink()
        if another:
            log.write_bytes(b"another")
        said = rf"the log {log} .* removed or replaced while it was in use: stop this program with SIGTERM or Ctrl-C"
        with pytest.raises(StoreError, match=said):
            put(feed, state="lost")
        with pytest.raises(StoreError, match=said):
            feed.pending()
        with pytest.raises(StoreError, match=said):
            store.open(attrs.evolve(BINDING, feed="bids"), lease=LEASE)
        feed.release()
        assert _state(path) == "kept", "an orderly end has put it into the file"

    def test_a_log_that_goes_with_a_release_is_another_one_at_the_next_open(self, path: Path) -> None:
        store = SQLiteStore(path)
        put(store.open(BINDING, lease=LEASE), state="kept")
        store.close()
        store = SQLiteStore(path)
        for number in range(3):
            feed = store.open(BINDING, lease=LEASE)
            put(feed, state=str(number))
            feed.release()
            assert not path.with_name("bot.db-wal").exists()
            # Else the next log may be known by the very number that this one had.
            path.with_name(f"between {number}").touch()
        store.close()
        assert _state(path) == "2"

    def test_every_commit_prolongs_the_lease(self, path: Path) -> None:
        store = SQLiteStore(path)
        feed = store.open(BINDING, lease=LEASE)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("UPDATE feed SET lease_until = 0")
            put(feed)
            (left,) = other.execute("SELECT lease_until - strftime('%s', 'now') FROM feed").fetchone()
        assert LEASE - 5 < left <= LEASE + 5
        store.close()

    def test_a_lease_that_is_given_back_names_nobody(self, path: Path) -> None:
        store = SQLiteStore(path)
        store.open(BINDING, lease=LEASE).release()
        with closing(sqlite3.connect(path)) as plain:
            assert plain.execute("SELECT holder, lease_until, epoch FROM feed").fetchone() == (None, 0.0, 1)
        store.close()


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_not_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take, removed = lock_module._lock, False

    def remove_first(file: int, path: Path) -> None:
        nonlocal removed
        if not removed:
            removed = True
            path.unlink()
        take(file, path)

    monkeypatch.setattr(lock_module, "_lock", remove_first)
    store = SQLiteStore(path)
    store.open(BINDING, lease=LEASE)
    with pytest.raises(HeldHereError):
        SQLiteStore(path).open(BINDING, lease=LEASE)
    store.close()


@pytest.mark.parametrize("note", [None, "", "{}", "[]", "null", '{"host": 1}', '{"host": "h", "pid": [], "since": ""}'])
def test_a_note_that_names_nobody_is_read_as_such(note: str | None) -> None:
    assert Holder.from_json(note) is None


def test_whose_a_lock_is_is_not_told_by_its_note(path: Path) -> None:
    """In containers that share a host's name, each is process 1."""
    here = Holder.current()
    file = path.with_name("bot.db.lock")
    for note, said in ((here.to_json(), f"is held by process {here.pid} on"), ("", "is held by another process")):
        # As another process would have it.
        other = lock_module._taken(file)
        file.write_text(note)
        with pytest.raises(HeldError, match=said) as caught:
            SQLiteStore(path).open(BINDING, lease=LEASE)
        assert not isinstance(caught.value, HeldHereError)
        os.close(other)
    store = SQLiteStore(path)
    store.open(BINDING, lease=LEASE)
    file.write_text(attrs.evolve(here, pid=here.pid + 1).to_json())
    with pytest.raises(HeldHereError):
        SQLiteStore(path).open(BINDING, lease=LEASE)
    file.write_text("")
    with pytest.raises(HeldHereError, match="is open already in this process: feeds of one program"):
        SQLiteStore(path).open(BINDING, lease=LEASE)
    store.close()


def _state(path: Path) -> str | None:
    store = SQLiteStore(path)
    try:
        return store.open(BINDING, lease=LEASE).state
    finally:
        store.close()
