"""Stopping: handlers are told, have their time, are cut off and come again; nothing is lost, and nothing hangs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.unit.bot.ledger_rig import AMOUNT, amounts_on, eventually, new_bot, offering_bot, strike

from freight_exchange import Bot, FreightExchange
from freight_exchange.bot.unit_of_work import UnitOfWork
from freight_exchange.errors import ConfigurationError, LoginRejectedError, StoreError
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Sandbox

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]

ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)

DRAIN = timedelta(seconds=25)


@pytest.fixture
async def exchange(sandbox: Sandbox) -> AsyncIterator[FreightExchange]:
    """Entered, so that a bot leaves it open."""
    async with sandbox.client() as client:
        yield client


class TestDrain:
    @pytest.mark.parametrize("crowd", [1, 100])
    async def test_handlers_that_heed_stopping_end_at_once(
        self, sandbox: Sandbox, store: MemoryStore, crowd: int
    ) -> None:
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
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert ended == dict.fromkeys(indexes, 1)

    @pytest.mark.parametrize("crowd", [1, 100])
    async def test_handlers_that_do_not_are_cut_off_and_come_again(
        self, sandbox: Sandbox, store: MemoryStore, crowd: int
    ) -> None:
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
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert trial.status.dead == 0
        # Being cut off is no failure.
        assert set(attempts) == {1}
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * crowd

    async def test_of_a_mixed_crowd_with_offers_on_their_way_nothing_is_lost_or_made_twice(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        def mixed() -> Bot:
            bot = new_bot(store, concurrency=100, drain=timedelta(seconds=10))

            @bot.on_new(timeout=7200)
            async def quote(request: Any, ctx: Any) -> None:
                await anyio.sleep(request.index % 20)
                await ctx.offer(amount=AMOUNT, currency=840)

            return bot

        strike(sandbox, "slow", seconds=4.0, times=None)
        indexes = [sandbox.publish() for _ in range(100)]
        async with sandbox.running(mixed()) as trial:
            await eventually(lambda: trial.status.in_flight == 100)
            await anyio.sleep(3)
            began = anyio.current_time()
        assert anyio.current_time() - began <= 11
        sandbox.exchange.faults.clear()
        async with sandbox.running(mixed()) as trial:
            await trial.idle()
            assert (trial.status.dead, trial.status.parked, trial.status.in_doubt) == (0, 0, 0)
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * 100

    async def test_nothing_more_is_begun(self, sandbox: Sandbox, store: MemoryStore) -> None:
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

    async def test_what_is_being_claimed_at_the_stop_is_put_back_and_waited_for(
        self, sandbox: Sandbox, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A slow disk: its handler would begin when nobody waits for it any more."""
        bot, attempts, claims, write = new_bot(store), list[int](), anyio.Event(), UnitOfWork.write

        async def slow(unit_of_work: UnitOfWork, step: str, work: Any) -> Any:
            done = await write(unit_of_work, step, work)
            if step == "claim":
                claims.set()
                await anyio.sleep(5)
            return done

        @bot.on_new(retries=0)
        async def quote(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)

        sandbox.publish()
        with monkeypatch.context() as patch:
            patch.setattr(UnitOfWork, "write", slow)
            async with sandbox.running(bot):
                await claims.wait()
        assert attempts == []
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert attempts == [1]

    async def test_a_drain_without_patience_cuts_off_at_once(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store, drain=timedelta(0))

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await anyio.sleep(200)

        sandbox.publish()
        async with sandbox.running(bot) as trial:
            await eventually(lambda: trial.status.in_flight)
            began = anyio.current_time()
        assert anyio.current_time() - began < 1

    async def test_a_handler_is_told_though_nothing_else_waits(self, sandbox: Sandbox, store: MemoryStore) -> None:
        """One whose failure is settled in the drain does not come again before the next start."""
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
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert attempts == [1, 2]


