"""Test of handlers of offers that select by the code of a currency."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import anyio
import pytest

from freight_exchange import Bot, Context, Offer
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]


async def test_handler_gets_the_offers_in_its_currency_only() -> None:
    sandbox, amounts = Sandbox(), list[Decimal | None]()
    bot = Bot(store=MemoryStore(), interval=timedelta(seconds=30))

    @bot.on_offer(currency="eur")
    async def note(offer: Offer, ctx: Context) -> None:
        amounts.append(offer.amount)

    async with sandbox.running(bot, account=sandbox.shipper), sandbox.client(sandbox.forwarder) as forwarder:
        request = sandbox.publish()
        await forwarder.bids.submit(request, amount=900, currency="USD")
        await forwarder.bids.submit(request, amount=800, currency="EUR")
        await anyio.sleep(300)
    assert amounts == [800]
