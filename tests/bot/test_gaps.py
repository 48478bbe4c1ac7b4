"""Delivery of gaps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.bot.recorders import LOGGER, hearing
from tests.bot.rig import DAY, new_bot, run_until_idle

from freight_exchange import Bot, Gap
from freight_exchange.store import Store
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time


async def slept_through(sandbox: Sandbox, new_bot: Callable[[], Bot]) -> None:
    await run_until_idle(sandbox, new_bot())
    await anyio.sleep(6 * DAY)


async def test_gap_without_handler_is_logged_and_kept(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, received = Sandbox(), list[int]()

    def make_bot() -> Bot:
        return hearing(new_bot(store), received)

    await slept_through(sandbox, make_bot)
    with caplog.at_level(logging.ERROR, LOGGER):
        async with sandbox.running(make_bot()) as trial:
            index = sandbox.publish()
            await trial.idle()
    assert received == [index]
    assert len([record for record in caplog.records if "gap" in record.getMessage()]) == 1

    bot = make_bot()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        feed = trial.status.feed
        assert feed is not None
        (gap,) = feed.gaps
        assert timedelta(hours=23) < gap.until - gap.since < timedelta(hours=25)
        assert await bot.acknowledge_gaps() == 1
        assert await bot.acknowledge_gaps() == 0
        late = sandbox.publish()
        await trial.idle()
    assert received == [index, late]
    async with sandbox.running(make_bot()) as trial:
        await trial.idle()
        feed = trial.status.feed
        assert feed is not None
        assert feed.gaps == ()


async def test_gap_is_delivered_once(store: Store) -> None:
    sandbox, gaps = Sandbox(), list[Any]()

    def make_bot() -> Bot:
        bot = new_bot(store)

        @bot.on_gap
        async def missed(gap: Any, ctx: Any) -> None:
            assert gap == ctx.event
            gaps.append(gap)
            if len(gaps) == 1:
                raise OSError("no connection")

        return bot

    await slept_through(sandbox, make_bot)
    for _ in range(2):
        async with sandbox.running(make_bot()) as trial:
            await trial.idle()
            feed = trial.status.feed
            assert feed is not None
            assert feed.gaps == ()
    assert len(gaps) == 2
    assert gaps[0] == gaps[1]
    assert isinstance(gaps[0], Gap)


async def test_offer_on_gap_raises(store: Store) -> None:
    sandbox, errors = Sandbox(), list[str]()

    def make_bot() -> Bot:
        bot = new_bot(store)

        @bot.on_gap(retries=0)
        async def missed(gap: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=1, currency=840)
            except Exception as error:
                errors.append(type(error).__name__)
                raise

        return bot

    await slept_through(sandbox, make_bot)
    bot = make_bot()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert [(dead.kind, dead.request) for dead in await bot.dead_letters()] == [("gap", None)]
    assert errors == ["ConfigurationError"]
    assert sandbox.audit_log.offers == []
