"""Stores in files: locks, damage, full disks, kills, backups, and administration beside a running bot."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
import trio.testing
from tests.store.support import BINDING, read, write

from freight_exchange.errors import HeldError, StoreAwayError, StoreError
from freight_exchange.store import MemoryStore, Store, fleet
from freight_exchange.store.copy import backup, move
from freight_exchange.store.database import Database

_HOLDER: Final = """
import anyio, sys
from freight_exchange.store import Store, fleet
async def main():
    async with Store(sys.argv[1]) as store:
        await store.join(fleet.Binding("https://exchange.example/api", "me@co.example", "bot"))
        print("joined", flush=True)
        await anyio.sleep(60)
anyio.run(main)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the store."""
    with subprocess.Popen([sys.executable, "-c", _HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "joined\n"
        yield process
        process.kill()


async def fill(path: Path, rows: int = 300) -> None:
    """Make a store with some rows."""
    async with Store(path) as store:
        await store.join(BINDING)
        await store.run(_add_events, store.feeds["requests"], rows)


def _add_events(db: Database, feed: int, rows: int, first: int = 0) -> None:
    insert = "INSERT INTO event (feed, key, subject, kind, payload, at) VALUES (:feed, :key, 4, 'new', :payload, 1.5)"
    db.many(insert, [{"feed": feed, "key": str(first + n), "payload": bytes(200)} for n in range(rows)])


def _make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


class TestLock:
    async def test_one_process_at_a_time(self, path: Path, holder: subprocess.Popen[str]) -> None:
        with pytest.raises(HeldError, match=rf"is held by process {holder.pid} on .*: stop that one first") as caught:
            async with Store(path):
                pass
        assert f"process {holder.pid}" in caught.value.holder
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        async with Store(path) as store:
            joined = await store.join(BINDING)
            assert joined.is_alone
            assert await read(store, "SELECT count(*) FROM replica WHERE lease_until > 0") == [(1,)]

    async def test_a_second_object_in_this_process_is_refused(self, path: Path) -> None:
        async with Store(path):
            with pytest.raises(HeldError, match="feeds of one program share one Store object"):
                async with Store(path.parent / "." / "bot.db"):
                    pass
        async with Store(path):
            pass

    async def test_administration_works_beside_a_running_bot(self, path: Path, holder: subprocess.Popen[str]) -> None:
        async with Store(path, beside=True) as store:
            assert await read(store, "SELECT name FROM binding") == [("bot",)]
            assert await write(store, "UPDATE feed SET state = 'x' WHERE name = 'offers'") == 1
        assert holder.poll() is None

    @pytest.mark.parametrize("makes", [lambda path: None, lambda path: path.touch()], ids=["missing", "empty"])
    async def test_administration_makes_no_store(self, path: Path, makes: Callable[[Path], None]) -> None:
        makes(path)
        with pytest.raises(StoreError, match="a bot, or a watch with a store, makes it"):
            async with Store(path, beside=True):
                pass

    async def test_another_programs_lock_is_waited_out(self, path: Path) -> None:
        await fill(path)
        async with Store(path) as store:
            with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
                other.execute("BEGIN EXCLUSIVE")
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(write, store, "UPDATE feed SET state = 'x'")
                    await anyio.sleep(0.5)
                    assert other.execute("SELECT count(*) FROM feed WHERE state = 'x'").fetchone() == (0,)
                    other.execute("ROLLBACK")
            assert await read(store, "SELECT DISTINCT state FROM feed") == [("x",)]

    def test_a_lock_of_more_than_a_minute_is_reported_as_held(self, path: Path) -> None:
        async def main() -> None:
            async with Store(path, inline=True) as store:
                with closing(sqlite3.connect(path, isolation_level=None)) as other:
                    other.execute("BEGIN EXCLUSIVE")
                    began = anyio.current_time()
                    with pytest.raises(HeldError, match="is locked by another program that has it open: close that"):
                        await write(store, "UPDATE feed SET state = 'x'")
                    assert 60 <= anyio.current_time() - began <= 62

        anyio.run(main, backend="trio", backend_options={"clock": trio.testing.MockClock(autojump_threshold=0)})


class TestDamage:
    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda path: path.write_bytes(b""), None),
            (lambda path: path.write_bytes(b"x"), "is not a database"),
            (lambda path: path.write_bytes(b"hello" * 1000), "is not a database"),
            (lambda path: os.truncate(path, path.stat().st_size - 100), "is damaged .cut off"),
            (lambda path: os.truncate(path, 3 * 4096), "is damaged"),
            (lambda path: _overwrite(path, 4096 * 5, 4096 * 30), "is damaged"),
            (lambda path: _overwrite(path, 0, 100), "is not a database"),
            (lambda path: (path.unlink(), path.mkdir()), "is a directory"),
            (_make_pipe, "a device, a pipe or a socket"),
            (lambda path: (path.unlink(), Path(f"{path}-wal").write_bytes(bytes(500))), "its log .* is not"),
            (lambda path: _foreign(path, "CREATE TABLE letters (a)"), "is no store of this version"),
            (lambda path: _foreign(path, "CREATE TABLE feed (a)", "CREATE TABLE event (a)", "CREATE TABLE effect (a)"),
             "is no store of this version"),
            (lambda path: _version(path, "99"), "a newer version of this package .schema 99"),
        ],
        ids=["empty", "byte", "text", "cut-page", "cut", "pages", "head", "directory", "pipe", "log-alone", "foreign",
             "unreleased", "newer"],
    )  # fmt: skip
    async def test_what_is_no_store_is_refused_and_not_touched(
        self, path: Path, spoil: Callable[[Path], None], message: str | None
    ) -> None:
        await fill(path)
        spoil(path)
        before = _bytes(path)
        if message is None:
            async with Store(path):
                return
        with pytest.raises(StoreError, match=message):
            async with Store(path):
                pass
        assert _bytes(path) == before

    async def test_a_missing_directory_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match=r"there is no directory .*/none, make it first"):
            async with Store(tmp_path / "none" / "bot.db"):
                pass

    @pytest.mark.parametrize(
        ("pragma", "message"),
        [("max_page_count = 40", "has no room left"), ("query_only = ON", "cannot be written to")],
        ids=["full", "read-only"],
    )
    async def test_a_full_or_read_only_disk_loses_nothing_else(self, path: Path, pragma: str, message: str) -> None:
        await fill(path, 10)
        async with Store(path) as store:
            feed = (await store.join(BINDING)).feeds["requests"]
            store.database.run(f"PRAGMA {pragma}")
            with pytest.raises(StoreError, match=message):
                await store.run(_add_events, feed, 2000, 10)
            store.database.run("PRAGMA query_only = OFF")
            assert await read(store, "SELECT count(*) FROM event") == [(10,)]
            await write(store, "UPDATE event SET acked = true WHERE key = '1'")
        async with Store(path) as store:
            assert await read(store, "SELECT count(*), sum(acked) FROM event") == [(10, 1)]

    async def test_damaged_file_with_the_log_of_a_killed_process_stays_as_it_is(self, path: Path) -> None:
        await fill(path, 300)
        copied = [path.with_name("killed.db"), path.with_name("killed.db-wal")]
        async with Store(path) as store:
            await write(store, "UPDATE feed SET state = 'x'")
            for source, target in zip((path, Path(f"{path}-wal")), copied, strict=True):
                target.write_bytes(source.read_bytes())
        _overwrite(copied[0], 8192, 40_000)
        before = [_bytes(one) for one in copied]
        with pytest.raises(StoreError, match="is damaged"):
            async with Store(copied[0]):
                pass
        assert [_bytes(one) for one in copied] == before

    async def test_file_of_a_process_that_was_killed_before_its_first_commit_opens(self, path: Path) -> None:
        """SQLite sets the mode of the log under a rollback journal, which only a writer can roll back."""
        await fill(path, 300)
        killed = path.with_name("killed.db")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA cache_size = 1")
            connection.execute("BEGIN")
            connection.execute("UPDATE event SET payload = randomblob(500)")
            for end in ("", "-journal"):
                killed.with_name(f"killed.db{end}").write_bytes(path.with_name(f"{path.name}{end}").read_bytes())
        async with Store(killed) as store:
            assert await read(store, "SELECT count(*) FROM event") == [(300,)]

    @pytest.mark.parametrize("suffix", ["", "-wal", ".lock"])
    async def test_nothing_is_written_into_removed_files(self, path: Path, suffix: str) -> None:
        await fill(path)
        async with Store(path) as store:
            await write(store, "UPDATE feed SET state = 'x'")
            await anyio.Path(f"{path}{suffix}").rename(f"{path}.removed")
            with pytest.raises(StoreError, match="was removed or replaced while it was in use"):
                await write(store, "UPDATE feed SET state = 'y'")


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _overwrite(path: Path, start: int, end: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\x55" * (end - start))


def _foreign(path: Path, *statements: str) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)


def _version(path: Path, version: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", [version])


class TestDurability:
    async def test_each_commit_is_synchronous(self, path: Path) -> None:
        async with Store(path) as store:
            assert await read(store, "PRAGMA journal_mode") == [("wal",)]
            assert await read(store, "PRAGMA synchronous") == [(2,)]

    def test_a_kill_at_each_statement_leaves_whole_transactions(self, path: Path) -> None:
        # The child is killed before its statement of a number, in a transaction of five, after ten whole ones.
        program = """
