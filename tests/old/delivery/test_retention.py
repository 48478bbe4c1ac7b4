"""Retention of finished deliveries, and of offers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import anyio
import pytest
from tests.old.rig import DAY, amounts_on, offering_bot

from freight_exchange import Bot, Context, Offer
from freight_exchange.store import MemoryStore
from freight_exchange.store.work import Delivery, Effect
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time

WEEK = timedelta(days=7)
"""Seconds of the default, and a day."""


async def kept(bot: Bot) -> tuple[Sequence[Delivery], Sequence[Effect]]:
    """Return the finished deliveries and the offers of a bot's store."""
    read = bot._components().unit_of_work.read
    return await read(lambda work: work.deliveries(state="done")), await read(lambda work: work.effects("confirmed"))


async def test_finished_deliveries_are_kept_for_the_retention_and_offers_forever(
    sandbox: Sandbox, store: MemoryStore
) -> None:
    index = sandbox.publish()
    bot = offering_bot(store, interval=timedelta(hours=4), retention=WEEK)
    async with sandbox.running(bot):
        await anyio.sleep(6.8 * DAY)
        assert [len(rows) for rows in await kept(bot)] == [1, 1]
        await anyio.sleep(1.2 * DAY)
        assert [len(rows) for rows in await kept(bot)] == [0, 1]
    assert len(amounts_on(sandbox, index)) == 1


async def test_finished_deliveries_of_a_bot_of_offers_go_too(store: MemoryStore) -> None:
    sandbox, received = Sandbox(), list[object]()
    bot = Bot(store=store, interval=timedelta(hours=4), retention=WEEK)

    @bot.on_offer
    async def note(offer: Offer, ctx: Context) -> None:
        received.append(offer)

    request = sandbox.publish()
    sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=900)
    async with sandbox.running(bot, account=sandbox.shipper):
        await anyio.sleep(6.8 * DAY)
        assert (len(received), len((await kept(bot))[0])) == (1, 1)
        await anyio.sleep(1.2 * DAY)
        assert (len(received), len((await kept(bot))[0])) == (1, 0)


async def test_both_feeds_of_a_bot_have_its_retention(store: MemoryStore) -> None:
    bot = Bot(store=store, retention=timedelta(days=9))

    @bot.on_new
    async def quote(request: object, ctx: object) -> None: ...

    @bot.on_offer
    async def note(offer: Offer, ctx: Context) -> None: ...

    async with Sandbox().running(bot) as trial:
        await trial.idle()
        assert bot._supervisor is not None
        session = bot._supervisor.session
        assert session is not None
        assert session.offer_feed is not None
        retention = timedelta(days=9)
        assert (session.feed._options.retention, session.offer_feed._options.retention) == (retention, retention)
