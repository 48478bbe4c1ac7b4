"""Bot of a forwarder: it prices requests by a tariff, offers once on each, and logs the offers that are selected.

Run it with `python examples/bot.py bot.db`; Ctrl-C stops it. It begins with the requests that are listed already, then
waits for new ones. The tariff is in `bot_tariff.csv`, beside this file. The exchange and the account come from the
environment: FREIGHT_EXCHANGE_URL, FREIGHT_EXCHANGE_EMAIL, FREIGHT_EXCHANGE_PASSWORD. Its tests are in `test_bot.py`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

from freight_exchange import Bid, Bot, Context, Drop, Gap, RateRequest, RequestType, RetryLater, Router, cargo
from freight_exchange.tariff import NoQuote, Quote, Tariff

TARIFF = Path(__file__).with_name("bot_tariff.csv")
# The weight of a request is that of one packaging unit, or the total. The service document states per unit; its samples
# fit both. Ask your exchange, and set it here.
WEIGHT_PER: cargo.Per = "unit"


class Prices:
    """Prices of the tariff. Its method is async, because yours may ask another service."""

    def __init__(self, tariff: Tariff) -> None:
        self._tariff = tariff

    async def quote(self, request: RateRequest) -> Quote | NoQuote:
        return self._tariff.quote(request)


router = Router()


@router.on_new(type=RequestType.SHIPPING, hazardous=False, max_volume=60, id="sea")
async def quote_sea(request: RateRequest, ctx: Context, prices: Prices) -> None:
    await offer(ctx, await prices.quote(request))


@router.on_new(type=RequestType.AIR_FREIGHT, id="air", retries=3, timeout=timedelta(minutes=1))
async def quote_air(request: RateRequest, ctx: Context, prices: Prices) -> None:
    try:
        price = await prices.quote(request)
    except TimeoutError:
        raise RetryLater(timedelta(minutes=5), "the tariff does not answer") from None
    await offer(ctx, price)


@router.on_selected(id="won")
async def won(bid: Bid, ctx: Context) -> None:
    who = "the shipper" if bid.contact is None else f"{bid.contact.name} <{bid.contact.email}>"
    ctx.log.info("our offer of %s on the %s was selected: call %s", bid.amount, bid.commodity, who)


@router.on_gap(id="gap")
async def unwatched(gap: Gap, ctx: Context) -> None:
    ctx.log.error("no scan between %s and %s: check the requests of that time by hand", gap.since, gap.until)


async def offer(ctx: Context, price: Quote | NoQuote) -> None:
    if isinstance(price, NoQuote):
        # Also for an implausible density: the weight is probably read wrongly.
        raise Drop(price.reason)
    # Safe to repeat, after a crash too: a second call returns the first bid.
    await ctx.offer(amount=price.amount, currency=price.currency, rates=price.rates, terms=price.terms)


async def shared() -> AsyncIterator[Prices]:
    """Open the resources that the handlers share, such as a database pool."""
    yield Prices(Tariff.read(TARIFF, weight_per=WEIGHT_PER))


def main(store: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # Replicas on one database (`postgresql://...`) may run on one machine, where each would need a port of its own.
    bot = Bot(store=store, start="backfill", lifespan=shared, port=None if "://" in store else 9100)
    bot.include(router)
    bot.run()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name the file of the bot: python examples/bot.py bot.db")
    main(sys.argv[1])