import anyio, os, signal, sys
from freight_exchange.store import Store
async def main():
    async with Store(sys.argv[1]) as store:
        def work(db, at):
            for n in range(5):
                if n == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                db.run("UPDATE meta SET value = value + 1 WHERE key = :key", key=f"n{n}")
        await store.run(lambda db: db.many("INSERT INTO meta VALUES (:key, 0) ON CONFLICT DO NOTHING",
                                           [{"key": f"n{n}"} for n in range(5)]))
        for _ in range(10):
            await store.run(work, None)
        await store.run(work, int(sys.argv[2]))
anyio.run(main)
"""
        for at in range(5):
            done = subprocess.run([sys.executable, "-c", program, str(path), str(at)], check=False, timeout=60)
            assert done.returncode == -signal.SIGKILL
            with closing(sqlite3.connect(path)) as connection:
                values = connection.execute("SELECT DISTINCT value FROM meta WHERE key LIKE 'n%'").fetchall()
                assert [int(value) for (value,) in values] == [10 * (at + 1)]
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


class TestCopies:
    async def test_a_backup_of_a_running_bot_opens_as_a_store(self, path: Path) -> None:
        target = path.with_name("backup.db")
        async with Store(path) as store:
            feed = (await store.join(BINDING)).feeds["requests"]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store.run, _add_events, feed, 1000)
                tasks.start_soon(backup, path, target)
            with pytest.raises(StoreError, match="exists: give a new file"):
                await backup(path, target)
        async with Store(target) as copy:
            assert (await copy.join(BINDING)).is_alone
            assert await read(copy, "SELECT count(*) FROM event") in ([(0,)], [(1000,)])
        assert not [*path.parent.glob("*.partial*")]

    async def test_a_backup_needs_a_store(self, path: Path) -> None:
        with pytest.raises(StoreError, match="there is no store"):
            await backup(path, path.with_name("backup.db"))

    async def test_a_bot_moves_into_a_database(self, path: Path, address: str) -> None:
        await fill(path, 2500)
        async with Store(path) as store:
            await store.join(BINDING)
            await store.run(_more, store.feeds["offers"], store.binding, store.me)
        before = await _content(path)
        counts = await move(path, address)
        assert counts["event"] == 2500
        assert await _content(address) == before
        # The reply to the commit was lost: the same call finds that it is done.
        assert await move(path, address) == counts
        async with Store(path) as store:
            with pytest.raises(StoreError, match=r"was moved into the database .*: use that one"):
                await store.join(BINDING)
        async with Store(address) as store:
            await store.join(BINDING)
            assert len((await store.run(fleet.adopt, store.me)).effects) == 1
            ((number,),) = await store.run(
                lambda db: db.run(
                    "INSERT INTO event (feed, key, kind, payload, at) VALUES (1, 'z', 'new', :p, 0) RETURNING id", p=b""
                ).fetchall()
            )
            assert number > 9000, "a cursor may be after the last event"
        with pytest.raises(StoreError, match="has another bot: give"):
            await move(path, address)
        async with Store(path) as store:
            with pytest.raises(StoreError, match="was moved into the database"):
                await store.join(BINDING)

    async def test_a_target_with_another_bot_is_refused_and_the_source_stays_usable(
        self, path: Path, address: str
    ) -> None:
        await fill(path)
        async with Store(address) as store:
            await store.join(BINDING)
        with pytest.raises(StoreError, match="has another bot: give"):
            await move(path, address)
        async with Store(path) as store:
            await store.join(BINDING)

    async def test_an_empty_source_or_a_missing_database_is_refused(self, path: Path, address: str) -> None:
        with pytest.raises(StoreError, match="has no bot yet"):
            await move(path, address)
        with pytest.raises((StoreError, StoreAwayError)):
            await move(path, "postgresql://postgres@127.0.0.1:1/none")


def _more(db: Database, feed: int, binding: int, me: int) -> None:
    item = "(feed, key, digest, record, version, first_seen, last_seen, updated_after)"
    for n in range(3):
        db.run(
            f"INSERT INTO item {item} VALUES (:feed, :key, :digest, :record, 1, 0.1, 2, 1795905597.123456)",
            feed=feed, key=f"ü{n}", digest=bytes(range(256)), record=None if n else b"",
        )  # fmt: skip
    db.run("INSERT INTO handler (id, binding, name, feed, cursor) VALUES (5, :b, 'quote', 1, 9000)", b=binding)
    db.run("INSERT INTO delivery (event, handler, state, not_before, error) VALUES (3, 5, 'dead', 0.25, 'ü')")
    db.run(
        "INSERT INTO effect (binding, key, kind, subject, state, payload, at, owner)"
        " VALUES (:b, 'offer:4:0', 'offer', 4, 'sending', :p, 1, :me)",
        b=binding, p=b"{}", me=77,
    )  # fmt: skip
    db.run("INSERT INTO reading (binding, name, began, payload) VALUES (:b, 'bids', 1, :p)", b=binding, p=b"[]")


async def _content(target: str | Path) -> list[Any]:
    tables = ("binding", "feed", "item", "event", "handler", "delivery", "effect", "reading")
    queries = [f"SELECT * FROM {table}" for table in tables]
    async with Store(target) as store:
        found = [await read(store, query) for query in queries]
    drop = 2  # Leases of feeds differ.
    found[1] = [row[:-drop] for row in found[1]]
    return [sorted(repr([*map(_plain, row)]) for row in rows) for rows in found]


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else bytes(value) if isinstance(value, memoryview) else value


async def test_a_months_traffic_through_memory_keeps_its_size() -> None:
    async with MemoryStore() as store:
        feed = (await store.join(BINDING)).feeds["requests"]
        sizes = []
        for round_ in range(30):
            await store.run(_add_events, feed, 200, round_ * 200)
            await write(store, "DELETE FROM event")
            sizes.append((await read(store, "PRAGMA page_count"))[0][0])
        assert sizes[-1] == sizes[1]
