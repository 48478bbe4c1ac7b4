"""What becomes of a delivery whose handler does not end well: called again, later and later, and kept in the end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any, get_args

import anyio
import pytest
from tests.unit.bot import rig
from tests.unit.bot.rig import HOUR, INTERVAL, Watch, bot_on, other

from freight_exchange import AlreadyOfferedError, ConfigurationError, Drop, OfferRejectedError, RetryLater
from freight_exchange.bot.unit_of_work import UnitOfWork
from freight_exchange.store import MemoryStore, Store
from freight_exchange.store.work import DeliveryState
from freight_exchange.testing import FAULTS, Sandbox

pytestmark = pytest.mark.virtual_time

store = rig.store

SLACK = 0.5
"""How much later than it was due a call may come: nothing measured, but a look of the bot's at its own pace."""


async def test_it_is_called_again_later_and_later_and_given_up_in_the_end(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store)

    @bot.on_new(id="broken", retries=5)
    async def broken(request: Any, ctx: Any) -> None:
        watch.note("broken", ctx, request.index)
        raise ValueError(f"the {ctx.attempt}. time")

    with caplog.at_level(logging.WARNING, "freight_exchange.bot"):
        async with sandbox.running(bot) as trial:
            index = sandbox.publish()
            await trial.idle()
            await anyio.sleep(HOUR)
            (dead,) = await bot.dead_letters()
            status = trial.status

    assert watch.of("broken") == [(index, attempt) for attempt in range(1, 7)]
    for doublings, pause in enumerate(watch.pauses()):
        assert 2.0**doublings / 2 - 0.001 <= pause <= 2.0**doublings + SLACK
    assert (dead.handler, dead.request, dead.kind, dead.attempts) == ("broken", index, "new", 6)
    assert dead.error == "ValueError: the 6. time"
    assert (status.retried, status.dead, status.handled, status.in_flight) == (5, 1, 0, 0)
    lines = [record for record in caplog.records if "handler broken" in record.getMessage()]
    assert [record.levelno for record in lines] == [logging.WARNING] * 5 + [logging.ERROR]
    assert all(vars(record)["request"] == index for record in lines)


async def test_it_never_waits_longer_than_five_minutes(store: Store) -> None:
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store, interval=timedelta(minutes=10))

    @bot.on_new(retries=25)
    async def broken(request: Any, ctx: Any) -> None:
        watch.note("broken", ctx, request.index)
        raise ValueError

    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await anyio.sleep(2 * HOUR)
        assert trial.status.dead == 1

    assert len(watch.pauses()) == 25
    assert all(149.9 <= pause <= 300 + SLACK for pause in watch.pauses()[9:])


async def test_a_delay_that_was_begun_goes_on_after_a_restart(store: Store) -> None:
    sandbox, watch = Sandbox(), Watch()

    def new_bot() -> Any:
        bot = bot_on(store, interval=timedelta(minutes=1))

        @bot.on_new
        async def later(request: Any, ctx: Any) -> None:
            watch.note("later", ctx, request.index)
            if len(watch.calls) == 1:
                raise RetryLater(timedelta(minutes=20))

        return bot

    sandbox.publish()
    async with sandbox.running(new_bot()):
        await anyio.sleep(60)
    await anyio.sleep(240)
    async with sandbox.running(new_bot()) as trial:
        await anyio.sleep(1200)
        await trial.idle()
    (pause,) = watch.pauses()
    assert pause == pytest.approx(1200, abs=SLACK)


