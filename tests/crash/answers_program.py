"""Program of the bot that `answers.py` kills.

It declines the dearest offer of each request with three offers, and approves the cheapest.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

from tests.crash.processes import run_bot, serve_forks

from freight_exchange import Bot, FreightExchange, OfferStatus, Timeouts

OFFERS: Final = 3
"""Offers that the market makes on each request."""


def _bot(orders: dict[str, Any], reach: Callable[[str], None]) -> Bot:
    exchange = FreightExchange(
        orders["url"],
        email="shipper@demo.example",
        password="shipper",
        timeouts=Timeouts(connect=2, read=0.5, write=2),
        deadline=5,
        # No TLS is spoken here, and the world's certificates take long to load.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    bot = Bot(
        exchange,
        store=orders["store"],
        interval=timedelta(seconds=1),
        settle=timedelta(seconds=0.3),
        drain=timedelta(seconds=10),
        concurrency=4,
    )

    async def approve(ctx: Any, offer: Any) -> None:
        if orders["ledger"]:
            await ctx.approve(offer)
            return
        # The same answer at the same moments, without a record.
        for point in ("before intent", "after intent", "before sending", "after sending", "before send"):
            reach(point)
        await ctx.exchange.offers.approve(offer)
        for point in ("after send", "before confirmed", "after confirmed"):
            reach(point)

    async def award(offer: Any, ctx: Any) -> None:
        listing = ctx.event.listing
        if len(listing.offers) < OFFERS or listing.selected is not None:
            return
        pending = [entry for entry in listing.offers if entry.status == OfferStatus.PENDING]
        pending.sort(key=lambda entry: entry.amount)
        if len(pending) == OFFERS:
            dearest = pending.pop()
            await (ctx.decline(dearest) if orders["ledger"] else ctx.exchange.offers.decline(dearest))
        await approve(ctx, pending[0])

    # Two handlers decide about each offer, as two colleagues may who do not know of each other.
    for name in ("award", "award again"):
        bot.on_offer(id=name)(award)
        bot.on_offer_changed(id=name)(award)
        # After a decline, another offer may be the one to approve.
        bot.on_offer_answered(id=name)(award)
    return bot


if __name__ == "__main__":
    serve_forks(partial(run_bot, _bot))
