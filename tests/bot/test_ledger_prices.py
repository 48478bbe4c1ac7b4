"""Tests of a whole bot's prices: its events order them, its echo comes to rest, and its bids are known."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.bot.rig import amounts_on, eventually, sent, strike

from freight_exchange import Bot, OfferRejectedError
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Profile, Sandbox, Trial, inline_store

pytestmark = pytest.mark.virtual_time

INTERVAL = timedelta(seconds=30)
SETTLE = timedelta(seconds=5)
NO_CURRENCY = 99
"""Index of a currency that the exchange refuses."""


def requoting(store: Any, quantities: list[int] | None = None) -> Bot:
    """Make a bot that quotes each request and each of its updates, by quantity."""
    bot = Bot(store=store, start="backfill", interval=INTERVAL, settle=SETTLE)

    async def quote(request: Any, ctx: Any) -> None:
        if quantities is not None:
            quantities.append(request.quantity)
        await ctx.offer(amount=100 * request.quantity, currency="USD")

    bot.on_new(id="quote")(quote)
    bot.on_updated(id="requote")(quote)
    return bot


async def test_each_update_gets_its_price_without_a_counter() -> None:
    sandbox, bot = Sandbox(), requoting(MemoryStore())
    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        for quantity in (20, 30, 20, 40):
            sandbox.update(index, quantity=quantity)
            await trial.idle()
        assert (trial.status.dead, trial.status.retried) == (0, 0)
    assert amounts_on(sandbox, index) == ["1000", "2000", "3000", "2000", "4000"]


async def test_every_update_is_delivered_and_an_echo_comes_to_rest() -> None:
    """The service writes into the notes when an offer comes, and so does the shipper."""
    sandbox, quantities = Sandbox(Profile(published_notes="as_sent")), list[int]()
    bot = requoting(MemoryStore(), quantities)
    index = sandbox.publish()

    async def echo() -> None:
        seen = 0
        while True:
            if (count := len(amounts_on(sandbox, index))) > seen:
                seen = count
                sandbox.update(index, notes=f"{count} offers")
            await anyio.sleep(1)

    async with sandbox.running(bot) as trial, anyio.create_task_group() as tasks:
        tasks.start_soon(echo)
        await anyio.sleep(600)
        sandbox.update(index, quantity=20)
        await anyio.sleep(600)
        tasks.cancel_scope.cancel()
        await trial.idle()
    assert amounts_on(sandbox, index) == ["1000", "2000"]
    # The offer, its echo, the change, and its echo.
    assert quantities == [10, 10, 20, 20]


async def test_refused_offer_is_not_repeated_and_other_values_are_sent() -> None:
    sandbox, calls = Sandbox(), list[int]()
    bot = Bot(store=MemoryStore(), start="backfill", interval=INTERVAL, settle=SETTLE)

    @bot.on_new(id="quote")
    @bot.on_updated(id="requote")
    async def quote(request: Any, ctx: Any) -> None:
        try:
            await ctx.offer(amount=100 * request.quantity, currency=NO_CURRENCY)
        except OfferRejectedError:
            await ctx.offer(amount=100 * request.quantity, currency="USD")
        calls.append(request.quantity)
        if calls.count(request.quantity) == 1:
            raise RuntimeError("called again")

    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        sandbox.update(index, quantity=20)
        await trial.idle()
        assert trial.status.dead == 0
    assert calls == [10, 10, 20, 20]
    assert amounts_on(sandbox, index) == ["1000", "2000"]
    assert sent(sandbox) == 4


async def test_update_while_an_offer_is_in_doubt_is_delivered() -> None:
    sandbox, quantities = Sandbox(Profile(published_notes="as_sent")), list[int]()
    bot = requoting(MemoryStore(), quantities)
    index = sandbox.publish()
    strike(sandbox, "reset_after_processing")
    async with sandbox.running(bot) as trial:
        await eventually(lambda: sent(sandbox))
        sandbox.update(index, notes="handle with care")
        await trial.idle()
        await anyio.sleep(2 * INTERVAL.total_seconds())
        await trial.idle()
    assert len(quantities) >= 3
    assert amounts_on(sandbox, index) == ["1000"]


MOMENTS = pytest.mark.parametrize("moment", ["before the first", "between", "after the second"])


class Market:
    """A request with two prices of a bot, whose file is copied before, between and after them."""

    def __init__(self, folder: Path) -> None:
        self.sandbox = Sandbox()
        self.path = folder / "bot.db"
        self.bot = requoting(inline_store(self.path))

    async def quote_twice(self, trial: Trial) -> None:
        await trial.idle()
        self._copy("before the first")
        self.index = self.sandbox.publish()
        await trial.idle()
        self._copy("between")
        await anyio.sleep(60)
        self.sandbox.update(self.index, quantity=11)
        await trial.idle()
        self._copy("after the second")

    def copy_of(self, moment: str) -> Path:
        return self.path.with_name(moment)

    def _copy(self, moment: str) -> None:
        with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(self.copy_of(moment))) as copy:
            source.backup(copy)


@MOMENTS
async def test_store_put_back_makes_no_second_offer(tmp_path: Path, moment: str) -> None:
    """A copy of the file from an earlier moment is in its place at the next start."""
    market = Market(tmp_path)
    async with market.sandbox.running(market.bot) as trial:
        await market.quote_twice(trial)
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"bot.db{suffix}").unlink(missing_ok=True)
    market.copy_of(moment).replace(market.path)
    async with market.sandbox.running(requoting(inline_store(market.path))) as trial:
        await anyio.sleep(120)
        await trial.idle()
        assert trial.status.dead == 0
    assert amounts_on(market.sandbox, market.index) == ["1000", "1100"]


@MOMENTS
async def test_store_put_back_under_a_running_bot_makes_no_second_offer_and_no_hang(
    tmp_path: Path, moment: str
) -> None:
    """The copy replaces the content of the open file, as `.restore` of SQLite's shell does."""
    market = Market(tmp_path)
    async with market.sandbox.running(market.bot) as trial:
        await market.quote_twice(trial)
        with closing(sqlite3.connect(market.copy_of(moment))) as copy, closing(sqlite3.connect(market.path)) as target:
            copy.backup(target)
        later = market.sandbox.publish()
        await eventually(lambda: amounts_on(market.sandbox, later), within=timedelta(minutes=5))
        await trial.idle()
        assert trial.status.dead == 0
    assert amounts_on(market.sandbox, market.index) == ["1000", "1100"]
    assert amounts_on(market.sandbox, later) == ["1000"]
