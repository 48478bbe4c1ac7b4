"""Tests of a cancelled `resolve`, which completes nevertheless.

The tests use real time and a file, since a thread continues the write.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from tests.unit.bot.rig import UNPROCESSED, amounts_on, sent, strike

from freight_exchange import Bot
from freight_exchange.bot.offers.in_doubt import InDoubtResolver
from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.errors import ConfigurationError, ValidationError
from freight_exchange.models import StillUnknown
from freight_exchange.store import SQLiteStore
from freight_exchange.store.sqlite import feed as feeds
from freight_exchange.testing import Sandbox

ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
TIMEOUT = 30
pytestmark = pytest.mark.anyio


class Disk:
    """Disk that writes offers slowly, on request."""

    def __init__(self) -> None:
        self.is_slow = False
        self.begun, self.go_on = threading.Event(), threading.Event()

    def write(self) -> None:
        if self.is_slow:
            self.begun.set()
            assert self.go_on.wait(TIMEOUT)

    async def busy(self) -> None:
        assert await anyio.to_thread.run_sync(self.begun.wait, TIMEOUT)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made, put = Disk(), feeds.SQLiteFeed.put_effect

    def slowly(feed: Any, effect: Any, **expected: Any) -> bool:
        if effect.key.startswith("offer"):
            made.write()
        return put(feed, effect, **expected)

    async def nothing_is_seen(resolver: InDoubtResolver, record: OfferRecord) -> StillUnknown:
        return StillUnknown()

    monkeypatch.setattr(feeds.SQLiteFeed, "put_effect", slowly)
    monkeypatch.setattr(InDoubtResolver, "_check", nothing_is_seen)
    return made


async def until(true: Callable[[], object]) -> None:
    with anyio.fail_after(TIMEOUT):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await anyio.sleep(0.01)


@asynccontextmanager
async def doubtful(sandbox: Sandbox, path: Path, calls: list[int]) -> AsyncIterator[tuple[Bot, int]]:
    """Run a bot with one parked offer during the block."""
    store = SQLiteStore(path / "bot.db")
    second = timedelta(seconds=1)
    bot = Bot(sandbox.client(), store=store, start="backfill", interval=second, settle=timedelta(0), drain=second)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        calls.append(request.index)
        await ctx.offer(amount=7, currency=840)

    strike(sandbox, UNPROCESSED)
    index = sandbox.publish()
    async with bot:
        await until(lambda: bot.status().parked)
        del calls[:]
        yield bot, index
    store.close()


async def it_was_resolved(sandbox: Sandbox, bot: Bot, index: int, calls: list[int]) -> None:
    await until(lambda: bot.status().offers.get("confirmed"))
    assert calls == [index]
    assert amounts_on(sandbox, index) == ["7"]
    assert sent(sandbox) == 2
    assert await bot.doubts() == []
    with pytest.raises(ValidationError, match="not in doubt"):
        await bot.resolve(index, taken=False)
    assert bot.status().state == "running"


async def test_cancelled_in_commit_of_another_step(sandbox: Sandbox, tmp_path: Path, disk: Disk) -> None:
    calls, scope = list[int](), anyio.CancelScope()
    async with doubtful(sandbox, tmp_path, calls) as (bot, index), anyio.create_task_group() as tasks:
        unit_of_work = bot._components().unit_of_work
        started, go_on = threading.Event(), threading.Event()

        async def another(work: Callable[[], object]) -> None:
            await unit_of_work.write("settle", lambda store: work())

        async def resolve() -> None:
            with scope:
                await bot.resolve(index, taken=False)

        def keep_busy() -> None:
            started.set()
            assert go_on.wait(TIMEOUT)

        disk.is_slow = True
        tasks.start_soon(another, keep_busy)
        assert await anyio.to_thread.run_sync(started.wait, TIMEOUT)
        # The one whose turn is next takes the other's step with its own.
        tasks.start_soon(another, lambda: None)
        await anyio.sleep(0.05)
        tasks.start_soon(resolve)
        await anyio.sleep(0.05)
        go_on.set()
        await disk.busy()
        scope.cancel()
        await anyio.sleep(0.05)
        disk.go_on.set()
        await it_was_resolved(sandbox, bot, index, calls)
    assert scope.cancelled_caught


@ON_ASYNCIO
async def test_cancelled_in_own_commit(sandbox: Sandbox, tmp_path: Path, disk: Disk) -> None:
    calls: list[int] = []
    async with doubtful(sandbox, tmp_path, calls) as (bot, index):
        disk.is_slow = True
        leaving = asyncio.create_task(bot.resolve(index, taken=False))
        await disk.busy()
        leaving.cancel()
        await asyncio.wait([leaving])
        assert leaving.cancelled()
        disk.go_on.set()
        await it_was_resolved(sandbox, bot, index, calls)


async def test_end_of_bot_raises(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
    text, waits = list[str](), anyio.Event()

    async def never(*_: object) -> None:
        waits.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks, doubtful(sandbox, tmp_path, []) as (bot, index):
        monkeypatch.setattr(InDoubtResolver, "wait_recorded", never)

        async def resolve() -> None:
            with pytest.raises(ConfigurationError) as error:
                await bot.resolve(index, taken=False)
            text.append(str(error.value))

        tasks.start_soon(resolve)
        await waits.wait()
    assert text == ["this bot has ended: call this method while the bot runs"]


async def test_stopped_bot_raises(sandbox: Sandbox, tmp_path: Path) -> None:
    bot, reported = Bot(store=SQLiteStore(tmp_path / "bot.db")), list[Exception]()
    bot.on_new(id="quote")(nothing)
    async with sandbox.client() as exchange, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bot.serve, exchange=exchange))
        with anyio.fail_after(TIMEOUT):
            while bot.status().state != "running":  # noqa: ASYNC110 - there is no event for it
                await anyio.sleep(0.01)
            bot.stop()
            while bot.status().state != "stopped":
                try:
                    await bot.resolve(1, taken=True)
                except (ConfigurationError, ValidationError) as error:
                    reported.append(error)
                await anyio.lowlevel.checkpoint()
    assert isinstance(reported[-1], ConfigurationError)


async def nothing(request: Any, ctx: Any) -> None:
    pass