async def test_a_dead_letter_is_replayed_as_if_for_the_first_time(store: Store) -> None:
    sandbox, watch = Sandbox(), Watch()
    is_mended = False

    def new_bot() -> Any:
        bot = bot_on(store)

        @bot.on_new(id="broken", retries=1)
        async def broken(request: Any, ctx: Any) -> None:
            watch.note("broken", ctx, request.index)
            if not is_mended:
                raise ValueError

        return bot

    bot = new_bot()
    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
        (dead,) = await bot.dead_letters()
        assert await bot.replay(dead.event, "broken") is True
        assert await bot.replay(dead.event, "broken") is False
        await trial.idle()
        assert await bot.dead_letters() == [dead]
    bot, is_mended = new_bot(), True
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert await bot.dead_letters() == [dead]
        assert await bot.replay(dead.event, "another") is False
        assert await bot.replay(dead.event + 1, "broken") is False
        assert await bot.replay(dead.event, "broken") is True
        await trial.idle()
        assert await bot.dead_letters() == []
        assert await bot.replay(dead.event, "broken") is False
    assert watch.of("broken") == [(index, 1), (index, 2)] * 2 + [(index, 1)]


async def test_a_dead_letter_of_a_handler_that_is_gone_stays(store: Store) -> None:
    sandbox, calls = Sandbox(), list[int]()

    def new_bot(name: str) -> Any:
        bot = bot_on(store)

        @bot.on_new(id=name, retries=0)
        async def broken(request: Any, ctx: Any) -> None:
            calls.append(request.index)
            raise ValueError

        return bot

    bot = new_bot("old")
    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
    renamed = new_bot("new")
    async with sandbox.running(renamed) as trial:
        await trial.idle()
        (dead,) = await renamed.dead_letters()
        with pytest.raises(ConfigurationError, match="no handler 'old' any more"):
            await renamed.replay(dead.event, dead.handler)
        assert await renamed.replay(dead.event + 1, dead.handler) is False
        await trial.idle()
        assert await renamed.dead_letters() == [dead]
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert await bot.replay(dead.event, dead.handler)
        await trial.idle()
    assert calls == [index, index]


async def test_a_dead_letter_holds_up_nothing_of_its_request(store: Store) -> None:
    sandbox, heard = Sandbox(), list[str]()
    bot = bot_on(store)

    @bot.on_new(id="both", retries=0)
    @bot.on_updated(id="both", retries=0)
    async def both(request: Any, ctx: Any) -> None:
        heard.append(ctx.event.kind)
        if ctx.event.kind == "new":
            raise ValueError

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
        sandbox.exchange.update(index, sandbox.now(), other("Ningbo"))
        await trial.idle()
        assert len(await bot.dead_letters()) == 1
    assert heard == ["new", "updated"]


async def test_every_dead_letter_is_listed(store: Store) -> None:
    sandbox = Sandbox()
    bot = bot_on(store, concurrency=50)
    for name in range(12):

        @bot.on_new(id=f"broken {name}", retries=0)
        async def broken(request: Any, ctx: Any) -> None:
            raise ValueError

    async with sandbox.running(bot) as trial:
        for _ in range(100):
            sandbox.publish()
        await trial.idle()
        assert trial.status.dead == 1200
        assert len(await bot.dead_letters()) == 1200


async def test_retry_later_is_no_failure(store: Store) -> None:
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store, interval=timedelta(minutes=1))

    @bot.on_new(retries=0)
    async def waits(request: Any, ctx: Any) -> None:
        watch.note("waits", ctx, request.index)
        if len(watch.calls) <= 30:
            raise RetryLater(timedelta(minutes=1) if len(watch.calls) % 2 else 90)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(2400)
        await trial.idle()
        assert await bot.dead_letters() == []
        assert (trial.status.retried, trial.status.handled) == (0, 1)

    assert watch.of("waits") == [(index, 1)] * 31
    for number, pause in enumerate(watch.pauses()):
        asked = 90 if number % 2 else 60
        assert pause == pytest.approx(asked, abs=SLACK)


async def test_retry_later_does_not_forgive_what_failed(store: Store) -> None:
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store)

    @bot.on_new(retries=2)
    async def moody(request: Any, ctx: Any) -> None:
        watch.note("moody", ctx, request.index)
        if len(watch.calls) % 2:
            raise ValueError
        raise RetryLater(5)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
        (dead,) = await bot.dead_letters()

    assert watch.of("moody") == [(index, 1), (index, 2), (index, 2), (index, 3), (index, 3)]
    assert dead.attempts == 3


