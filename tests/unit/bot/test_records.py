"""What the records of a bot's log are about stands beside their words, for whoever looks for a request or a handler."""

from __future__ import annotations

import logging

import anyio
import pytest
from tests.unit.bot.rig import bot_on, store

from freight_exchange import Bot
from freight_exchange.bot import Context
from freight_exchange.models import RateRequest
from freight_exchange.store import Store
from freight_exchange.testing import FAULTS, Sandbox

__all__ = ["store"]

pytestmark = pytest.mark.virtual_time


def offering(store: Store) -> Bot:
    bot = bot_on(store)

    @bot.on_new(id="quote")
    async def quote(request: RateRequest, ctx: Context) -> None:
        await ctx.offer(amount=7, currency=840)

    return bot


async def test_those_about_an_offer_name_its_request(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "freight_exchange.bot")
    sandbox = Sandbox()
    index = sandbox.publish()
    async with sandbox.running(offering(store), crash_at="after send") as trial:
        await trial.crashed()
    sandbox.strike(*FAULTS["unavailable_forever"](path="quote/bid", times=None))
    async with sandbox.running(offering(store)):
        await anyio.sleep(1800)
    about = [record for record in caplog.records if f"the offer on request {index} " in record.getMessage()]
    said = " ".join(record.getMessage() for record in about)
    assert "may have been sent before the last run ended" in said
    assert "cannot be looked for yet" in said
    assert [vars(record).get("request") for record in about] == [index] * len(about)


async def test_that_of_a_handler_that_ends_the_bot_names_all_of_its_delivery(caplog: pytest.LogCaptureFixture) -> None:
    bot, sandbox = bot_on(None), Sandbox()
    index = sandbox.publish()

    @bot.on_new(id="quote")
    async def quote(request: RateRequest, ctx: Context) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        async with sandbox.running(bot) as trial:
            await trial.idle()
    (record,) = (record for record in caplog.records if "ends the bot by SystemExit" in record.getMessage())
    carried = {name: vars(record).get(name) for name in ("event", "number", "handler", "request", "attempt")}
    assert carried == {"event": "new", "number": 1, "handler": "quote", "request": index, "attempt": 1}


@pytest.mark.parametrize("beside", [False, True])
async def test_an_error_that_leaves_the_block_is_not_said_to_be_heard_by_nobody(
    caplog: pytest.LogCaptureFixture, beside: bool
) -> None:
    sandbox = Sandbox()
    bot = Bot(sandbox.client(), store=None, start="backfill") if beside else bot_on(None)
    sandbox.publish()

    @bot.on_new(id="quote")
    async def quote(request: RateRequest, ctx: Context) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        async with bot if beside else sandbox.running(bot):
            await anyio.sleep(60)
    assert [record for record in caplog.records if record.name == "freight_exchange.transport"] == []
    assert any("ends the bot by SystemExit" in record.getMessage() for record in caplog.records)
