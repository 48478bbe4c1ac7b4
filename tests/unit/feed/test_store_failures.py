"""Tests of a damaged or full store: the error states the remedy, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from freight_exchange import FreightExchange, HeldError, RequestEvent, StoreError
from freight_exchange.testing import Cargo, Sandbox
from freight_sandbox.server import serve

SOON = timedelta(seconds=1)
WATCHER = Path(__file__).parents[3] / "examples" / "watcher.py"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


def contents(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


async def take(exchange: FreightExchange, path: Path, count: int, **options: Any) -> list[int]:
    """Pull this many events and return their indexes; the last one is not acknowledged."""
    async with exchange.watch(store=path, interval=SOON, start="backfill", **options) as feed:
        taken: list[int] = []
        with anyio.fail_after(60):
            while len(taken) < count:
                event = await anext(feed)
                assert isinstance(event, RequestEvent)
                taken.append(event.request.index)
        return taken


async def refused(exchange: FreightExchange, path: Path, *words: str, **options: Any) -> StoreError:
    """Return the error at entering, after checking that it names the file, whose bytes stay the same."""
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.suffix != ".lock"}
    with pytest.raises(StoreError) as refusal:
        await take(exchange, path, 1, **options)
    after = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.suffix != ".lock"}
    message = str(refusal.value)
    assert path.name in message
    for word in words:
        assert word in message, message
    assert after[path.name] == before[path.name]
    return refusal.value


# Torn


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9])
async def test_a_file_that_was_cut_off_is_damaged_and_left_alone(path: Path, kept: float) -> None:
    sandbox = Sandbox()
    for _ in range(40):
        sandbox.publish()
    async with sandbox.client() as exchange:
        await take(exchange, path, 10)
        whole = contents(path)
        write(path, whole[: int(len(whole) * kept)])
        await refused(exchange, path, "damaged", "put a copy of it back")
        # The copy that the error asks for: everything goes on from there.
        write(path, whole)
        assert sorted(await take(exchange, path, 31)) == sorted(everything_but(sandbox, 9, path))


def everything_but(sandbox: Sandbox, acknowledged: int, path: Path) -> list[int]:
    """Return the published requests that remain after this many acknowledged events."""
    with sqlite3.connect(path) as connection:
        done = [row[0] for row in connection.execute('SELECT "index" FROM event ORDER BY id LIMIT ?', (acknowledged,))]
    connection.close()
    return [entry.request for entry in sandbox.audit_log.publications if entry.request not in done]


async def test_a_page_that_was_overwritten_is_found_before_anything_is_written(path: Path) -> None:
    sandbox = Sandbox()
    for _ in range(40):
        sandbox.publish()
    async with sandbox.client() as exchange:
        await take(exchange, path, 10)
        whole = contents(path)
        middle = len(whole) // 2 // 4096 * 4096
        write(path, whole[:middle] + b"\x5a" * 4096 + whole[middle + 4096 :])
        await refused(exchange, path, "damaged")


async def test_write_ahead_log_with_a_torn_end_keeps_earlier_commits(path: Path, tmp_path: Path) -> None:
    sandbox = Sandbox()
    first = sandbox.publish()
    copies = tmp_path / "copies"
    async with sandbox.client() as exchange:
        async with exchange.watch(store=path, interval=SOON, start="backfill") as feed:
            event = await anext(feed)
            assert isinstance(event, RequestEvent)
            assert event.request.index == first
            second = sandbox.publish()
            with anyio.fail_after(60):
                await anext(feed)
            # What a loss of power leaves behind: the files as they are, and the last block only half written.
            copies.mkdir()
            for name in (path.name, f"{path.name}-wal"):
                shutil.copy(path.with_name(name), copies / name)
        log = copies / f"{path.name}-wal"
        write(log, contents(log)[:-1000])
        third = sandbox.publish()
        # What was acknowledged last may come again; nothing that was published stays away.
        assert {second, third} <= {*await take(exchange, copies / path.name, 2)}


# Full


class Cramped(sqlite3.Connection):
    """Connection with a maximum of pages, after which the disk is full."""

    most = 1_000_000

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        super().execute(f"PRAGMA max_page_count = {self.most}")
        return super().execute(sql, parameters)


@contextmanager
def cramped(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Cramped]]:
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Cramped))
        patch.setattr(Cramped, "most", 1_000_000)
        yield Cramped


async def test_full_disk_is_reported_and_events_that_did_not_fit_come_when_there_is_room(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox()
    with cramped(monkeypatch) as disk:
        async with sandbox.client() as exchange:
            async with exchange.watch(store=path, interval=SOON) as feed:
                published = [sandbox.publish(Cargo(notes="n" * 500)) for _ in range(200)]
                disk.most = 1
                with pytest.raises(StoreError, match="has no room left"), anyio.fail_after(60):
                    await anext(feed)
                with pytest.raises(StoreError, match="make room on its disk"), anyio.fail_after(60):
                    await anext(feed)
                disk.most = 1_000_000
                with anyio.fail_after(60):
                    event = await anext(feed)
                assert isinstance(event, RequestEvent)
                seen = [event.request.index]
            assert sorted(await take(exchange, path, 200)) == published
    assert seen[0] in published


async def test_a_disk_that_is_full_from_the_start_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Sandbox()
    index = sandbox.publish()
    with cramped(monkeypatch) as disk:
        async with sandbox.client() as exchange:
            disk.most = 3
            with pytest.raises(StoreError, match="has no room left"):
                await take(exchange, path, 1)
            disk.most = 1_000_000
            assert await take(exchange, path, 1) == [index]


# Foreign


async def test_another_programs_database_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE invoice (number INTEGER)")
    connection.close()
    async with Sandbox().client() as exchange:
        await refused(exchange, path, "another program's database", "another path")


async def test_file_that_is_not_a_database_is_left_alone(path: Path) -> None:
    write(path, b"Dear Sir or Madam,\n" * 100)
    async with Sandbox().client() as exchange:
        await refused(exchange, path, "not a database", "another path")


async def test_the_store_of_another_account_or_service_is_refused(path: Path) -> None:
    sandbox = Sandbox()
    index = sandbox.publish()
    async with sandbox.client() as exchange, sandbox.client(sandbox.rival) as rival:
        assert await take(exchange, path, 1) == [index]
        await refused(rival, path, "belongs to forwarder@demo.example", "not to rival@demo.example")
        elsewhere = FreightExchange(
            "https://production.example/api",
            email=sandbox.forwarder.email,
            password=sandbox.forwarder.password,
            http_client=sandbox.http_client(),
        )
        async with elsewhere:
            await refused(elsewhere, path, Sandbox.url, "https://production.example/api")
        # Another feed of the same file is as new.
        assert await take(rival, path, 1, name="rival's") == [index]
        assert await take(exchange, path, 1) == [index]


# Newer


async def test_newer_schema_is_refused_and_its_own_version_still_reads_it(path: Path) -> None:
    sandbox = Sandbox()
    index = sandbox.publish()
    async with sandbox.client() as exchange:
        assert await take(exchange, path, 1) == [index]
        version = user_version(path, 99)
        await refused(exchange, path, "newer version", "schema 99", "upgrade")
        user_version(path, version)
        assert await take(exchange, path, 1) == [index]


def user_version(path: Path, version: int) -> int:
    """Set the user version of a database, and return the previous one."""
    connection = sqlite3.connect(path, isolation_level=None)
    (before,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    return int(before)


# Opened twice


async def test_second_feed_of_a_store_in_this_process_raises_held_error(path: Path) -> None:
    sandbox = Sandbox()
    first = sandbox.publish()
    async with sandbox.client() as exchange:
        async with exchange.watch(store=path, interval=SOON, start="backfill") as feed:
            with pytest.raises(HeldError, match=f"process {os.getpid()} on") as refusal:
                await take(exchange, path, 1)
            assert str(os.getpid()) in str(refusal.value.holder)
            event = await anext(feed)
            assert isinstance(event, RequestEvent)
            assert event.request.index == first
        assert await take(exchange, path, 1) == [first]


@pytest.mark.skipif(sys.platform == "win32", reason="kills by SIGKILL")
async def test_a_second_process_gets_the_holder_and_one_that_stands_by_takes_over(path: Path) -> None:
    sandbox = Sandbox()
    async with serve(sandbox.exchange) as face:
        account = sandbox.forwarder
        environment = {
            **os.environ,
            "FREIGHT_EXCHANGE_URL": face.url,
            "FREIGHT_EXCHANGE_EMAIL": account.email,
            "FREIGHT_EXCHANGE_PASSWORD": account.password,
        }
        command = [sys.executable, "-W", "error", str(WATCHER), str(path), "1"]
        exchange = FreightExchange(face.url, email=account.email, password=account.password)
        async with (
            exchange,
            await anyio.open_process(command, stdout=subprocess.PIPE, stderr=None, env=environment) as holder,
        ):
            assert holder.stdout is not None
            try:
                message = BufferedByteReceiveStream(holder.stdout)
                with anyio.fail_after(30):
                    assert await message.receive_until(b"\n", 1000) == b"watching for requests"
                    known = sandbox.publish()
                    assert f"new FX{known:06d}" in (await message.receive_until(b"\n", 1000)).decode()
                    with pytest.raises(HeldError, match=f"is held by process {holder.pid} on"):
                        await take(exchange, path, 1)
                    scans = sandbox.audit_log.count
                    while sandbox.audit_log.count < scans + 2:  # noqa: ASYNC110  # another process looks
                        await anyio.sleep(0.01)
                    taken: list[int] = []
                    unknown = 0
                    async with anyio.create_task_group() as tasks:

                        async def stand_by() -> None:
                            taken.extend(await take(exchange, path, 1, standby=True))

                        tasks.start_soon(stand_by)
                        await anyio.sleep(0.3)
                        assert not taken
                        holder.send_signal(signal.SIGKILL)
                        await holder.wait()
                        unknown = sandbox.publish()
            finally:
                # Leaving the context waits for its end.
                if holder.returncode is None:
                    holder.kill()
        assert taken == [unknown]