@pytest.mark.parametrize("delay", [0, timedelta(0), 0.001, timedelta(milliseconds=1)])
async def test_a_flood_is_held_to_one_a_second(store: Store, delay: Any) -> None:
    sandbox, watch, others = Sandbox(), Watch(), list[int]()
    bot = bot_on(store, concurrency=1)

    @bot.on_new(origin="Ningbo")
    async def floods(request: Any, ctx: Any) -> None:
        watch.note("floods", ctx, request.index)
        raise RetryLater(delay)

    @bot.on_new(origin="Hong Kong")
    async def well(request: Any, ctx: Any) -> None:
        others.append(request.index)

    async with sandbox.running(bot):
        sandbox.publish(other("Ningbo"))
        await anyio.sleep(60)
        indexes = [sandbox.publish() for _ in range(5)]
        await anyio.sleep(60)

    assert 60 <= len(watch.calls) <= 121
    assert min(watch.pauses()) >= 0.999
    assert sorted(others) == indexes


async def test_what_is_due_but_for_a_rounding_is_not_spun_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The feed's clock may stand just before what is due while the loop's goes on: that turns no loop."""
    looks, time, read = 0, UnitOfWork.time, UnitOfWork.read

    async def counted(unit_of_work: UnitOfWork, work: Any) -> Any:
        nonlocal looks
        looks += 1
        assert looks < 10_000
        return await read(unit_of_work, work)

    monkeypatch.setattr(UnitOfWork, "time", lambda unit_of_work: float(int(time(unit_of_work))))
    monkeypatch.setattr(UnitOfWork, "read", counted)
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(MemoryStore())

    @bot.on_new
    async def later(request: Any, ctx: Any) -> None:
        watch.note("later", ctx, request.index)
        if len(watch.calls) < 3:
            raise RetryLater(timedelta(seconds=5, microseconds=1))

    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await trial.idle()
    assert len(watch.calls) == 3


async def test_drop_is_the_end_of_it(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store)

    @bot.on_new
    async def refuses(request: Any, ctx: Any) -> None:
        watch.note("refuses", ctx, request.index)
        raise Drop("we do not go there")

    with caplog.at_level(logging.INFO, "freight_exchange.bot"):
        async with sandbox.running(bot) as trial:
            index = sandbox.publish()
            await trial.idle()
            await anyio.sleep(HOUR)
            assert await bot.dead_letters() == []
            status = trial.status
    assert watch.of("refuses") == [(index, 1)]
    assert (status.handled, status.retried, status.dead) == (1, 0, 0)
    assert any("we do not go there" in record.getMessage() for record in caplog.records)


async def test_a_handler_that_hangs_is_timed_out_and_delays_nobody_for_longer(store: Store) -> None:
    sandbox, watch, others = Sandbox(), Watch(), list[float]()
    bot = bot_on(store, concurrency=1)

    @bot.on_new(origin="Ningbo", id="hangs", retries=2, timeout=timedelta(seconds=30))
    async def hangs(request: Any, ctx: Any) -> None:
        watch.note("hangs", ctx, request.index)
        await anyio.Event().wait()

    @bot.on_new(origin="Hong Kong")
    async def well(request: Any, ctx: Any) -> None:
        others.append(anyio.current_time())

    async with sandbox.running(bot) as trial:
        index = sandbox.publish(other("Ningbo"))
        await anyio.sleep(15)
        began = anyio.current_time()
        sandbox.publish()
        await trial.idle()
        (dead,) = await bot.dead_letters()

    assert watch.of("hangs") == [(index, attempt) for attempt in (1, 2, 3)]
    assert all(29.9 <= pause <= 30 + 4 + SLACK for pause in watch.pauses())
    assert (dead.handler, dead.attempts) == ("hangs", 3)
    assert "TimeoutError" in (dead.error or "")
    assert len(others) == 1
    assert others[0] - began <= 30


async def test_a_time_out_of_the_handlers_own_has_failed_like_any_other_error(store: Store) -> None:
    sandbox, attempts = Sandbox(), list[int]()
    bot = bot_on(store)

    @bot.on_new(retries=1)
    async def impatient(request: Any, ctx: Any) -> None:
        attempts.append(ctx.attempt)
        with anyio.fail_after(2):
            await anyio.sleep(HOUR)

    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await trial.idle()
        assert trial.status.dead == 1
    assert attempts == [1, 2]


OUTCOMES = {
    "later": (lambda: RetryLater(7), (0, 0)),
    "drop": (lambda: Drop("no"), (0, 0)),
    "offered": (lambda: AlreadyOfferedError("a person did", request=1), (0, 0)),
    "refused": (lambda: OfferRejectedError("no", status=400), (0, 1)),
    "failed": (lambda: ValueError("no"), (1, 0)),
}
"""What the first call raises, and how many deliveries are retried for it and given up."""


@pytest.mark.parametrize("deep", [1, 3])
@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_what_a_task_group_wraps_is_judged_by_what_is_inside(store: Store, outcome: str, deep: int) -> None:
    sandbox, calls = Sandbox(), list[int]()
    error, expected = OUTCOMES[outcome]
    bot = bot_on(store)

    @bot.on_new
    async def groups(request: Any, ctx: Any) -> None:
        calls.append(ctx.attempt)
        if len(calls) == 1:
            await in_groups(error, deep)

    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await trial.idle()
        status = trial.status

    assert (status.retried, status.dead) == expected
    assert calls == {"later": [1, 1], "failed": [1, 2]}.get(outcome, [1])


async def in_groups(error: Callable[[], Exception], deep: int) -> None:
    if deep == 0:
        raise error()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(in_groups, error, deep - 1)
        tasks.start_soon(anyio.sleep, HOUR)


async def test_an_error_among_others_that_ask_for_another_time_counts(store: Store) -> None:
    sandbox, attempts = Sandbox(), list[int]()
    bot = bot_on(store)

    @bot.on_new(retries=1)
    async def both(request: Any, ctx: Any) -> None:
        attempts.append(ctx.attempt)
        raise ExceptionGroup("two tasks", [RetryLater(5), ValueError("no")])

    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await trial.idle()
        assert trial.status.dead == 1
    assert attempts == [1, 2]


async def test_two_tasks_that_both_ask_for_another_time_have_not_failed(store: Store) -> None:
    sandbox, attempts, times = Sandbox(), list[int](), list[float]()
    bot = bot_on(store)

    @bot.on_new(retries=0)
    async def both(request: Any, ctx: Any) -> None:
        attempts.append(ctx.attempt)
        times.append(anyio.current_time())
        if len(attempts) < 4:
            raise ExceptionGroup("two tasks", [RetryLater(50), ExceptionGroup("", [RetryLater(20)])])

    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await trial.idle()
        assert trial.status.dead == 0
    assert attempts == [1] * 4
    # None is asked for again before its time.
    assert all(later - earlier >= 49.9 for earlier, later in pairwise(times))


@pytest.mark.parametrize("interval", [30, 300])
async def test_while_the_service_is_away_nothing_is_given_up(store: Store, interval: int) -> None:
    """However seldom the bot looks, and so hears of it."""
    sandbox, calls = Sandbox(), list[int]()
    bot = bot_on(store, interval=timedelta(seconds=interval))

    @bot.on_new
    async def asks(request: Any, ctx: Any) -> None:
        calls.append(ctx.attempt)
        if len(calls) == 1:
            sandbox.strike(*FAULTS["unavailable_forever"]())
        await ctx.exchange.requests.get(request.index)

    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await anyio.sleep(HOUR / 2)
        assert trial.status.dead == 0
        sandbox.exchange.faults.clear()
        await trial.idle()
        assert trial.status.handled == 1
    # More often than it would be called for a failure of its own.
    assert len(calls) > 9


@pytest.mark.parametrize("fault", ["unavailable_forever", "throttled_huge", "refused"])
async def test_while_a_part_of_the_service_is_away_nothing_is_given_up(store: Store, fault: str) -> None:
    """Requests are listed, and so the service is there; what the handler asks of it is not answered."""
    sandbox, times = Sandbox(), list[float]()
    bot = bot_on(store)

    @bot.on_new
    async def asks(request: Any, ctx: Any) -> None:
        times.append(anyio.current_time())
        await ctx.exchange.currencies.list()

    sandbox.strike(*FAULTS[fault](path="currency", times=None))
    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await anyio.sleep(50 * 60)
        assert (trial.status.dead, trial.status.handled) == (0, 0)
        sandbox.exchange.faults.clear()
        await anyio.sleep(HOUR)
        assert trial.status.handled == 1
    assert len(times) < 60, "it is not asked more and more"


async def test_what_the_service_always_fails_at_is_given_up_in_the_end(store: Store) -> None:
    """One request may be poison to the service itself: it answers all else."""
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store)

    @bot.on_new
    async def asks(request: Any, ctx: Any) -> None:
        watch.note("asks", ctx, request.index)
        await ctx.exchange.currencies.list()

    sandbox.strike(*FAULTS["unavailable_forever"](path="currency"))
    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await anyio.sleep(HOUR)
        assert trial.status.dead == 0
        await anyio.sleep(HOUR)
        assert trial.status.dead == 1


async def test_an_attempt_counts_from_its_claim_on(store: Store) -> None:
    sandbox, attempts = Sandbox(), list[int]()

    def new_bot() -> Any:
        bot = bot_on(store)

        @bot.on_new(retries=4)
        async def note(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)

        return bot

    sandbox.publish()
    for _ in range(4):
        async with sandbox.running(new_bot(), crash_at="after claim") as trial:
            await trial.crashed()
    async with sandbox.running(new_bot()) as trial:
        await trial.idle()
    assert attempts == [5]


async def test_those_put_off_time_after_time_starve_nothing_newer(store: Store) -> None:
    """A tariff that does not answer keeps every place busy: what is new takes its turn all the same."""
    sandbox, handed_over = Sandbox(), list[float]()
    bot = bot_on(store)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        if request.origin == "Ningbo":
            handed_over.append(anyio.current_time())
            return
        await anyio.sleep(10)
        raise RetryLater(timedelta(minutes=1), "the tariff does not answer")

    for _ in range(60):
        sandbox.publish()
    async with sandbox.running(bot):
        await anyio.sleep(2 * 60)
        published = anyio.current_time()
        sandbox.publish(other("Ningbo"))
        await anyio.sleep(HOUR)

    assert len(handed_over) == 1
    assert handed_over[0] - published < 60


class Mute(Exception):
    def __str__(self) -> str:
        raise LookupError("says nothing")


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (ValueError("no tariff for \udcff.csv"), "ValueError: no tariff for \\udcff.csv"),
        (Mute(), "Mute"),
        (RetryLater(60, TimeoutError("the tariff")), "TimeoutError: the tariff"),
        (RetryLater(60, "\ud800"), "\\ud800"),
        (Drop("\ud800"), "Drop: \\ud800"),
    ],
    ids=lambda value: ascii(value)[:20],
)
async def test_whatever_an_error_says_ends_no_bot(store: Store, error: Exception, kept: str) -> None:
    """A file name with half of a pair in it cannot be written to a file as it is."""
    sandbox, handled = Sandbox(), list[int]()
    bot = bot_on(store)

    @bot.on_new(retries=0)
    async def quote(request: Any, ctx: Any) -> None:
        if request.origin == "Ningbo":
            raise error
        handled.append(request.index)

    sandbox.publish(other("Ningbo"))
    async with sandbox.running(bot):
        await anyio.sleep(INTERVAL)
        index = sandbox.publish()
        await anyio.sleep(2 * INTERVAL)
        assert handled == [index]
        found = await bot._components().unit_of_work.read(
            lambda work: [one for state in get_args(DeliveryState) for one in work.deliveries(state=state)]
        )
    assert [one.error for one in found if one.error] == [kept]
