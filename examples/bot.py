"""A forwarder's bot: it prices requests by a tariff table, offers once on each, and tells when it won.

Run it with `python examples/bot.py bot.db`; stop it with Ctrl-C. Which exchange, and whose bot it is, comes from the
environment: FREIGHT_EXCHANGE_URL, FREIGHT_EXCHANGE_EMAIL, FREIGHT_EXCHANGE_PASSWORD. Its tests are in `test_bot.py`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal

from freight_exchange import Bid, Bot, Context, Drop, Gap, RateRequest, RequestType, RetryLater, Router, cargo

SEA = {
    # From, to: US dollars per revenue ton, which is a tonne or a cubic metre, whichever is more.
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
# Is a request's weight that of one packaging unit, or the total? The service document says per unit; its samples make
# sense either way. Ask your exchange, and set it here.
WEIGHT_PER: cargo.Per = "unit"
TERMS = "valid 14 days"


class Tariff:
    """What freight costs. Here it is two tables; yours may be a database, which is why it is asked asynchronously."""

    async def by_sea(self, request: RateRequest) -> Mapping[str, Decimal] | None:
        """The fees, or `None` where we do not go."""
        rate = SEA.get(lane(request))
        if rate is None:
            return None
        charged = cargo.revenue_tons(request, per=WEIGHT_PER, minimum=1)
        refuse_doubtful(charged.gross)
        return {"Ocean Freight": cents(rate * charged.tons), "Documents": DOCUMENTS}

    async def by_air(self, request: RateRequest) -> Mapping[str, Decimal] | None:
        """The fees, or `None` where we do not go."""
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
    ctx.log.error("nobody watched from %s to %s: look through the requests of that time by hand", gap.since, gap.until)


async def offer(ctx: Context, fees: Mapping[str, Decimal] | None) -> None:
    if fees is None:
        raise Drop("there is no tariff for this lane")
    # Safe to call again, after a crash too: the first offer on a request stands, and is given back.
    await ctx.offer(amount=sum(fees.values()), currency="USD", rates=fees, terms=TERMS)


def refuse_doubtful(gross: cargo.GrossWeight) -> None:
    """Leave a request to a person where no freight has such a density: its weight is probably read wrongly."""
    if gross.warning is not None:
        raise Drop(f"the weight is implausible: {gross.warning.message}")


def lane(request: RateRequest) -> tuple[str, str]:
    return request.origin or "", request.destination or ""


def cents(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.01"), ROUND_HALF_UP)


async def shared() -> AsyncIterator[Tariff]:
    """What the handlers share, opened once: the place for a database pool."""
    yield Tariff()


def main(store: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    bot = Bot(store=store, lifespan=shared, port=9100)
    bot.include(router)
    bot.run()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("give the file that the bot keeps: python examples/bot.py bot.db")
    main(sys.argv[1])