class TestAHandlersOwnCancellations:
    @ON_ASYNCIO  # on trio nobody else's cancellation can be caught up in
    async def test_a_handler_that_awaits_what_was_cancelled_is_a_failure_like_any_other(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        bot, attempts = new_bot(store), list[int]()

        @bot.on_new(retries=2)
        async def quote(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

        sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert trial.status.dead == 1
            other = sandbox.publish()
            await trial.idle()
            assert trial.status.dead == 2
        assert attempts == [1, 2, 3] * 2
        assert other

    async def test_a_handler_that_cancels_its_own_scope_goes_on(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await anyio.sleep(1)
            await ctx.offer(amount=AMOUNT, currency=840)

        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]


class TestStop:
    async def test_while_it_primes_under_an_outage(
        self, sandbox: Sandbox, exchange: FreightExchange, store: MemoryStore
    ) -> None:
        for fault in ("stall", "refused", "unavailable_forever"):
            sandbox.exchange.faults.clear()
            sandbox.strike(*FAULTS[fault](times=None))
            bot = offering_bot(store)
            async with anyio.create_task_group() as tasks:

                async def serve(bot: Bot = bot) -> None:
                    await bot.serve(exchange=sandbox.client())

                tasks.start_soon(serve)
                await anyio.sleep(300)
                assert bot.status().state == "starting"
                bot.stop()
                began = anyio.current_time()
            assert anyio.current_time() - began < 1
            assert bot.status().state == "stopped"
        # The store was given back.
        sandbox.exchange.faults.clear()
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()

    async def test_while_the_exchange_stalls(self, sandbox: Sandbox, store: MemoryStore) -> None:
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            sandbox.strike(*FAULTS["stall"](times=None))
            await anyio.sleep(300)
            began = anyio.current_time()
        assert anyio.current_time() - began < 1

    async def test_a_trial_that_is_left_at_once_ends(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = offering_bot(store)
        async with anyio.create_task_group() as tasks:
            rescued = _rescuing(tasks, bot)
            async with sandbox.running(bot):
                pass
            tasks.cancel_scope.cancel()
        assert rescued == []

    async def test_before_the_first_step_of_a_block_that_is_cancelled_as_it_is_entered(
        self, sandbox: Sandbox, exchange: FreightExchange, store: MemoryStore
    ) -> None:
        bot = _with_exchange(store, exchange)
        async with anyio.create_task_group() as tasks:
            rescued = _rescuing(tasks, bot)
            with anyio.CancelScope() as scope:
                scope.cancel()
                async with bot:
                    raise AssertionError("the block began")
            tasks.cancel_scope.cancel()
        assert rescued == []
        assert bot.status().state == "stopped"

    async def test_twice_is_once(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            await trial.idle()
            bot.stop()
            bot.stop()
            assert bot.is_stopping
        assert trial.status.state == "stopped"
        bot.stop()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert not bot.is_stopping

    async def test_from_a_handler(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840)
            bot.stop()

        index = sandbox.publish()
        await bot.serve(exchange=sandbox.client())
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert bot.status().handled == 1


class TestTheBlock:
    async def test_begins_when_the_bot_hands_over_and_ends_with_its_drain(
        self, sandbox: Sandbox, exchange: FreightExchange, store: MemoryStore
    ) -> None:
        index = sandbox.publish()
        bot = _with_exchange(store, exchange)
        async with bot as entered:
            assert entered is bot
            assert bot.status().state == "running"
            await eventually(lambda: amounts_on(sandbox, index))
        assert bot.status().state == "stopped"
        async with bot:
            assert bot.status().state == "running"

    async def test_raises_what_kept_the_bot_from_starting(self, sandbox: Sandbox, exchange: FreightExchange) -> None:
        strike(sandbox, "login_message_401", path="login", times=None)
        bot = _with_exchange(MemoryStore(), exchange)
        with pytest.raises(LoginRejectedError):
            async with bot:
                raise AssertionError("the block began")
        sandbox.exchange.faults.clear()
        exchange.reset_login()
        async with bot:
            assert bot.status().state == "running"

    async def test_raises_its_bodys_error(self, exchange: FreightExchange, store: MemoryStore) -> None:
        bot = _with_exchange(store, exchange)
        with pytest.raises(LookupError, match="mine"):
            async with bot:
                raise LookupError("mine")
        assert bot.status().state == "stopped"

    async def test_raises_what_ended_the_bot(
        self, sandbox: Sandbox, exchange: FreightExchange, store: MemoryStore
    ) -> None:
        bot = _with_exchange(store, exchange)
        with pytest.raises(StoreError):  # noqa: PT012 - the block is what raises it
            async with bot:
                store.close()
                await anyio.sleep(60)
        assert bot.status().state == "stopped"

    async def test_that_is_cancelled_drains(
        self, sandbox: Sandbox, exchange: FreightExchange, store: MemoryStore
    ) -> None:
        bot, ended = new_bot(store), list[int]()
        bot._exchange = exchange

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.stopping.wait()
            await anyio.sleep(3)
            ended.append(request.index)

        index = sandbox.publish()
        with anyio.move_on_after(60):
            async with bot:
                await anyio.sleep_forever()
        assert ended == [index]


class TestServe:
    async def test_twice_at_a_time_is_refused(
        self, sandbox: Sandbox, exchange: FreightExchange, store: MemoryStore
    ) -> None:
        bot = _with_exchange(store, exchange)
        index = sandbox.publish()
        async with bot:
            with pytest.raises(ConfigurationError, match="runs already"):
                await bot.serve(exchange=exchange)
            with pytest.raises(ConfigurationError, match="runs already"):
                async with bot:
                    pass
            # The first one is none the worse.
            await eventually(lambda: amounts_on(sandbox, index))
            assert bot.status().state == "running"

    async def test_of_two_bots_on_a_store_the_second_is_refused(
        self, sandbox: Sandbox, exchange: FreightExchange, store: MemoryStore
    ) -> None:
        async with _with_exchange(store, exchange) as first:
            with pytest.raises(StoreError):
                await offering_bot(store).serve(exchange=exchange)
            assert first.status().state == "running"

    async def test_that_is_cancelled_gives_everything_back(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, attempts = new_bot(store), list[int]()

        @bot.on_new(retries=0)
        async def quote(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            await anyio.sleep(40 if len(attempts) == 1 else 0)
            await ctx.offer(amount=AMOUNT, currency=840)

        index = sandbox.publish()
        with anyio.move_on_after(20):
            await bot.serve(exchange=sandbox.client())
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert attempts == [1, 1]
        assert amounts_on(sandbox, index) == [AMOUNT]

    @pytest.mark.parametrize("at", ["before settle", "before sending", "before confirmed", "before claim"])
    async def test_a_store_that_fails_for_many_at_once_is_one_error(
        self, sandbox: Sandbox, store: MemoryStore, at: str
    ) -> None:
        """A full disk meets every handler in the same moment; what is raised is what `serve` says that it raises."""

        def full(point: str) -> None:
            if point == at:
                raise StoreError("the disk is full")

        bot = new_bot(store, concurrency=20)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await anyio.sleep(max(0.0, 30 - anyio.current_time()))
            await ctx.offer(amount=AMOUNT, currency=840)

        indexes = [sandbox.publish() for _ in range(20)]
        with pytest.raises(StoreError, match="full"):
            await bot.serve(exchange=sandbox.client(), failpoints=full)
        async with sandbox.running(offering_bot_like(bot, store)) as trial:
            await trial.idle()
            assert trial.status.parked == 0
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * 20


def offering_bot_like(bot: Bot, store: MemoryStore) -> Bot:
    """A bot with the same handlers, whose time has come."""
    again = new_bot(store)
    again.include(bot)
    return again


def _with_exchange(store: MemoryStore, exchange: FreightExchange) -> Bot:
    bot = offering_bot(store)
    bot._exchange = exchange
    return bot


def _rescuing(tasks: Any, bot: Bot) -> list[str]:
    """Stops a bot after a minute that would otherwise go on for ever, and notes that it had to."""
    rescued: list[str] = []

    async def rescue() -> None:
        await anyio.sleep(60)
        rescued.append("it had to be stopped again")
        bot.stop()

    tasks.start_soon(rescue)
    return rescued
