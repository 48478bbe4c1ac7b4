"""A bot on trial: what a test may rely on once it has waited for it."""

from __future__ import annotations

from typing import Any

import anyio.lowlevel
import pytest
from tests.unit.bot.rig import INTERVAL, bot_on

from freight_exchange import Bot
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time


async def test_idle_it_has_seen_what_was_published_in_the_instant_of_its_last_scan(sandbox: Sandbox) -> None:
    bot = bot_on(None)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=1840, currency=1)

    async with sandbox.running(bot) as trial:
        while trial.status.feed is None or trial.status.feed.cover_age is None:
            await anyio.lowlevel.checkpoint()
        index, began = sandbox.publish(), anyio.current_time()
        await trial.idle()
        assert len(sandbox.truth.offers_on(index)) == 1
        assert anyio.current_time() - began < 2 * INTERVAL


class _OfItsOwn(BaseException):
    pass


@pytest.mark.parametrize("where", ["idle", "leaving", "beside"])
@pytest.mark.parametrize(
    "error",
    [pytest.fail.Exception("must not be called"), SystemExit(3), _OfItsOwn("gone")],
    ids=["fail", "exit", "own"],
)
async def test_what_no_handler_may_catch_reaches_whoever_runs_the_bot(
    sandbox: Sandbox, error: BaseException, where: str
) -> None:
    bot = Bot(sandbox.client(), store=None, start="backfill") if where == "beside" else bot_on(None)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        raise error

    async def run() -> None:
        if where == "beside":
            async with bot:
                await anyio.sleep(60)
        else:
            async with sandbox.running(bot) as trial:
                await (trial.idle() if where == "idle" else anyio.sleep(60))

    sandbox.publish()
    with pytest.raises(type(error)) as raised:
        await run()
    assert raised.value is error
