"""Trade by hand: a shipper, a forwarder and a rival, over real HTTP, against the sandbox.

Run it with `python examples/trading.py`.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import attrs

from freight_exchange import FreightExchange, Listing, RateRequest, RequestType, RouteDraft
from freight_sandbox import Exchange
from freight_sandbox.server import serve

# A script's own folder is on the path; the root, which the next import needs, is not.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.stage import CARTONS, PALLETS, client, say

BATTERIES = attrs.evolve(
    CARTONS,
    commodity="Lithium batteries",
    origin="Shenzhen",
    destination="Frankfurt",
    quantity=150,
    incoterm="DAP",
    hazardous=True,
    notes="UN 3480, section II",
)
TARIFF = {RequestType.SHIPPING: Decimal("62.40"), RequestType.AIR_FREIGHT: Decimal("410.75")}


async def main() -> None:
    async with AsyncExitStack() as stack:
        sandbox = Exchange()
        url = (await stack.enter_async_context(serve(sandbox))).url
        say("exchange", f"listens at {url}")
        shipper, forwarder, rival = [
            await stack.enter_async_context(client(url, account))
            for account in (sandbox.shipper, sandbox.forwarder, sandbox.rival)
        ]
        for who, exchange in (("shipper", shipper), ("forwarder", forwarder), ("rival", rival)):
            user = await exchange.login()
            say(who, f"logged in as {user.first_name} {user.last_name}")

        for draft in (PALLETS, BATTERIES):
            published = await shipper.requests.publish(draft)
            say("shipper", f"publishes {published.ref_id}: {described(published)}")
        requests = sorted(await forwarder.requests.search().collect(), key=lambda request: request.index)
        for request in requests:
            say("forwarder", f"finds {request.ref_id}, {request.volume} m3")
            await offer(forwarder, request, "forwarder", TARIFF[RequestType(str(request.type))])
        await offer(rival, requests[0], "rival", Decimal("59.95"))

        tiles, batteries = [await shipper.offers.get(request.index) for request in requests]
        report(tiles)
        report(batteries)
        assert len({offer.currency for offer in tiles.offers}) == 1, "amounts compare in one currency only"
        dear, cheap = sorted(tiles.offers, key=lambda offer: offer.amount or 0, reverse=True)
        await shipper.offers.decline(dear)
        say("shipper", f"declines offer {dear.id}, {dear.amount}")
        await approve(shipper, cheap.id, "rival")
        await approve(shipper, batteries.offers[0].id, "forwarder")

        for bid in await forwarder.bids.list(type="sel").collect():
            contact = bid.contact
            assert contact is not None
            say(
                "forwarder", f"offer of {bid.amount} on {bid.commodity} selected; call {contact.name} <{contact.email}>"
            )

        await routes(forwarder)


async def offer(exchange: FreightExchange, request: RateRequest, who: str, per_cubic_metre: Decimal) -> None:
    assert request.volume is not None
    freight = (request.volume * per_cubic_metre).quantize(Decimal("0.01"))
    rates = {"Freight": freight, "Documents": Decimal(45)}
    bid = await exchange.bids.submit(
        request, amount=sum(rates.values(), Decimal()), currency="USD", rates=rates, terms="valid 14 days"
    )
    fees = ", ".join(f"{name} {amount}" for name, amount in rates.items())
    say(who, f"offers USD {bid.amount} ({fees}) on {request.ref_id}")


def report(listing: Listing) -> None:
    say("shipper", f"reads {len(listing.offers)} offer(s) on {listing.commodity}:")
    for offer in listing.offers:
        difference = offer.difference
        check = "the fees add up" if not difference else f"the fees differ by {difference}"
        print(f"{'':>11}   offer {offer.id}: {offer.amount}, {offer.terms}, {check}")


async def approve(shipper: FreightExchange, offer: int | None, who: str) -> None:
    assert offer is not None
    approved = await shipper.offers.approve(offer)
    assert approved.contact is not None
    assert approved.company is not None
    say("shipper", f"approves offer {offer}: it was the {who}'s, {approved.contact.name} of {approved.company.name}")


async def routes(exchange: FreightExchange) -> None:
    carrier = (await exchange.carriers.list().collect())[0]
    created = await exchange.routes.create(
        RouteDraft(
            origin="Hong Kong",
            destination="Long Beach",
            cy_cutoff=datetime(2027, 2, 1, 17),
            cfs_cutoff=datetime(2027, 1, 31, 12),
            departure=datetime(2027, 2, 3, 6),
            arrival=datetime(2027, 2, 19, 8),
            carrier=carrier,
            vessel="Ever Sandbox",
            voyage_id="017E",
            timezone="Asia/Hong_Kong",
        )
    )
    assert created is not None
    say("forwarder", f"creates route {created.index} with {carrier.name}: {created.vessel}, leaves {created.departure}")
    await exchange.routes.update(attrs.evolve(created, vessel="Ever Patient"))
    changed = await exchange.routes.get(created.index)
    say("forwarder", f"changes it: {changed.vessel} {changed.voyage_id}, yard closes {changed.cy_cutoff}")


def described(request: RateRequest) -> str:
    return (
        f"{request.quantity} x {request.packaging} of {request.commodity},"
        f" {request.origin} -> {request.destination}, {request.incoterm}"
    )


if __name__ == "__main__":
    asyncio.run(main())
