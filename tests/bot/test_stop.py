"""Tests of a bot's start, block, stop and drain."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.bot.rig import AMOUNT, amounts_on, bot_with_client, eventually, new_bot, offering_bot, run_until_idle, strike

from freight_exchange import Bot, ConfigurationError, FreightExchange, Router, StoreError
from freight_exchange.errors import LoginRejectedError
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import FAULTS, Sandbox

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]


class TestBlock:
    async def test_begins_with_deliveries_and_ends_with_drain(
        self, sandbox: Sandbox, exchange: FreightExchange, store: MemoryStore
    ) -> None:
        index = sandbox.publish()
        bot = bot_with_client(store, exchange)
        async with bot as entered:
            assert entered is bot
            assert bot.status().state == "running"
            await eventually(lambda: amounts_on(sandbox, index))
        assert bot.status().state == "stopped"
        async with bot:
            assert bot.status().state == "running"

    async def test_raises_error_of_start(self, sandbox: Sandbox, exchange: FreightExchange) -> None:
        strike(sandbox, "login_message_401", path="login", times=None)
        bot = bot_with_client(MemoryStore(), exchange)
        with pytest.raises(LoginRejectedError):
            async with bot:
                raise AssertionError("the block began")
        sandbox.exchange.faults.clear()
        exchange.reset_login()
        async with bot:
            assert bot.status().state == "running"

    async def test_raises_error_of_its_body(self, exchange: FreightExchange, store: MemoryStore) -> None:
        bot = bot_with_client(store, exchange)
        with pytest.raises(LookupError, match="mine"):
            async with bot:
                raise LookupError("mine")
        assert bot.status().state == "stopped"

    async def test_drains_when_cancelled(self, sandbox: Sandbox, exchange: FreightExchange, store: MemoryStore) -> None:
        ended = list[int]()

        async def quote(request: Any, ctx: Any) -> None:
            await ctx.stopping.wait()
            await anyio.sleep(3)
            ended.append(request.index)

        bot = bot_with_client(store, exchange, quote)
        index = sandbox.publish()
        with anyio.move_on_after(60):
            async with bot:
                await anyio.sleep_forever()
        assert ended == [index]


class TestStop:
    async def test_stop_during_outage_ends_at_once(
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
        await run_until_idle(sandbox, offering_bot(store))

    async def test_trial_left_at_once_ends(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = offering_bot(store)
        async with anyio.create_task_group() as tasks:
            rescued = _rescuing(tasks, bot)
            async with sandbox.running(bot):
                pass
            tasks.cancel_scope.cancel()
        assert rescued == []

    async def test_block_cancelled_on_entry_ends(
        self, sandbox: Sandbox, exchange: FreightExchange, store: MemoryStore
    ) -> None:
        bot = bot_with_client(store, exchange)
        async with anyio.create_task_group() as tasks:
            rescued = _rescuing(tasks, bot)
            with anyio.CancelScope() as scope:
                scope.cancel()
                async with bot:
                    raise AssertionError("the block began")
            tasks.cancel_scope.cancel()
        assert rescued == []
        assert bot.status().state == "stopped"

    async def test_second_stop_changes_nothing(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            await trial.idle()
            bot.stop()
            bot.stop()
            assert bot.status().state == "draining"
        assert trial.status.state == "stopped"
        bot.stop()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert bot.status().state == "running"

    async def test_handler_may_stop_bot(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840)
            bot.stop()

        index = sandbox.publish()
        await bot.serve(exchange=sandbox.client())
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert bot.status().handled == 1


class TestServe:
    async def test_second_serve_is_refused(
        self, sandbox: Sandbox, exchange: FreightExchange, store: MemoryStore
    ) -> None:
        bot = bot_with_client(store, exchange)
        index = sandbox.publish()
        async with bot:
            with pytest.raises(ConfigurationError, match="runs already"):
                await bot.serve(exchange=exchange)
            with pytest.raises(ConfigurationError, match="runs already"):
                async with bot:
                    pass
            # The first bot is not affected.
            await eventually(lambda: amounts_on(sandbox, index))
            assert bot.status().state == "running"

    async def test_second_bot_on_store_is_refused(
        self, sandbox: Sandbox, exchange: FreightExchange, store: MemoryStore
    ) -> None:
        async with bot_with_client(store, exchange) as first:
            with pytest.raises(StoreError):
                await offering_bot(store).serve(exchange=exchange)
            assert first.status().state == "running"

    async def test_cancelled_serve_releases_everything(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, attempts = new_bot(store), list[int]()

        @bot.on_new(retries=0)
        async def quote(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            await anyio.sleep(40 if len(attempts) == 1 else 0)
            await ctx.offer(amount=AMOUNT, currency=840)

        index = sandbox.publish()
        with anyio.move_on_after(20):
            await bot.serve(exchange=sandbox.client())
        await run_until_idle(sandbox, bot)
        assert attempts == [1, 1]
        assert amounts_on(sandbox, index) == [AMOUNT]


def _rescuing(tasks: Any, bot: Bot) -> list[str]:
    """Stop a bot after a minute if it does not end, and record that."""
    rescued: list[str] = []

    async def rescue() -> None:
        await anyio.sleep(60)
        rescued.append("it had to be stopped again")
        bot.stop()

    tasks.start_soon(rescue)
    return rescued


async def does_nothing(request: Any, ctx: Any) -> None:
    pass


async def test_running_bot_takes_no_handlers(store: Store) -> None:
    sandbox, router = Sandbox(), Router()
    bot = new_bot(store)
    bot.on_new(does_nothing)
    router.on_updated(id="later")(does_nothing)
    async with sandbox.running(bot) as trial:
        await trial.idle()
        for late in (lambda: bot.on_updated(id="later")(does_nothing), lambda: bot.include(router)):
            with pytest.raises(ConfigurationError, match="runs already"):
                late()
    bot.include(router)
    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await trial.idle()
        assert trial.status.handled == 1


async def test_bot_without_handlers_does_not_start(store: Store) -> None:
    """It would acknowledge each request without handling it."""
    sandbox, router = Sandbox(), Router()
    router.on_new(does_nothing)
    bot = new_bot(store)
    sandbox.publish()
    with pytest.raises(ConfigurationError, match="has no handler"):
        await bot.serve(exchange=sandbox.client())
    with pytest.raises(ConfigurationError, match="has no handler"):
        async with bot:
            pytest.fail("it has nothing to do")
    assert list(sandbox.audit_log.calls) == []
    bot.include(router)
    status = await run_until_idle(sandbox, bot)
    assert status.handled == 1


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
