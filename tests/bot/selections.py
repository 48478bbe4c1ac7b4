"""Bots that record selected bids, and faults of the listing."""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random
from typing import Any

import anyio
import attrs
from tests.bot.rig import (
    AMOUNT,
    BIDS,
    new_bot,
)

from freight_exchange import Bot
from freight_exchange.models import Bid
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Fault
from freight_sandbox.wire import Reply

LOOK = timedelta(minutes=2)
CONTACTS = ("loadingPOC", "loadingCompany")


def winning_bot(store: MemoryStore | None, won: list[Bid], **options: Any) -> Bot:
    """Make a bot that offers on each request and records selections."""
    bot = new_bot(store, selection_interval=LOOK, **options)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=840)

    @bot.on_selected
    async def selected(bid: Any, ctx: Any) -> None:
        won.append(bid)

    return bot


def indexes(won: list[Bid]) -> list[int]:
    return [bid.index for bid in won]


async def a_few_looks() -> None:
    await anyio.sleep(5 * LOOK.total_seconds())


def asks_for_selected(call: Any) -> bool:
    return "sel" in (call.query.get("type"), json.loads(call.body or b"{}").get("type"))


def without_contacts(times: int | None) -> Fault:
    """Fault: the next `times` listings lack the shipper's contact."""
    left = [times]

    def change(good: Reply, now: float, random: Random) -> Reply:
        text = json.loads(good.body)
        if not text["bids"] or left[0] == 0:
            return good
        left[0] = None if left[0] is None else left[0] - 1
        for bid in text["bids"].values():
            for name in CONTACTS:
                bid.pop(name, None)
        return attrs.evolve(good, body=json.dumps(text).encode())

    return Fault(name="no contact", method="GET", path=BIDS, when=asks_for_selected, times=None, mutate=change)
