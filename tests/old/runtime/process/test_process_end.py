"""Tests of handlers and applications that end the process."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Literal

import anyio
import pytest
from tests.old.rig import HOUR

from freight_exchange import Bot
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox, virtual_time_options

pytestmark = pytest.mark.both_backends


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("inside", ["serve", "block"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_handler_may_end_process(backend: Literal["asyncio", "trio"], inside: str, error: BaseException) -> None:
    """The delivery is repeated, and the attempt counts. Other deliveries are repeated without counting."""
    sandbox, kept, attempts = Sandbox(), MemoryStore(), list[tuple[str, int]]()

    def make_bot() -> Bot:
        bot = Bot(sandbox.client(), store=kept, start="backfill", interval=timedelta(seconds=10))

        @bot.on_new(id="ends", retries=1)
        async def ends(request: Any, ctx: Any) -> None:
            attempts.append(("ends", ctx.attempt))
            await anyio.sleep(1)
            if len(attempts) < 3:
                raise error

        @bot.on_new(id="slow", retries=0)
        async def slow(request: Any, ctx: Any) -> None:
            attempts.append(("slow", ctx.attempt))
            await anyio.sleep(30)

        return bot

    async def main() -> None:
        bot = make_bot()
        if inside == "serve":
            await bot.serve()
        else:
            async with bot:
                await anyio.sleep(HOUR)

    async def again() -> int:
        bot = make_bot()
        async with bot:
            await anyio.sleep(300)
            assert await bot.dead_letters() == []
        return bot.status().handled

    # Two requests: of one, one handler would wait for the other.
    sandbox.publish()
    sandbox.publish()
    options = virtual_time_options(backend)
    with pytest.raises(type(error)) as raised:
        anyio.run(main, backend=backend, backend_options=options)
    assert raised.value is error
    assert anyio.run(again, backend=backend, backend_options=virtual_time_options(backend)) == 4
    kept.close()


def test_end_of_application_is_no_failure() -> None:
    """asyncio cancels each task at the end, without a scope."""
    sandbox, kept, attempts = Sandbox(), MemoryStore(), list[int]()
    ending: list[asyncio.Future[None]] = []

    def make_bot() -> Bot:
        bot = Bot(sandbox.client(), store=kept, start="backfill", interval=timedelta(seconds=10))

        @bot.on_new(retries=0)
        async def slow(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            await anyio.sleep(20)

        return bot

    async def ends() -> None:
        await anyio.sleep(10)
        raise SystemExit(3)

    async def main() -> None:
        async with make_bot():
            ending.append(asyncio.ensure_future(ends()))
            await anyio.sleep(HOUR)

    async def again() -> None:
        bot = make_bot()
        async with bot:
            await anyio.sleep(60)
            assert await bot.dead_letters() == []

    sandbox.publish()
    with pytest.raises(SystemExit):
        anyio.run(main, backend_options=virtual_time_options("asyncio"))
    assert isinstance(ending[0].exception(), SystemExit)
    anyio.run(again, backend_options=virtual_time_options("asyncio"))
    assert attempts == [1, 1]
    kept.close()
