"""Tests of retries, dead letters, and outages, which make none."""

from __future__ import annotations

import logging
from datetime import timedelta
from itertools import pairwise
from typing import Any

import anyio
import pytest
from tests.bot.rig import HOUR, SELDOM, Calls, new_bot, other

from freight_exchange import Drop, RetryLater
from freight_exchange.store import Store
from freight_exchange.testing import FAULTS, Sandbox

pytestmark = pytest.mark.virtual_time


SLACK = 0.5
"""Longest delay of a call behind its due time: the bot's own poll interval."""


async def test_failure_is_retried_with_backoff_then_dead(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, calls = Sandbox(), Calls()
    bot = new_bot(store)

    @bot.on_new(id="broken", retries=5)
    async def broken(request: Any, ctx: Any) -> None:
        calls.note("broken", ctx, request.index)
        raise ValueError(f"the {ctx.attempt}. time")

    with caplog.at_level(logging.WARNING, "freight_exchange.bot"):
        async with sandbox.running(bot) as trial:
            index = sandbox.publish()
            await trial.idle()
            await anyio.sleep(HOUR / 6)
            (dead,) = await bot.dead_letters()
            status = trial.status

    assert calls.of("broken") == [(index, attempt) for attempt in range(1, 7)]
    for doublings, pause in enumerate(calls.pauses()):
        assert 2.0**doublings / 2 - 0.001 <= pause <= 2.0**doublings + SLACK
    assert (dead.handler, dead.request, dead.kind, dead.attempts) == ("broken", index, "new", 6)
    assert dead.error == "ValueError: the 6. time"
    assert (status.retried, status.dead, status.handled, status.in_flight) == (5, 1, 0, 0)
    reported = [record for record in caplog.records if "handler broken" in record.getMessage()]
    assert [record.levelno for record in reported] == [logging.WARNING] * 5 + [logging.ERROR]
    assert all(vars(record)["request"] == index for record in reported)


async def test_delay_continues_after_restart(store: Store) -> None:
    sandbox, calls = Sandbox(), Calls()

    def make_bot() -> Any:
        bot = new_bot(store, interval=timedelta(minutes=1))

        @bot.on_new
        async def later(request: Any, ctx: Any) -> None:
            calls.note("later", ctx, request.index)
            if len(calls.calls) == 1:
                raise RetryLater(timedelta(minutes=20))

        return bot

    sandbox.publish()
    async with sandbox.running(make_bot()):
        await anyio.sleep(60)
    await anyio.sleep(240)
    async with sandbox.running(make_bot()) as trial:
        await anyio.sleep(1200)
        await trial.idle()
    (pause,) = calls.pauses()
    assert pause == pytest.approx(1200, abs=SLACK)


async def test_retry_later_is_no_failure(store: Store) -> None:
    sandbox, calls = Sandbox(), Calls()
    bot = new_bot(store, interval=timedelta(minutes=1))

    @bot.on_new(retries=0)
    async def waits(request: Any, ctx: Any) -> None:
        calls.note("waits", ctx, request.index)
        if len(calls.calls) <= 30:
            raise RetryLater(timedelta(minutes=1) if len(calls.calls) % 2 else 90)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(2400)
        await trial.idle()
        assert await bot.dead_letters() == []
        assert (trial.status.retried, trial.status.handled) == (0, 1)

    assert calls.of("waits") == [(index, 1)] * 31
    for number, pause in enumerate(calls.pauses()):
        expected = 90 if number % 2 else 60
        assert pause == pytest.approx(expected, abs=SLACK)


async def test_retry_later_keeps_earlier_failures(store: Store) -> None:
    sandbox, calls = Sandbox(), Calls()
    bot = new_bot(store)

    @bot.on_new(retries=2)
    async def moody(request: Any, ctx: Any) -> None:
        calls.note("moody", ctx, request.index)
        if len(calls.calls) % 2:
            raise ValueError
        raise RetryLater(5)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
        (dead,) = await bot.dead_letters()

    assert calls.of("moody") == [(index, 1), (index, 2), (index, 2), (index, 3), (index, 3)]
    assert dead.attempts == 3


@pytest.mark.parametrize("delay", [0, timedelta(milliseconds=1)])
async def test_retry_later_waits_a_second_at_least(store: Store, delay: Any) -> None:
    sandbox, calls, others = Sandbox(), Calls(), list[int]()
    bot = new_bot(store, concurrency=1)

    @bot.on_new(origin="Ningbo")
    async def floods(request: Any, ctx: Any) -> None:
        calls.note("floods", ctx, request.index)
        raise RetryLater(delay)

    @bot.on_new(origin="Hong Kong")
    async def well(request: Any, ctx: Any) -> None:
        others.append(request.index)

    async with sandbox.running(bot):
        sandbox.publish(other("Ningbo"))
        await anyio.sleep(60)
        indexes = [sandbox.publish() for _ in range(5)]
        await anyio.sleep(60)

    assert 60 <= len(calls.calls) <= 121
    assert min(calls.pauses()) >= 0.999
    assert sorted(others) == indexes


async def test_drop_ends_delivery(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, calls = Sandbox(), Calls()
    bot = new_bot(store)

    @bot.on_new
    async def refuses(request: Any, ctx: Any) -> None:
        calls.note("refuses", ctx, request.index)
        raise Drop("we do not go there")

    with caplog.at_level(logging.INFO, "freight_exchange.bot"):
        async with sandbox.running(bot) as trial:
            index = sandbox.publish()
            await trial.idle()
            await anyio.sleep(HOUR / 6)
            assert await bot.dead_letters() == []
            status = trial.status
    assert calls.of("refuses") == [(index, 1)]
    assert (status.handled, status.retried, status.dead) == (1, 0, 0)
    assert any("we do not go there" in record.getMessage() for record in caplog.records)


async def test_timeout_is_a_failure_and_delays_no_other(store: Store) -> None:
    sandbox, calls, others = Sandbox(), Calls(), list[float]()
    bot = new_bot(store, concurrency=1, interval=timedelta(seconds=10))

    @bot.on_new(origin="Ningbo", id="hangs", retries=2, timeout=timedelta(seconds=30))
    async def hangs(request: Any, ctx: Any) -> None:
        calls.note("hangs", ctx, request.index)
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

    assert calls.of("hangs") == [(index, attempt) for attempt in (1, 2, 3)]
    assert all(29.9 <= pause <= 30 + 4 + SLACK for pause in calls.pauses())
    assert (dead.handler, dead.attempts) == ("hangs", 3)
    assert "TimeoutError" in (dead.error or "")
    assert len(others) == 1
    assert others[0] - began <= 30


async def test_retry_later_of_two_tasks_is_no_failure(store: Store) -> None:
    sandbox, attempts, times = Sandbox(), list[int](), list[float]()
    bot = new_bot(store)

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


async def test_postponed_deliveries_starve_no_newer_one(store: Store) -> None:
    """They are due again and again, and fill each batch."""
    sandbox, handed_over = Sandbox(), list[float]()
    bot = new_bot(store, interval=timedelta(seconds=10))

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
        await anyio.sleep(600)

    assert len(handed_over) == 1
    assert handed_over[0] - published < 60


class Mute(Exception):
    def __str__(self) -> str:
        raise LookupError("no reason")


@pytest.mark.parametrize("interval", [30, 300])
async def test_outage_of_service_kills_no_delivery(store: Store, interval: int) -> None:
    """This holds for any interval between scans."""
    sandbox, calls = Sandbox(), list[int]()
    bot = new_bot(store, interval=timedelta(seconds=interval))

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
async def test_outage_of_operation_kills_no_delivery(store: Store, fault: str) -> None:
    """Requests are listed, but the operation that the handler calls fails."""
    sandbox, times = Sandbox(), list[float]()
    bot = new_bot(store, interval=SELDOM)

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


async def test_permanent_failure_of_service_is_dead_in_the_end(store: Store) -> None:
    """One request may fail at the service while all others succeed."""
    sandbox, calls = Sandbox(), Calls()
    bot = new_bot(store, interval=SELDOM)

    @bot.on_new
    async def asks(request: Any, ctx: Any) -> None:
        calls.note("asks", ctx, request.index)
        await ctx.exchange.currencies.list()

    sandbox.strike(*FAULTS["unavailable_forever"](path="currency"))
    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await anyio.sleep(HOUR)
        assert trial.status.dead == 0
        await anyio.sleep(HOUR)
        assert trial.status.dead == 1
