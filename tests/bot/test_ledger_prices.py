"""Tests of a whole bot's prices: its events order them, its echo comes to rest, and its bids are known."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import anyio
import attrs
import pytest
from tests.bot.processes import AMOUNT, BIDS, amounts_on, eventually, sent, strike

from freight_exchange import Bot
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Fault, Profile, Sandbox, inline_store
from freight_sandbox.wire import Call, Reply

pytestmark = pytest.mark.virtual_time

INTERVAL = timedelta(seconds=30)
SETTLE = timedelta(seconds=5)


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


async def test_bid_by_hand_beside_the_own_ends_the_delivery() -> None:
    sandbox, bot = Sandbox(), requoting(MemoryStore())
    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        await anyio.sleep(60)
        sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=999)
        sandbox.update(index, quantity=20)
        await trial.idle()
        assert (trial.status.dead, trial.status.retried) == (0, 0)
    assert amounts_on(sandbox, index) == ["1000", "999"]


@pytest.mark.parametrize("moment", ["before the first", "between", "after the second"])
async def test_store_put_back_makes_no_second_offer(tmp_path: Path, moment: str) -> None:
    """A copy of the file from an earlier moment is in its place at the next start."""
    sandbox, path, copies = Sandbox(), tmp_path / "bot.db", dict[str, bytes]()

    def copy(name: str) -> None:
        with closing(sqlite3.connect(path)) as source:
            copies[name] = source.serialize()

    async with sandbox.running(requoting(inline_store(path))) as trial:
        await trial.idle()
        copy("before the first")
        index = sandbox.publish()
        await trial.idle()
        copy("between")
        await anyio.sleep(60)
        sandbox.update(index, quantity=11)
        await trial.idle()
        copy("after the second")
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"bot.db{suffix}").unlink(missing_ok=True)
    path.write_bytes(copies[moment])
    async with sandbox.running(requoting(inline_store(path))) as trial:
        await anyio.sleep(120)
        await trial.idle()
        assert trial.status.dead == 0
    assert amounts_on(sandbox, index) == ["1000", "1100"]


@pytest.mark.parametrize(("bids", "most"), [(0, 3), (10, 11)])
async def test_start_asks_for_few_pages_of_the_bids(bids: int, most: int) -> None:
    sandbox, store = Sandbox(), MemoryStore()
    for _ in range(bids):
        index = sandbox.publish()
        sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=1000)
    for _ in range(2):
        before = len(sandbox.audit_log.calls_to("GET", BIDS))
        async with sandbox.running(requoting(store)) as trial:
            await anyio.sleep(300)
            await trial.idle()
        if bids == 0 or before:
            assert len(sandbox.audit_log.calls_to("GET", BIDS)) - before <= most
    assert sent(sandbox) == 0


def without_filter(sandbox: Sandbox) -> Fault:
    """Fault: the listing of the bids ignores `type`, and its rows have all kinds of words for a pending bid."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        words = ["pending", "Open", None, ""]
        rows = []
        for number, record in enumerate(sandbox.audit_log.offers):
            offer = sandbox.exchange.offers[record.offer.index]
            is_won = offer.status == "selected"
            rows.append(
                {
                    "index": offer.request, "price": float(offer.amount), "currencyIndex": offer.currency,
                    "status": "Selected" if is_won else words[number % len(words)],
                }
            )  # fmt: skip
        return attrs.evolve(good, status=200, body=json.dumps({"bids": dict(enumerate(rows))}).encode())

    def is_first_page(call: Call) -> bool:
        return bool(json.loads(call.body or b"{}").get("offset", 0) == 0)

    return Fault(name="no filter", path=BIDS, method="GET", times=None, when=is_first_page, mutate=mutate)


async def test_bid_is_won_by_its_word_alone() -> None:
    sandbox, won = Sandbox(), list[int]()
    bot = Bot(store=MemoryStore(), start="backfill", interval=INTERVAL, settle=SETTLE)

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=840)

    @bot.on_selected(id="won")
    async def selected(bid: Any, ctx: Any) -> None:
        won.append(bid.index)

    indexes = [sandbox.publish() for _ in range(4)]
    async with sandbox.running(bot) as trial:
        await trial.idle()
        sandbox.strike(without_filter(sandbox))
        await anyio.sleep(600)
        assert won == []
        (chosen,) = sandbox.exchange.offers_on(indexes[2])
        sandbox.exchange.select(chosen.index, sandbox.now())
        await anyio.sleep(600)
    assert won == [indexes[2]]
    assert [Decimal(amounts_on(sandbox, index)[0]) for index in indexes] == [Decimal(AMOUNT)] * 4
