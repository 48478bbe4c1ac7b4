"""Every handler has its own delivery: at least once, one at a time for a request, and so many at a time for all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot import rig
from tests.unit.bot.rig import HOUR, INTERVAL, Watch, bot_on, other

from freight_exchange import RetryLater
from freight_exchange.store import Store
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time

ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)

store = rig.store


async def test_one_handlers_failures_are_not_its_siblings(store: Store) -> None:
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store)

    @bot.on_new
    async def sound(request: Any, ctx: Any) -> None:
        watch.note("sound", ctx, request.index)

    @bot.on_new(retries=2)
    async def broken(request: Any, ctx: Any) -> None:
        watch.note("broken", ctx, request.index)
        raise ValueError("no")

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
        dead = await bot.dead_letters()

    assert watch.of("sound") == [(index, 1)]
    assert watch.of("broken") == [(index, 1), (index, 2), (index, 3)]
    assert [(letter.handler.rpartition(".")[2], letter.request) for letter in dead] == [("broken", index)]


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_serial_for_a_request_and_bounded_for_all(store: Store, concurrency: int) -> None:
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store, concurrency=concurrency)

    @bot.on_new
    async def one(request: Any, ctx: Any) -> None:
        async with watch.working("one", ctx, request.index):
            await anyio.sleep(15)

    @bot.on_new
    @bot.on_updated
    async def two(request: Any, ctx: Any) -> None:
        async with watch.working("two", ctx, request.index):
            await anyio.sleep(7)

    async with sandbox.running(bot) as trial:
        indexes = [sandbox.publish() for _ in range(7)]
        await anyio.sleep(INTERVAL * 1.5)
        for index in indexes:
            sandbox.exchange.update(index, sandbox.now(), other("Ningbo"))
        await trial.idle()

    assert watch.most == concurrency
    assert watch.most_of_one == 1
    assert sorted(watch.of("one")) == [(index, 1) for index in indexes]
    assert sorted(watch.of("two")) == sorted([(index, 1) for index in indexes] * 2)


async def test_requests_do_not_wait_for_each_other_while_there_is_room(store: Store) -> None:
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store, concurrency=50)

    @bot.on_new
    async def slow(request: Any, ctx: Any) -> None:
        async with watch.working("slow", ctx, request.index):
            await anyio.sleep(100)

    async with sandbox.running(bot) as trial:
        for _ in range(40):
            sandbox.publish()
        await trial.idle()

    assert watch.most == 40


@pytest.mark.parametrize(
    ("point", "attempts"),
    [
        ("before deliver", [1]),
        ("after deliver", [1]),
        ("before claim", [1]),
        ("after claim", [2]),
        ("before settle", [1, 2]),
        ("after settle", [1]),
    ],
)
async def test_at_least_once_through_a_crash(store: Store, point: str, attempts: list[int]) -> None:
    """The attempt counts from its claim on; what is settled is not done again."""
    sandbox, watch = Sandbox(), Watch()

    def new_bot() -> Any:
        bot = bot_on(store)

        @bot.on_new
        async def note(request: Any, ctx: Any) -> None:
            watch.note("note", ctx, request.index)

        return bot

    index = sandbox.publish()
    async with sandbox.running(new_bot(), crash_at=point) as trial:
        await trial.crashed()
    async with sandbox.running(new_bot()) as trial:
        await trial.idle()
        late = sandbox.publish()
        await trial.idle()

    assert watch.of("note") == [*((index, attempt) for attempt in attempts), (late, 1)]


async def test_one_handler_hears_of_a_request_in_order_and_no_other_waits_for_it(store: Store) -> None:
    sandbox, heard, updates = Sandbox(), list[tuple[str, str]](), list[float]()
    bot = bot_on(store, allowance=timedelta(seconds=1))

    @bot.on_new(id="struggling", retries=20)
    @bot.on_updated(id="struggling", retries=20)
    @bot.on_withdrawn(id="struggling", retries=20)
    async def struggling(request: Any, ctx: Any) -> None:
        if anyio.current_time() < began + 300:
            raise ConnectionError("not yet")
        heard.append((ctx.event.kind, request.origin))

    @bot.on_updated
    async def well(request: Any, ctx: Any) -> None:
        updates.append(anyio.current_time())

    async with sandbox.running(bot) as trial:
        began = anyio.current_time()
        index = sandbox.publish()
        await anyio.sleep(30)
        sandbox.exchange.update(index, sandbox.now(), other("Ningbo"))
        await anyio.sleep(30)
        sandbox.exchange.withdraw(index, sandbox.now())
        # Where the service lists nothing at all, an hour has to show that it is no failure.
        await anyio.sleep(2 * HOUR)
        await trial.idle()

    assert heard == [("new", "Hong Kong"), ("updated", "Ningbo"), ("withdrawn", "Ningbo")]
    assert [moment < began + 60 for moment in updates] == [True]


async def test_what_ends_within_the_drain_is_done(store: Store) -> None:
    sandbox, watch, ended = Sandbox(), Watch(), list[bool]()

    def new_bot() -> Any:
        bot = bot_on(store, drain=timedelta(seconds=20), concurrency=1)

        @bot.on_new
        async def patient(request: Any, ctx: Any) -> None:
            async with watch.working("patient", ctx, request.index):
                assert not ctx.stopping
                await ctx.stopping.wait()
                await anyio.sleep(19)
                ended.append(bool(ctx.stopping))

        return bot

    async with sandbox.running(new_bot()):
        index = sandbox.publish()
        await anyio.sleep(30)
        waiting = sandbox.publish()  # taken in, and not begun any more
        await anyio.sleep(30)
    assert (watch.of("patient"), ended) == ([(index, 1)], [True])
    async with sandbox.running(new_bot()) as trial:
        await anyio.sleep(60)
        assert trial.status.in_flight == 1
    assert watch.of("patient") == [(index, 1), (waiting, 1)]


async def test_what_the_drain_cuts_off_comes_again_and_has_not_failed(store: Store) -> None:
    sandbox, watch = Sandbox(), Watch()

    def new_bot() -> Any:
        bot = bot_on(store, drain=timedelta(seconds=5))

        @bot.on_new(retries=0)
        async def endless(request: Any, ctx: Any) -> None:
            async with watch.working("endless", ctx, request.index):
                await anyio.sleep(3 * 60 if len(watch.calls) < 4 else 0)

        return bot

    index = sandbox.publish()
    for _ in range(3):
        bot = new_bot()
        async with sandbox.running(bot):
            await anyio.sleep(30)
        assert bot.status().retried == bot.status().dead == 0
    bot = new_bot()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert await bot.dead_letters() == []
    assert watch.of("endless") == [(index, 1)] * 4


async def test_a_drain_does_not_wait_for_longer_than_it_was_told(store: Store) -> None:
    sandbox = Sandbox()
    bot = bot_on(store, drain=timedelta(seconds=5))

    @bot.on_new
    async def endless(request: Any, ctx: Any) -> None:
        await anyio.sleep(HOUR)

    async with sandbox.running(bot):
        for _ in range(3):
            sandbox.publish()
        await anyio.sleep(60)
        assert bot.status().in_flight == 3
        began = anyio.current_time()
    assert anyio.current_time() == pytest.approx(began + 5)


async def test_a_handlers_task_that_fails_while_it_is_cut_off_ends_no_bot(store: Store) -> None:
    """Its task group wraps the cancellation and the failure in one group."""
    sandbox, attempts = Sandbox(), list[int]()

    def new_bot() -> Any:
        bot = bot_on(store, drain=timedelta(seconds=5))

        @bot.on_new(retries=1)
        async def careless(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            if len(attempts) > 1:
                return

            async def closing_badly() -> None:
                try:
                    await anyio.sleep(HOUR)
                finally:
                    raise OSError("cannot close")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(closing_badly)
                tasks.start_soon(anyio.sleep, HOUR)

        return bot

    sandbox.publish()
    async with sandbox.running(new_bot()):
        await anyio.sleep(60)
    async with sandbox.running(new_bot()) as trial:
        await trial.idle()
    assert len(attempts) == 2


@ON_ASYNCIO  # only asyncio's tasks can be cancelled by anybody
async def test_a_handler_that_is_cancelled_by_nobody_has_failed(store: Store) -> None:
    """It awaited a task of its own that was cancelled. Nobody cancelled the bot, which goes on."""
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store)

    @bot.on_new(retries=1)
    async def entangled(request: Any, ctx: Any) -> None:
        watch.note("entangled", ctx, request.index)
        if request.origin == "Ningbo":
            job = asyncio.create_task(asyncio.sleep(HOUR))
            job.cancel()
            await job

    sandbox.publish(other("Ningbo"))
    async with sandbox.running(bot) as trial:
        await trial.idle()
        index = sandbox.publish()
        await trial.idle()
        (dead,) = await bot.dead_letters()
    assert dead.attempts == 2
    assert "cancelled" in (dead.error or "")
    assert watch.of("entangled")[-1] == (index, 1)


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(HOUR)


async def cancels_itself_twice_and_swallows_one() -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await cancels_itself()
    await cancels_itself()


async def is_cancelled_by_another() -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(5, task.cancel)
    await asyncio.sleep(HOUR)


async def cancels_its_own_group() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancels_itself)
        await cancels_itself()


@pytest.mark.parametrize(
    "way", [cancels_itself, cancels_itself_twice_and_swallows_one, is_cancelled_by_another, cancels_its_own_group]
)
@ON_ASYNCIO  # only asyncio's tasks can be cancelled by anybody
async def test_a_handler_whose_own_task_is_cancelled_has_failed(
    store: Store, way: Callable[[], Awaitable[None]]
) -> None:
    """By a library that it calls, say: it is tried again as often as was said, and the bot goes on."""
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store, concurrency=1)

    @bot.on_new(retries=2)
    async def quote(request: Any, ctx: Any) -> None:
        watch.note("quote", ctx, request.index)
        if request.origin == "Ningbo":
            await way()

    bad = sandbox.publish(other("Ningbo"))
    async with sandbox.running(bot) as trial:
        await trial.idle()
        good = sandbox.publish()
        await trial.idle()
        (dead,) = await bot.dead_letters()
    assert watch.of("quote") == [(bad, 1), (bad, 2), (bad, 3), (good, 1)]
    assert (dead.request, dead.attempts) == (bad, 3)
    assert "cancelled" in (dead.error or "")


@ON_ASYNCIO  # only asyncio's tasks can be cancelled by anybody
async def test_a_cancellation_that_comes_as_a_handler_ends_is_not_the_bots(store: Store) -> None:
    """It would be met with where the bot notes that the handler is done."""
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        watch.note("quote", ctx, request.index)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async with sandbox.running(bot) as trial:
        indexes = [sandbox.publish(), sandbox.publish()]
        await trial.idle()
        assert trial.status.handled == 2
    assert watch.of("quote") == [(index, 1) for index in indexes]


@ON_ASYNCIO  # only asyncio's tasks can be cancelled by anybody
async def test_whoever_cancels_the_task_that_serves_cuts_handlers_off(store: Store) -> None:
    """That is the bot's own end, however it comes: no failure of the handler's."""
    sandbox, attempts = Sandbox(), list[int]()

    def new_bot() -> Any:
        bot = bot_on(store)

        @bot.on_new(retries=0)
        async def quote(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            if len(attempts) == 1:
                await anyio.sleep(HOUR)

        return bot

    index = sandbox.publish()
    serving = asyncio.create_task(new_bot().serve(exchange=sandbox.client()))
    await anyio.sleep(60)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    async with sandbox.running(new_bot()) as trial:
        await trial.idle()
        assert (trial.status.handled, index) == (1, index)
    assert attempts == [1, 1]


async def test_what_waits_for_a_handler_that_is_gone_is_kept_and_delays_nobody(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox, heard = Sandbox(), list[tuple[str, int]]()

    def new_bot(*names: str, works: bool = True) -> Any:
        bot = bot_on(store, drain=timedelta(0), concurrency=1)
        for name in names:

            @bot.on_new(id=name)
            async def handler(request: Any, ctx: Any, name: str = name) -> None:
                if not works:
                    await anyio.sleep(HOUR)
                heard.append((name, request.index))

        return bot

    waiting = [sandbox.publish() for _ in range(3)]
    async with sandbox.running(new_bot("old", works=False)):
        await anyio.sleep(60)
    bot = new_bot("fresh")
    with caplog.at_level(logging.ERROR, "freight_exchange.bot"):
        async with sandbox.running(bot):
            late = sandbox.publish()
            await anyio.sleep(1.5 * HOUR)
            assert await bot.dead_letters() == []
    assert heard == [("fresh", late)]
    told = [record.getMessage() for record in caplog.records if "'old'" in record.getMessage()]
    assert told == ["3 deliveries wait for handlers that this bot does not have: 'old'; they are kept"]

    async with sandbox.running(new_bot("old", "fresh")):
        # Whoever has put the handler back need not wait for it.
        await anyio.sleep(INTERVAL)
    assert sorted(index for name, index in heard if name == "old") == waiting


async def test_however_much_waits_for_a_handler_that_is_gone_is_never_claimed(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox, heard = Sandbox(), list[int]()
    failpoints = list[str]()

    def new_bot(*names: str) -> Any:
        bot = bot_on(store, concurrency=2)
        for name in names:

            @bot.on_new(id=name)
            async def handler(request: Any, ctx: Any) -> None:
                if "fresh" not in names:
                    raise RetryLater(5)
                heard.append(request.index)

        return bot

    for _ in range(40):
        sandbox.publish()
    async with sandbox.running(new_bot("old", "older")):
        await anyio.sleep(60)
    bot = new_bot("fresh")
    with caplog.at_level(logging.ERROR, "freight_exchange.bot"):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(bot.serve, exchange=sandbox.client(), failpoints=failpoints.append))
            await anyio.sleep(INTERVAL)
            late = sandbox.publish()
            await anyio.sleep(HOUR)
            assert (heard, bot.status().waiting, bot.status().waited) == ([late], 0, timedelta(0))
            bot.stop()
    assert failpoints.count("before claim") == 1
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("80 deliveries wait for handlers that this bot does not have: 'old', 'older'")


async def test_a_handler_that_is_not_registered_for_it_any_more_passes_it_by(store: Store) -> None:
    """The handler is there, under its id, and wants other requests now."""
    sandbox, heard = Sandbox(), list[int]()

    def new_bot(**wanted: Any) -> Any:
        bot = bot_on(store, drain=timedelta(0))

        @bot.on_new(id="choosy", **wanted)
        async def choosy(request: Any, ctx: Any) -> None:
            if not wanted:
                await anyio.sleep(HOUR)
            heard.append(request.index)

        return bot

    here, there = sandbox.publish(), sandbox.publish(other("Ningbo"))
    async with sandbox.running(new_bot()):
        await anyio.sleep(60)
    async with sandbox.running(new_bot(origin="Ningbo")) as trial:
        await trial.idle()
        assert trial.status.handled == 2
    assert (here in heard, there in heard) == (False, True)


async def test_ten_thousand_seconds_of_updates_with_restarts_reach_everybody_once_or_more(store: Store) -> None:
    sandbox, seen = Sandbox(), set[tuple[str, int]]()

    def new_bot() -> Any:
        bot = bot_on(store, concurrency=4, drain=timedelta(seconds=3))
        for name in ("one", "two", "three"):

            @bot.on_new(id=name)
            async def handler(request: Any, ctx: Any, name: str = name) -> None:
                await anyio.sleep(request.index % 7)
                seen.add((name, request.index))

        return bot

    indexes: list[int] = []
    for run in range(6):
        async with sandbox.running(new_bot()):
            for _ in range(5):
                indexes.append(sandbox.publish())
                await anyio.sleep(run * 1.7)
    async with sandbox.running(new_bot()) as trial:
        await trial.idle()
    assert seen == {(name, index) for name in ("one", "two", "three") for index in indexes}


async def test_what_a_handler_adds_to_its_log_stays_beside_what_the_bot_says(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox, bot = Sandbox(), bot_on(store)

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        ctx.log.info("priced", extra={"price": "1840.50", "request": "none of the handler's business"})
        ctx.log.info("plainly", extra=None)

    index = sandbox.publish()
    with caplog.at_level(logging.INFO, "freight_exchange.bot"):
        async with sandbox.running(bot) as trial:
            await trial.idle()
    records: list[Any] = [record for record in caplog.records if record.getMessage() in ("priced", "plainly")]
    assert [(one.event, one.handler, one.request, one.attempt) for one in records] == [("new", "quote", index, 1)] * 2
    assert records[0].price == "1840.50"


async def test_what_waits_for_a_free_place_is_counted_and_timed(store: Store) -> None:
    """Nothing else says that handlers are slower than the market."""
    sandbox, bot = Sandbox(), bot_on(store, concurrency=2)

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


async def test_how_long_deliveries_wait_grows_while_the_bot_drains_and_is_nothing_once_it_has_stopped(
    store: Store,
) -> None:
    sandbox, bot = Sandbox(), bot_on(store, concurrency=1, drain=timedelta(seconds=300))

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


async def test_what_is_put_off_does_not_wait(store: Store) -> None:
    sandbox, bot = Sandbox(), bot_on(store)

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
    """A clock of a machine that was asleep for a while: the loop's own does not know of that."""

    clock: Any
    asleep: float = 0.0

    def read(self) -> Any:
        reading = self.clock.read()
        return attrs.evolve(reading, boot=reading.boot + self.asleep, wall=reading.wall + self.asleep)


async def test_what_came_due_while_the_machine_slept_is_handed_over_when_it_wakes(store: Store) -> None:
    sandbox, bot, times = Sandbox(), bot_on(store), list[float]()

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
