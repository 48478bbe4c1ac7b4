"""Tests of deliveries: at least once, one at a time for a request, and up to a limit in total."""

from __future__ import annotations

import logging
import math
from datetime import timedelta
from typing import Any

import anyio
import attrs
import pytest
from tests.bot.rig import HOUR, INTERVAL, Calls, new_bot, other, run_until_idle

from freight_exchange import RetryLater
from freight_exchange.store import Store
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time


async def test_failure_does_not_repeat_other_handlers(store: Store) -> None:
    sandbox, calls = Sandbox(), Calls()
    bot = new_bot(store)

    @bot.on_new
    async def sound(request: Any, ctx: Any) -> None:
        calls.note("sound", ctx, request.index)

    @bot.on_new(retries=2)
    async def broken(request: Any, ctx: Any) -> None:
        calls.note("broken", ctx, request.index)
        raise ValueError("no")

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
        dead = await bot.dead_letters()

    assert calls.of("sound") == [(index, 1)]
    assert calls.of("broken") == [(index, 1), (index, 2), (index, 3)]
    assert [(letter.handler.rpartition(".")[2], letter.request) for letter in dead] == [("broken", index)]


@pytest.mark.parametrize(
    ("point", "attempts"),
    [
        ("before route", [1]),
        ("after route", [1]),
        ("before claim", [1]),
        ("after claim", [2]),
        ("before settle", [1, 2]),
        ("after settle", [1]),
    ],
)
async def test_delivery_is_repeated_after_a_crash_unless_it_was_settled(
    store: Store, point: str, attempts: list[int]
) -> None:
    """The attempt counts from its claim; a settled delivery is not repeated."""
    sandbox, calls = Sandbox(), Calls()

    def make_bot() -> Any:
        bot = new_bot(store)

        @bot.on_new
        async def note(request: Any, ctx: Any) -> None:
            calls.note("note", ctx, request.index)

        return bot

    index = sandbox.publish()
    async with sandbox.running(make_bot(), crash_at=point) as trial:
        await trial.crashed()
    async with sandbox.running(make_bot()) as trial:
        await trial.idle()
        late = sandbox.publish()
        await trial.idle()

    assert calls.of("note") == [*((index, attempt) for attempt in attempts), (late, 1)]


async def test_no_more_handlers_run_than_concurrency(store: Store) -> None:
    sandbox, calls = Sandbox(), Calls()
    bot = new_bot(store, concurrency=3)

    @bot.on_new(id="slow")
    async def slow(request: Any, ctx: Any) -> None:
        async with calls.working("slow", ctx, request.index):
            await anyio.sleep(5)

    indexes = [sandbox.publish() for _ in range(10)]
    await run_until_idle(sandbox, bot)
    assert calls.most == 3
    assert sorted(calls.of("slow")) == [(index, 1) for index in indexes]


async def test_events_of_request_come_in_order(store: Store) -> None:
    sandbox, received, updates = Sandbox(), list[tuple[str, str]](), list[float]()
    bot = new_bot(store, allowance=timedelta(seconds=1))

    @bot.on_new(id="struggling", retries=20)
    @bot.on_updated(id="struggling", retries=20)
    @bot.on_withdrawn(id="struggling", retries=20)
    async def struggling(request: Any, ctx: Any) -> None:
        if anyio.current_time() < began + 300:
            raise ConnectionError("not yet")
        received.append((ctx.event.kind, request.origin))

    @bot.on_updated
    async def well(request: Any, ctx: Any) -> None:
        updates.append(anyio.current_time())

    async with sandbox.running(bot) as trial:
        began = anyio.current_time()
        index = sandbox.publish()
        await anyio.sleep(30)
        sandbox.exchange.update(index, sandbox.now(), other("Ningbo"))
        # Longer than an interval with its jitter, or no scan would see the update.
        await anyio.sleep(2 * INTERVAL)
        sandbox.exchange.withdraw(index, sandbox.now())
        # Where the service lists nothing at all, an hour has to show that it is not a failure.
        await anyio.sleep(2 * HOUR)
        await trial.idle()

    assert received == [("new", "Hong Kong"), ("updated", "Ningbo"), ("withdrawn", "Ningbo")]
    assert [moment < began + 300 for moment in updates] == [True]


