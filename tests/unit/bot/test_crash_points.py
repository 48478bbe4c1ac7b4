"""A bot that dies at any of its named points has offered once when it is done, and told of a selection once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import anyio
import pytest

from freight_exchange import Bot
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import FAILPOINTS, FAULTS, Sandbox

pytestmark = pytest.mark.virtual_time

AMOUNT = "1840.50"
DOUBTFUL = {"before unknown", "after unknown", "before resolved", "after resolved"}
REFUSED = {"before rejected", "after rejected"}
NO_CURRENCY = 99
UNSENT = {"before withdrawn", "after withdrawn"}
SELECTED = {"before selected", "after selected", "before told", "after told"}


@pytest.fixture
def store() -> Iterator[Store]:
    kept = MemoryStore()
    yield kept
    kept.close()


def bot_on(store: Store, selected: list[int], currency: int) -> Bot:
    bot = Bot(store=store, start="backfill", settle=timedelta(seconds=5), interval=timedelta(seconds=30))

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=currency)

    @bot.on_selected
    async def won(bid: Any, ctx: Any) -> None:
        assert bid.contact is not None
        selected.append(bid.index)

    return bot


@pytest.mark.parametrize("point", FAILPOINTS)
async def test_dying_there_changes_nothing_that_the_shipper_sees(point: str, store: Store) -> None:
    sandbox, selected = Sandbox(), list[int]()
    index = sandbox.publish()
    if point in DOUBTFUL:
        sandbox.strike(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    if point in UNSENT:
        sandbox.strike(*FAULTS["not_found_page"](path="quote/submitoffer"))
    currency = NO_CURRENCY if point in REFUSED else 840

    async with sandbox.running(bot_on(store, selected, currency), crash_at=point) as trial:
        if point in SELECTED:
            await trial.idle()
            await approve(sandbox, index)
        await trial.crashed()
    async with sandbox.running(bot_on(store, selected, currency)) as trial:
        if point in REFUSED:
            await anyio.sleep(120)
        else:
            await trial.idle()
        if point not in REFUSED | SELECTED:
            await approve(sandbox, index)
        await anyio.sleep(600)
        status = trial.status

    assert trial.has_crashed is False
    assert status.parked == status.in_doubt == 0
    offers = [str(record.offer.amount) for record in sandbox.audit_log.offers_on(index)]
    assert offers == ([] if point in REFUSED else [AMOUNT])
    assert selected == ([] if point in REFUSED else [index])


async def approve(sandbox: Sandbox, index: int) -> None:
    async with sandbox.client(sandbox.shipper) as shipper:
        listing = await shipper.offers.get(index)
        await shipper.offers.approve(listing.offers[0])
