"""Tests of `async with bot`, which runs a bot during the block."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.bot.rig import amounts_on, bot_with_client, eventually, new_bot, strike

from freight_exchange import FreightExchange
from freight_exchange.errors import LoginRejectedError
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox

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
