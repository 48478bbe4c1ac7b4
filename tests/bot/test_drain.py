"""Tests of the drain: handlers get their time, then are cancelled, and called again later."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.bot.rig import AMOUNT, amounts_on, eventually, new_bot, run_until_idle, strike

from freight_exchange import Bot
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]
DRAIN = timedelta(seconds=25)


class TestDrain:
    @pytest.mark.parametrize("crowd", [1, 20])
    async def test_handlers_that_stop_end_at_once(self, sandbox: Sandbox, store: MemoryStore, crowd: int) -> None:
        bot, ended = new_bot(store, concurrency=crowd, settle=timedelta(0)), Counter[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            assert not ctx.stopping
            await ctx.stopping.wait()
            assert ctx.stopping
            assert ctx.stopping.is_set()
            await anyio.sleep(1)
            await ctx.offer(amount=AMOUNT, currency=840)
            ended[request.index] += 1

        indexes = [sandbox.publish() for _ in range(crowd)]
        async with sandbox.running(bot) as trial:
            await eventually(lambda: trial.status.in_flight == crowd)
            began = anyio.current_time()
        assert anyio.current_time() - began < 5
        assert ended == dict.fromkeys(indexes, 1)
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * crowd
        # And they are done.
        await run_until_idle(sandbox, bot)
        assert ended == dict.fromkeys(indexes, 1)

    @pytest.mark.parametrize("crowd", [1, 20])
    async def test_cancelled_handlers_are_called_again(self, sandbox: Sandbox, store: MemoryStore, crowd: int) -> None:
        bot, attempts, patient = new_bot(store, concurrency=crowd, drain=DRAIN), list[int](), [3600.0]

        @bot.on_new(retries=0, timeout=7200)
        async def quote(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            await anyio.sleep(patient[0])
            await ctx.offer(amount=AMOUNT, currency=840)

        indexes = [sandbox.publish() for _ in range(crowd)]
        for restart in range(3):
            async with sandbox.running(bot) as trial:
                await eventually(lambda trial=trial: trial.status.in_flight == crowd)  # type: ignore[misc]  # no types for it
                began = anyio.current_time()
            assert DRAIN.total_seconds() <= anyio.current_time() - began <= DRAIN.total_seconds() + 1
            assert len(attempts) == crowd * (restart + 1)
        patient[0] = 0.0
        status = await run_until_idle(sandbox, bot)
        assert status.dead == 0
        # A cancellation by the drain does not count as a failure.
        assert set(attempts) == {1}
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * crowd

    async def test_offers_being_sent_are_neither_lost_nor_repeated(self, sandbox: Sandbox, store: MemoryStore) -> None:
        def mixed() -> Bot:
            bot = new_bot(store, concurrency=15, drain=timedelta(seconds=10))

            @bot.on_new(timeout=7200)
            async def quote(request: Any, ctx: Any) -> None:
                await anyio.sleep(request.index % 20)
                await ctx.offer(amount=AMOUNT, currency=840)

            return bot

        strike(sandbox, "slow", seconds=4.0, times=None)
        indexes = [sandbox.publish() for _ in range(15)]
        async with sandbox.running(mixed()) as trial:
            await eventually(lambda: trial.status.in_flight == 15)
            await anyio.sleep(3)
            began = anyio.current_time()
        assert anyio.current_time() - began <= 15
        sandbox.exchange.faults.clear()
        status = await run_until_idle(sandbox, mixed())
        assert (status.dead, status.parked, status.in_doubt) == (0, 0, 0)
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * 15

    async def test_drain_claims_nothing_more(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, called = new_bot(store, concurrency=2), list[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            called.append(request.index)
            await anyio.sleep(20)

        for _ in range(10):
            sandbox.publish()
        async with sandbox.running(bot) as trial:
            await eventually(lambda: trial.status.in_flight == 2)
            await anyio.sleep(1)
        assert len(called) == 2

    async def test_failure_during_drain_is_retried_after_restart(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, attempts = new_bot(store), list[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            if ctx.attempt == 1:
                await ctx.stopping.wait()
                raise OSError("no more")

        sandbox.publish()
        async with sandbox.running(bot) as trial:
            await eventually(lambda: trial.status.in_flight)
        assert attempts == [1]
        await run_until_idle(sandbox, bot)
        assert attempts == [1, 2]


class TestOwnScope:
    async def test_handler_may_cancel_own_scope(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await anyio.sleep(1)
            await ctx.offer(amount=AMOUNT, currency=840)

        index = sandbox.publish()
        await run_until_idle(sandbox, bot)
        assert amounts_on(sandbox, index) == [AMOUNT]
