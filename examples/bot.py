"""Bot of a forwarder: it prices requests by a tariff table, offers once on each, and logs the offers that are selected.

Run it with `python examples/bot.py bot.db`; Ctrl-C stops it. It begins with the requests that are listed already, then
waits for new ones. The exchange and the account come from the environment: FREIGHT_EXCHANGE_URL,
FREIGHT_EXCHANGE_EMAIL, FREIGHT_EXCHANGE_PASSWORD. Its tests are in `test_bot.py`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal

from freight_exchange import Bid, Bot, Context, Drop, Gap, RateRequest, RequestType, RetryLater, Router, cargo

SEA = {
    # From, to: US dollars per revenue ton, which is a tonne or a cubic metre: the greater counts.
    ("Hong Kong", "Long Beach"): Decimal("62.40"),
    ("Hong Kong", "Rotterdam"): Decimal("71.10"),
    ("Shenzhen", "Hamburg"): Decimal("74.80"),
}
AIR = {
    # From, to: US dollars per kilogram of chargeable weight.
    ("Shenzhen", "Frankfurt"): Decimal("4.35"),
    ("Hong Kong", "Chicago"): Decimal("5.10"),
}
DOCUMENTS = Decimal("45.00")
# The weight of a request is that of one packaging unit, or the total. The service document says per unit; its samples
# fit both. Ask your exchange, and set it here.
WEIGHT_PER: cargo.Per = "unit"
TERMS = "valid 14 days"


class Tariff:
    """Tariff of two tables. Its methods are async, because yours may read a database."""

    async def by_sea(self, request: RateRequest) -> Mapping[str, Decimal] | None:
        """Return the fees, or `None` for a lane without a tariff."""
        rate = SEA.get(lane(request))
        if rate is None:
            return None
        charged = cargo.revenue_tons(request, per=WEIGHT_PER, minimum=1)
        refuse_doubtful(charged.gross)
        return {"Ocean Freight": cents(rate * charged.tons), "Documents": DOCUMENTS}

    async def by_air(self, request: RateRequest) -> Mapping[str, Decimal] | None:
        """Return the fees, or `None` for a lane without a tariff."""
        rate = AIR.get(lane(request))
        if rate is None:
            return None
        charged = cargo.air_chargeable_weight(request, per=WEIGHT_PER)
        refuse_doubtful(charged.gross)
        return {"Air Freight": cents(rate * charged.kilograms), "Documents": DOCUMENTS}


router = Router()


@router.on_new(type=RequestType.SHIPPING, hazardous=False, max_volume=60, id="sea")
async def quote_sea(request: RateRequest, ctx: Context, tariff: Tariff) -> None:
    await offer(ctx, await tariff.by_sea(request))


@router.on_new(type=RequestType.AIR_FREIGHT, id="air", retries=3, timeout=timedelta(minutes=1))
async def quote_air(request: RateRequest, ctx: Context, tariff: Tariff) -> None:
    try:
        fees = await tariff.by_air(request)
    except TimeoutError:
        raise RetryLater(timedelta(minutes=5), "the tariff does not answer") from None
    await offer(ctx, fees)


@router.on_selected(id="won")
async def won(bid: Bid, ctx: Context) -> None:
    who = "the shipper" if bid.contact is None else f"{bid.contact.name} <{bid.contact.email}>"
    ctx.log.info("our offer of %s on the %s was selected: call %s", bid.amount, bid.commodity, who)


@router.on_gap(id="gap")
async def unwatched(gap: Gap, ctx: Context) -> None:
    ctx.log.error("no scan between %s and %s: check the requests of that time by hand", gap.since, gap.until)


async def offer(ctx: Context, fees: Mapping[str, Decimal] | None) -> None:
    if fees is None:
        raise Drop("there is no tariff for this lane")
    # Safe to repeat, after a crash too: a second call returns the first bid.
    await ctx.offer(amount=sum(fees.values()), currency="USD", rates=fees, terms=TERMS)


def refuse_doubtful(gross: cargo.GrossWeight) -> None:
    """Drop a request with an implausible density: its weight is probably read wrongly."""
    if gross.warning is not None:
        raise Drop(f"the weight is implausible: {gross.warning.message}")


def lane(request: RateRequest) -> tuple[str, str]:
    return request.origin or "", request.destination or ""


def cents(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.01"), ROUND_HALF_UP)


async def shared() -> AsyncIterator[Tariff]:
    """Open what the handlers share, such as a database pool."""
    yield Tariff()


def main(store: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    bot = Bot(store=store, start="backfill", lifespan=shared, port=9100)
    bot.include(router)
    bot.run()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name the file of the bot: python examples/bot.py bot.db")
    main(sys.argv[1])
