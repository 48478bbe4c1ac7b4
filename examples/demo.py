"""A working day at the exchange: a shipper and a forwarder, over real HTTP, against the sandbox.

And its night: a watcher, a process of its own (`watcher.py`), is killed and started again, and misses nothing.

Run it with `make demo`, or `python examples/demo.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import attrs

from freight_exchange import (
    FreightExchange,
    Listing,
    Packaging,
    RateRequest,
    RateRequestDraft,
    RequestEvent,
    RequestType,
    RouteDraft,
)
from freight_exchange.sandbox import Exchange
from freight_exchange.sandbox.asgi import serve

ARRIVAL = datetime(2027, 3, 1)
DRAFTS = [
    RateRequestDraft(
        commodity="Ceramic tiles",
        type=RequestType.SHIPPING,
        origin="Hong Kong",
        destination="Long Beach",
        arrival=ARRIVAL,
        packaging=Packaging.PALLET,
        quantity=20,
        length=Decimal("1.2"),
        width=Decimal(1),
        height=Decimal("0.9"),
        weight=Decimal(640),
        incoterm="FOB",
        hazardous=False,
    ),
    RateRequestDraft(
        commodity="Lithium batteries",
        type=RequestType.AIR_FREIGHT,
        origin="Shenzhen",
        destination="Frankfurt",
        arrival=ARRIVAL,
        packaging=Packaging.CARTON,
        quantity=150,
        length=Decimal("0.4"),
        width=Decimal("0.3"),
        height=Decimal("0.25"),
        weight=Decimal("12.5"),
        incoterm="DAP",
        hazardous=True,
        notes="UN 3480, section II",
    ),
]
AT_NIGHT = [
    attrs.evolve(DRAFTS[0], commodity=commodity, destination=destination, quantity=quantity)
    for commodity, destination, quantity in (
        ("Bicycles", "Rotterdam", 40),
        ("Green tea", "Hamburg", 12),
        ("Office chairs", "Oakland", 25),
        ("Garden lamps", "Felixstowe", 60),
        ("Loudspeakers", "Antwerp", 18),
        ("Water pumps", "Los Angeles", 8),
        ("Umbrellas", "Bristol", 90),
        ("Violins", "Genoa", 4),
    )
]
TARIFF = {RequestType.SHIPPING: Decimal("62.40"), RequestType.AIR_FREIGHT: Decimal("410.75")}


async def main() -> None:
    async with AsyncExitStack() as stack:
        sandbox = Exchange()
        url = await stack.enter_async_context(serve(sandbox))
        say("sandbox", f"a freight exchange listens at {url}")
        shipper = await stack.enter_async_context(
            FreightExchange(url, email="shipper@demo.example", password="shipper")
        )
        forwarder = await stack.enter_async_context(
            FreightExchange(url, email="forwarder@demo.example", password="forwarder")
        )
        rival = await stack.enter_async_context(FreightExchange(url, email="rival@demo.example", password="rival"))
        for who, exchange in (("shipper", shipper), ("forwarder", forwarder), ("rival", rival)):
            user = await exchange.login()
            say(who, f"logged in as {user.first_name} {user.last_name}")
        feed = await stack.enter_async_context(forwarder.watch(interval=timedelta(seconds=0.2)))
        say("forwarder", "watches for new requests")

        requests = []
        for draft in DRAFTS:
            published = await shipper.requests.publish(draft)
            say("shipper", f"publishes {published.ref_id}: {described(published)}")
            event = await anext(feed)
            assert isinstance(event, RequestEvent)
            say("forwarder", f"sees a {event.kind} request: {event.request.ref_id}, {event.request.volume} m3")
            requests.append(event.request)

        for request in requests:
            await offer(forwarder, request, "forwarder", TARIFF[RequestType(str(request.type))])
        await offer(rival, requests[0], "rival", Decimal("59.95"))

        tiles, batteries = [await shipper.offers.get(request.index) for request in requests]
        report(tiles)
        report(batteries)
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
        await night(sandbox, shipper, url)
    say("sandbox", "closed")


async def night(sandbox: Exchange, shipper: FreightExchange, url: str) -> None:
    """A watcher is killed while the shipper goes on publishing; what it told is held against what really happened."""
    evening = len(sandbox.truth.publications)
    with TemporaryDirectory() as folder:
        async with Watcher(Path(folder) / "bot.db", url) as watcher:
            await watcher.start()
            await publish(shipper, AT_NIGHT[:3])
            await watcher.tells(3)
            # It acknowledges what it told when it looks again: killed before that, it would tell the last one twice.
            await until(looked_again(sandbox))
            await watcher.kill()
            say("watcher", "is killed, without a chance to tidy up")
            await publish(shipper, AT_NIGHT[3:6])
            await watcher.start()
            await publish(shipper, AT_NIGHT[6:])
            await watcher.tells(len(AT_NIGHT))
            await until(looked_again(sandbox))
    published = {f"FX{publication.request:06d}" for publication in sandbox.truth.publications[evening:]}
    seen = Counter(watcher.told)
    say("published", f"{len(published):>3}")
    say("seen", f"{len(published & seen.keys()):>3}")
    say("missed", f"{len(published - seen.keys()):>3}")
    say("repeated", f"{seen.total() - len(seen):>3}")


class Watcher:
    """The process that watches, what it has told, and its end.

    Attributes:
        told: The references of the requests that it has told of.
    """

    def __init__(self, store: Path, url: str) -> None:
        self.told: list[str] = []
        self._command = [sys.executable, str(Path(__file__).with_name("watcher.py")), str(store), "0.3"]
        self._environment = {
            **os.environ,
            "FREIGHT_EXCHANGE_URL": url,
            "FREIGHT_EXCHANGE_EMAIL": "forwarder@demo.example",
            "FREIGHT_EXCHANGE_PASSWORD": "forwarder",
        }
        self._process: Process | None = None
        self._listening: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
            await self._listening

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(*self._command, stdout=PIPE, env=self._environment)
        assert self._process.stdout is not None
        ready = await self._process.stdout.readline()
        say("watcher", f"process {self._process.pid} is {ready.decode().strip()}, its memory is a file")
        self._listening = asyncio.create_task(self._listen(self._process.stdout))

    async def tells(self, count: int) -> None:
        await until(lambda: len(self.told) >= count)

    async def _listen(self, output: asyncio.StreamReader) -> None:
        while line := (await output.readline()).decode().strip():
            say("watcher", line)
            self.told.append(line.split(":")[0].removeprefix("new "))


def looked_again(sandbox: Exchange) -> Callable[[], bool]:
    """Whether the exchange was asked for requests since now."""
    looks = len(sandbox.truth.calls_to("POST", "quote/getrequests"))
    return lambda: len(sandbox.truth.calls_to("POST", "quote/getrequests")) > looks


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110  # what is waited for happens in other processes
            await asyncio.sleep(0.02)


async def publish(shipper: FreightExchange, drafts: Sequence[RateRequestDraft]) -> None:
    for draft in drafts:
        published = await shipper.requests.publish(draft)
        say("shipper", f"publishes {published.ref_id}: {described(published)}")
        await asyncio.sleep(0.2)


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


def say(who: str, what: str) -> None:
    print(f"{who:>11} | {what}")


if __name__ == "__main__":
    asyncio.run(main())
