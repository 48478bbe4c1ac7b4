"""Bot of a shipper: it compares the offers on each of its requests in one currency, and approves one of them.

Run it with `python examples/tender.py tender.db`; Ctrl-C stops it. The exchange and the account come from the
environment: FREIGHT_EXCHANGE_URL, FREIGHT_EXCHANGE_EMAIL, FREIGHT_EXCHANGE_PASSWORD.
"""

from __future__ import annotations

import logging
import sys
from datetime import timedelta
from decimal import Decimal

from freight_exchange import Bot, Context, Offer, OfferContext, Router, quotes

CURRENCY = "USD"
RATES = {"EUR": Decimal("1.08"), "HKD": Decimal("0.128")}
"""Dollars for one unit of each currency: ask your bank, the service has none."""

ENOUGH = 2
"""Offers that a request needs before one is approved."""

router = Router()


@router.on_offer(id="award")
@router.on_offer_changed(id="award")
async def award(offer: Offer, ctx: OfferContext) -> None:
    # The request as listed now: more offers may have come since the event.
    listing = await ctx.exchange.offers.get(ctx.event.request)
    if listing.selected is not None:
        return
    comparison = await quotes.compare(listing, to=CURRENCY, rates=RATES, currencies=ctx.exchange.currencies.list())
    if comparison.best is None or len(comparison.offers) < ENOUGH:
        ctx.log.info("request %d has %d offers so far", listing.index, len(comparison.offers))
        return
    # At most one approval, despite crashes; raises if the offer has changed since it was read.
    approved = await ctx.approve(comparison.best.offer)
    who = "the forwarder" if approved.contact is None else f"{approved.contact.name} <{approved.contact.email}>"
    ctx.log.info("request %d is awarded at %s %s: call %s", listing.index, comparison.best.total, CURRENCY, who)


@router.on_offer_gone(id="gone")
async def gone(offer: Offer, ctx: Context) -> None:
    ctx.log.warning("offer %s of %s is gone", offer.id, offer.amount)


def main(store: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    bot = Bot(store=store, interval=timedelta(seconds=30))
    bot.include(router)
    bot.run()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name the file of the bot: python examples/tender.py tender.db")
    main(sys.argv[1])
