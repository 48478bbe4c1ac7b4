"""Tests of suspects: a handler that ends its process becomes a dead letter, and concurrent deliveries do not."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.old.rig import HOUR, INTERVAL, Calls, Process, new_bot, other, supervised

from freight_exchange import Bot, RetryLater
from freight_exchange.store import Store
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time
POISON = "Ningbo"
LONG = 4 * HOUR


def bots(store: Store, register: Callable[[Bot, Process], None], **options: Any) -> Callable[[Process], Bot]:
    """Return a maker of bots on one store with the same handlers."""

    def make_bot(process: Process) -> Bot:
        bot = new_bot(store, **{"interval": timedelta(minutes=10), "drain": timedelta(0), **options})
        register(bot, process)
        return bot

    return make_bot


async def letters(sandbox: Sandbox, bot: Bot) -> list[tuple[str, int | None, int, str | None]]:
    async with sandbox.running(bot) as trial:
        await trial.idle()
        return [(dead.handler, dead.request, dead.attempts, dead.error) for dead in await bot.dead_letters()]


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_killer_is_dead_after_its_retries(store: Store, retries: int, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, recorder = Sandbox(), Calls()

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="killer", retries=retries)
        async def killer(request: Any, ctx: Any) -> None:
            recorder.note("killer", ctx, request.index)
            await anyio.sleep(1)
            process.kill()

    new_bot = bots(store, register)
    index = sandbox.publish(other(POISON))
    with caplog.at_level(logging.WARNING, "freight_exchange.bot"):
        deaths = await supervised(sandbox, new_bot, seconds=HOUR)
    # Without retries it is called once more: the first process may have ended before it was called at all.
    calls = max(retries, 1) + 1
    assert deaths == calls
    assert recorder.of("killer") == [(index, attempt) for attempt in range(1, calls + 1)]
    # As often as it was tried, and no more.
    assert [letter[:3] for letter in await letters(sandbox, new_bot(Process()))] == [("killer", index, calls)]
    assert [record for record in caplog.records if record.levelno == logging.ERROR and "killer" in record.getMessage()]


async def test_killer_delays_no_other_request(store: Store) -> None:
    sandbox, calls, handled = Sandbox(), Calls(), dict[int, float]()

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="killer", origin=POISON)
        async def killer(request: Any, ctx: Any) -> None:
            calls.note("killer", ctx, request.index)
            await anyio.sleep(3)
            process.kill()

        @bot.on_new(id="well", origin="Hong Kong")
        async def well(request: Any, ctx: Any) -> None:
            await anyio.sleep(1)
            handled[request.index] = anyio.current_time()

    new_bot = bots(store, register, concurrency=4, interval=timedelta(seconds=INTERVAL))
    poison = sandbox.publish(other(POISON))
    published, deaths = dict[int, float](), 0

    async with anyio.create_task_group() as tasks:

        async def publish() -> None:
            for _ in range(12):
                published[sandbox.publish()] = anyio.current_time()
                await anyio.sleep(60)

        tasks.start_soon(publish)
        deaths = await supervised(sandbox, new_bot, seconds=HOUR)

    # Once more where somebody else may have done it.
    assert 9 <= deaths == len(calls.of("killer")) <= 10
    assert handled.keys() == published.keys()
    # A few looks, a restart or two, and its own second; those of the killer's own delays are up to two minutes.
    assert max(handled[index] - published[index] for index in published) < 6 * INTERVAL
    assert [letter[:2] for letter in await letters(sandbox, new_bot(Process()))] == [("killer", poison)]


@pytest.mark.parametrize("retries", [0, 2])
async def test_innocent_deliveries_keep_their_attempts(store: Store, retries: int) -> None:
    """They were in flight when another handler ended the process."""
    sandbox, called, handled = Sandbox(), Counter[int](), set[int]()

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="killer", origin=POISON, retries=4)
        async def killer(request: Any, ctx: Any) -> None:
            await anyio.sleep(5)
            process.kill()

        @bot.on_new(id="slow", origin="Hong Kong", retries=retries)
        async def slow(request: Any, ctx: Any) -> None:
            called[request.index] += 1
            await anyio.sleep(30)
            handled.add(request.index)

    new_bot = bots(store, register)
    poison = sandbox.publish(other(POISON))
    indexes = {sandbox.publish() for _ in range(5)}
    deaths = await supervised(sandbox, new_bot, seconds=LONG)

    assert 5 <= deaths <= 6
    assert handled == indexes
    assert max(called.values()) > 1
    assert [letter[:2] for letter in await letters(sandbox, new_bot(Process()))] == [("killer", poison)]


async def test_many_killers_are_found(store: Store) -> None:
    sandbox, handled = Sandbox(), set[int]()

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="judged", retries=2)
        async def judged(request: Any, ctx: Any) -> None:
            await anyio.sleep(request.index % 5)
            if request.origin == POISON:
                process.kill()
            handled.add(request.index)

    new_bot = bots(store, register, concurrency=50)
    poisons = {sandbox.publish(other(POISON)) for _ in range(4)}
    indexes = {sandbox.publish() for _ in range(10)}
    deaths = await supervised(sandbox, new_bot, seconds=LONG)

    assert handled == indexes
    assert {letter[1] for letter in await letters(sandbox, new_bot(Process()))} == poisons
    assert deaths <= 4 * 3 + 1


async def test_waiting_suspects_are_not_blamed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends before the other suspects are returned."""
    monkeypatch.setattr("freight_exchange.bot.delivery.dispatcher.backoff", lambda attempts, random: 1.0)
    sandbox, calls, handled = Sandbox(), list[int](), set[int]()

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="killer", origin=POISON, retries=5)
        async def killer(request: Any, ctx: Any) -> None:
            calls.append(ctx.attempt)
            if len(calls) == 1:
                await anyio.sleep(5)
            process.kill()

        @bot.on_new(id="well", origin="Hong Kong", retries=1)
        async def well(request: Any, ctx: Any) -> None:
            await anyio.sleep(10)
            handled.add(request.index)

    new_bot = bots(store, register, concurrency=50)
    indexes = {sandbox.publish() for _ in range(10)}
    # Listed first, it is claimed first.
    poison = sandbox.publish(other(POISON))
    deaths = await supervised(sandbox, new_bot, seconds=HOUR)

    assert deaths <= 7
    assert handled == indexes
    assert [letter[:2] for letter in await letters(sandbox, new_bot(Process()))] == [("killer", poison)]


