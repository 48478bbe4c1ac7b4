"""A bot on trial: what a test may rely on once it has waited for it."""

from __future__ import annotations

from typing import Any

import anyio.lowlevel
import pytest
from tests.unit.bot.ledger_rig import eventually
from tests.unit.bot.rig import INTERVAL, bot_on, store

from freight_exchange import Bot
from freight_exchange.store import Store
from freight_exchange.testing import FAULTS, Sandbox

__all__ = ["store"]

pytestmark = pytest.mark.virtual_time


async def test_idle_it_has_seen_what_was_published_in_the_instant_of_its_last_scan(sandbox: Sandbox) -> None:
    bot = bot_on(None)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=1840, currency=840)

    async with sandbox.running(bot) as trial:
        while trial.status.feed is None or trial.status.feed.cover_age is None:
            await anyio.lowlevel.checkpoint()
        index, began = sandbox.publish(), anyio.current_time()
        await trial.idle()
        assert len(sandbox.audit_log.offers_on(index)) == 1
        assert anyio.current_time() - began < 2 * INTERVAL


async def test_once_it_has_crashed_nothing_lasts_any_more(sandbox: Sandbox, store: Store) -> None:
    """What is under way beside the one that crashes is killed with it, wherever it comes to next."""

    def offering() -> Bot:
        bot = bot_on(store)

        @bot.on_new(id="quote")
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=1840, currency=840)

        return bot

    for _ in range(6):
        sandbox.publish()
    async with sandbox.running(offering(), crash_at="after send", times=2) as trial:
        await trial.crashed()
    # The next run learns nothing new.
    sandbox.strike(*FAULTS["unavailable_forever"](path="quote/bid", times=None))
    later = offering()
    async with sandbox.running(later) as trial:
        await eventually(lambda: trial.status.state == "running")
        confirmed = await later._components().unit_of_work.read(lambda kept: kept.effects("confirmed"))
    assert len(confirmed) == 1


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
