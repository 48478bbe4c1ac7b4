"""A handler that ends its process ends among the dead letters, and those that it takes with it do not."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.unit.bot import rig
from tests.unit.bot.rig import HOUR, INTERVAL, Process, Watch, bot_on, other, supervised

from freight_exchange import Bot, RetryLater
from freight_exchange.store import Store
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time

store = rig.store

POISON = "Ningbo"
LONG = 4 * HOUR


def bots(store: Store, register: Callable[[Bot, Process], None], **options: Any) -> Callable[[Process], Bot]:
    """A maker of one bot after the other on one store, with the same handlers."""

    def new_bot(process: Process) -> Bot:
        bot = bot_on(store, **{"interval": timedelta(minutes=10), "drain": timedelta(0), **options})
        register(bot, process)
        return bot

    return new_bot


async def letters(sandbox: Sandbox, bot: Bot) -> list[tuple[str, int | None, int, str | None]]:
    async with sandbox.running(bot) as trial:
        await trial.idle()
        return [(dead.handler, dead.request, dead.attempts, dead.error) for dead in await bot.dead_letters()]


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_it_is_dead_after_its_retries(store: Store, retries: int, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, watch = Sandbox(), Watch()

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="killer", retries=retries)
        async def killer(request: Any, ctx: Any) -> None:
            watch.note("killer", ctx, request.index)
            await anyio.sleep(1)
            process.kill()

    new_bot = bots(store, register)
    index = sandbox.publish(other(POISON))
    with caplog.at_level(logging.WARNING, "freight_exchange.bot"):
        deaths = await supervised(sandbox, new_bot, seconds=HOUR)
    # Without retries it is called once more: the first process may have ended before it was called at all.
    calls = max(retries, 1) + 1
    assert deaths == calls
    assert watch.of("killer") == [(index, attempt) for attempt in range(1, calls + 1)]
    # As often as it was tried, and no more.
    assert [letter[:3] for letter in await letters(sandbox, new_bot(Process()))] == [("killer", index, calls)]
    assert [record for record in caplog.records if record.levelno == logging.ERROR and "killer" in record.getMessage()]


async def test_it_delays_no_other_request(store: Store) -> None:
    sandbox, watch, handled = Sandbox(), Watch(), dict[int, float]()

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="killer", origin=POISON)
        async def killer(request: Any, ctx: Any) -> None:
            watch.note("killer", ctx, request.index)
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
    assert 9 <= deaths == len(watch.of("killer")) <= 10
    assert handled.keys() == published.keys()
    # A few looks, a restart or two, and its own second; those of the killer's own delays are up to two minutes.
    assert max(handled[index] - published[index] for index in published) < 6 * INTERVAL
    assert [letter[:2] for letter in await letters(sandbox, new_bot(Process()))] == [("killer", poison)]


@pytest.mark.parametrize("retries", [0, 2])
async def test_those_that_it_takes_with_it_are_not_punished(store: Store, retries: int) -> None:
    """They were at their handlers when the process ended, through no fault of theirs."""
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


async def test_many_of_them_are_told_apart_from_those_that_are_well(store: Store) -> None:
    sandbox, handled = Sandbox(), set[int]()

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="judged", retries=2)
        async def judged(request: Any, ctx: Any) -> None:
            await anyio.sleep(request.index % 5)
            if request.origin == POISON:
                process.kill()
            handled.add(request.index)

    new_bot = bots(store, register, concurrency=50)
    poisons = {sandbox.publish(other(POISON)) for _ in range(6)}
    indexes = {sandbox.publish() for _ in range(20)}
    deaths = await supervised(sandbox, new_bot, seconds=LONG)

    assert handled == indexes
    assert {letter[1] for letter in await letters(sandbox, new_bot(Process()))} == poisons
    assert deaths <= 6 * 3 + 1


async def test_those_that_wait_behind_it_have_no_part_in_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the process as soon as it is called, when the other suspects have not been put off yet."""
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


async def test_a_failure_is_not_forgotten_for_a_crash(store: Store) -> None:
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


async def test_one_that_was_replayed_kills_no_more_than_before(store: Store) -> None:
    sandbox, watch = Sandbox(), Watch()

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="killer", retries=1)
        async def killer(request: Any, ctx: Any) -> None:
            watch.note("killer", ctx, request.index)
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
    assert watch.of("killer") == [(index, 1), (index, 2)] * 2


async def test_a_suspect_that_waits_holds_up_no_other(store: Store) -> None:
    """After a crash those that it took with it are called one after the other, and then as before."""
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

    new_bot = bots(store, register, concurrency=3)
    waits = sandbox.publish(other(POISON))
    indexes = [sandbox.publish() for _ in range(20)]
    assert await supervised(sandbox, new_bot, seconds=HOUR) == 1
    assert handled.keys() == {waits, *indexes}
    assert max(handled[index] for index in indexes) < 90
    assert handled[waits] < 660


async def test_a_crash_while_it_drains_is_a_crash(store: Store) -> None:
    sandbox, attempts = Sandbox(), list[int]()

    def register(bot: Bot, process: Process) -> None:
        @bot.on_new(id="killer", retries=0)
        async def killer(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            await ctx.stopping.wait()
            process.kill()

    new_bot = bots(store, register, drain=timedelta(seconds=10))
    sandbox.publish()
    assert await supervised(sandbox, new_bot, seconds=60) == 1
    assert attempts == [1]
    assert len(await letters(sandbox, new_bot(Process()))) == 1