async def test_crash_keeps_count_of_failures(store: Store) -> None:
    sandbox, attempts = Sandbox(), list[int]()

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="killer", retries=3)
        async def killer(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            if ctx.attempt % 2:
                raise ValueError("no")
            process.kill()

    new_bot = bots(store, register)
    index = sandbox.publish()
    assert await supervised(sandbox, new_bot, seconds=HOUR) == 2
    assert attempts == [1, 2, 3, 4]
    assert [letter[:2] for letter in await letters(sandbox, new_bot(Process()))] == [("killer", index)]


async def test_replayed_killer_has_same_retries(store: Store) -> None:
    sandbox, calls = Sandbox(), Calls()

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="killer", retries=1)
        async def killer(request: Any, ctx: Any) -> None:
            calls.note("killer", ctx, request.index)
            process.kill()

    new_bot = bots(store, register)
    index = sandbox.publish()
    assert await supervised(sandbox, new_bot, seconds=HOUR) == 2
    bot = new_bot(process := Process())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.run, sandbox, bot)
        await anyio.sleep(60)
        (dead,) = await bot.dead_letters()
        assert await bot.replay(dead.event, dead.handler)
    assert process.is_dead
    assert await supervised(sandbox, new_bot, seconds=HOUR) == 1
    assert calls.of("killer") == [(index, 1), (index, 2)] * 2


async def test_waiting_suspect_delays_no_other(store: Store) -> None:
    """After a crash suspects run one by one, then as before."""
    sandbox, handled = Sandbox(), dict[int, float]()
    has_crashed = False

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="well")
        async def well(request: Any, ctx: Any) -> None:
            nonlocal has_crashed
            await anyio.sleep(2)
            if not has_crashed:
                has_crashed = True
                process.kill()
            if request.origin == POISON and anyio.current_time() < 600:
                raise RetryLater(20)
            handled[request.index] = anyio.current_time()

    new_bot = bots(store, register, concurrency=3, interval=timedelta(seconds=10))
    waits = sandbox.publish(other(POISON))
    indexes = [sandbox.publish() for _ in range(20)]
    assert await supervised(sandbox, new_bot, seconds=HOUR) == 1
    assert handled.keys() == {waits, *indexes}
    assert max(handled[index] for index in indexes) < 90
    assert handled[waits] < 660
