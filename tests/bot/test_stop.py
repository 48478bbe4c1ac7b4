"""Stop and start of a bot."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.bot.rig import AMOUNT, amounts_on, bot_with_client, eventually, new_bot, offering_bot, run_until_idle

from freight_exchange import Bot, ConfigurationError, FreightExchange, Router, StoreError
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import FAULTS, Sandbox

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]


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


virtual = pytest.mark.virtual_time


async def does_nothing(request: Any, ctx: Any) -> None:
    pass


@virtual
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


@virtual
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