async def test_replayed_event_waits_for_a_later_one_that_runs(store: Store) -> None:
    sandbox, running, most = Sandbox(), 0, 0
    bot = new_bot(store)

    @bot.on_new(id="quote", retries=0)
    async def quote(request: Any, ctx: Any) -> None:
        raise ValueError("no tariff")

    @bot.on_updated(id="again", retries=0, timeout=timedelta(hours=1))
    async def again(request: Any, ctx: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if request.quantity == 11:
            running -= 1
            raise ValueError("no tariff")
        await anyio.sleep(10 * INTERVAL)
        running -= 1

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
        sandbox.update(index, quantity=11)
        await trial.idle()
        sandbox.update(index, quantity=12)
        await anyio.sleep(3 * INTERVAL)
        assert running == 1
        (letter,) = [one for one in await bot.dead_letters() if one.handler == "again"]
        assert await bot.replay(letter.event, "again")
        await trial.idle()
    assert most == 1


async def test_deliveries_of_removed_handler_are_kept(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, received = Sandbox(), list[tuple[str, int]]()

    def make_bot(*names: str, works: bool = True) -> Any:
        bot = new_bot(store, drain=timedelta(0), concurrency=1)
        for name in names:

            @bot.on_new(id=name)
            async def handler(request: Any, ctx: Any, name: str = name) -> None:
                if not works:
                    await anyio.sleep(HOUR)
                received.append((name, request.index))

        return bot

    waiting = [sandbox.publish() for _ in range(3)]
    async with sandbox.running(make_bot("old", works=False)):
        await anyio.sleep(60)
    bot = make_bot("fresh")
    with caplog.at_level(logging.ERROR, "freight_exchange.bot"):
        async with sandbox.running(bot):
            late = sandbox.publish()
            await anyio.sleep(1.5 * HOUR)
            assert await bot.dead_letters() == []
    assert received == [("fresh", late)]
    reported = [record.getMessage() for record in caplog.records if "'old'" in record.getMessage()]
    assert reported == ["3 deliveries wait for handlers that this bot does not have: 'old'; they are kept"]

    async with sandbox.running(make_bot("old", "fresh")):
        # An operator who restores the handler need not wait for it.
        await anyio.sleep(INTERVAL)
    assert sorted(index for name, index in received if name == "old") == [*waiting, late]


async def test_narrower_filter_drops_waiting_delivery(store: Store) -> None:
    """The handler still exists, with another filter."""
    sandbox, received = Sandbox(), list[int]()

    def make_bot(**wanted: Any) -> Any:
        bot = new_bot(store, drain=timedelta(0))

        @bot.on_new(id="choosy", **wanted)
        async def choosy(request: Any, ctx: Any) -> None:
            if not wanted:
                await anyio.sleep(HOUR)
            received.append(request.index)

        return bot

    here, there = sandbox.publish(), sandbox.publish(other("Ningbo"))
    async with sandbox.running(make_bot()):
        await anyio.sleep(60)
    status = await run_until_idle(sandbox, make_bot(origin="Ningbo"))
    assert status.handled == 2
    assert (here in received, there in received) == (False, True)


async def test_waiting_deliveries_are_counted(store: Store) -> None:
    """The count shows that handlers are slower than the market."""
    sandbox, bot = Sandbox(), new_bot(store, concurrency=2)

    @bot.on_new
    async def slow(request: Any, ctx: Any) -> None:
        await anyio.sleep(250)

    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert (trial.status.waiting, trial.status.waited) == (0, timedelta(0))
        for _ in range(50):
            sandbox.publish()
        await anyio.sleep(HOUR)
        assert trial.status.waiting == 50 - 2 * math.ceil(HOUR / 250)
        assert timedelta(minutes=58) < trial.status.waited < timedelta(hours=1)
        await trial.idle(within=timedelta(hours=3))
        assert (trial.status.waiting, trial.status.waited) == (0, timedelta(0))


async def test_wait_grows_during_drain_and_ends_with_stop(
    store: Store,
) -> None:
    sandbox, bot = Sandbox(), new_bot(store, concurrency=1, drain=timedelta(seconds=300))

    @bot.on_new
    async def slow(request: Any, ctx: Any) -> None:
        await anyio.sleep(250)

    for _ in range(3):
        sandbox.publish()
    async with sandbox.running(bot) as trial:
        await anyio.sleep(100)
        before = trial.status
        bot.stop()
        await anyio.sleep(100)
        assert (trial.status.state, trial.status.waiting) == ("draining", 2)
        assert trial.status.waited - before.waited > timedelta(seconds=99)
    assert (bot.status().waiting, bot.status().waited) == (0, timedelta(0))


async def test_postponed_delivery_is_not_waiting(store: Store) -> None:
    sandbox, bot = Sandbox(), new_bot(store)

    @bot.on_new
    async def later(request: Any, ctx: Any) -> None:
        if ctx.attempt == 1 and not put_off:
            put_off.append(request.index)
            raise RetryLater(timedelta(hours=2))

    put_off: list[int] = []
    sandbox.publish()
    async with sandbox.running(bot) as trial:
        await anyio.sleep(HOUR)
        assert (put_off != [], trial.status.waiting, trial.status.waited) == (True, 0, timedelta(0))


@attrs.define
class Suspended:
    """Clock of a machine that was suspended while the loop's clock stood still."""

    clock: Any
    asleep: float = 0.0

    def read(self) -> Any:
        reading = self.clock.read()
        return attrs.evolve(reading, boot=reading.boot + self.asleep, wall=reading.wall + self.asleep)


async def test_delivery_due_during_suspend_runs_after_resume(store: Store) -> None:
    sandbox, bot, times = Sandbox(), new_bot(store), list[float]()

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        times.append(anyio.current_time())
        if len(times) == 1:
            raise RetryLater(timedelta(hours=1))

    sandbox.publish()
    client: Any = sandbox.client()
    clock = client._shared.clock = Suspended(client._shared.clock)
    async with anyio.create_task_group() as tasks:

        async def wake() -> None:
            await anyio.sleep(300)
            clock.asleep = 8.0 * HOUR
            woken = anyio.current_time()
            await anyio.sleep(2 * HOUR)
            assert times[1] - woken <= 60
            bot.stop()

        tasks.start_soon(wake)
        await bot.serve(exchange=client)
    assert len(times) == 2
