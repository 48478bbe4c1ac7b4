"""Demonstration of a forwarder's bot that keeps its promises while it is killed, over real HTTP, against the sandbox.

Two shippers publish requests. The bot (`bot.py`) is a process of its own. Its tariff for air freight is flaky, replies
to it get lost, and it is killed (`kill -9`) while an offer is in flight. After a restart, a shipper approves an offer,
and the bot is notified. At the end everything is counted twice: from the log of the exchange, and from the bot's file.
The exit status is 1 if a promise was broken.

Run it with `make demo` or `python examples/demo.py`. `trading.py` trades by hand; `watching.py` watches without a bot.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import attrs

from freight_exchange import FreightExchange, RateRequestDraft
from freight_exchange.store import SQLiteStore
from freight_exchange.store.protocol import Binding
from freight_sandbox import FAULTS, Exchange
from freight_sandbox.server import serve

# A script's own folder is on the path; the root, which the next import needs, is not.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.stage import Program, air, client, say, sea

POISON = "Violins"
# Each request with its price by the tariff, calculated by hand.
EVENING = {
    air(POISON, "Hong Kong", "Chicago", 4): None,
    sea("Ceramic tiles", "Hong Kong", "Long Beach", 20): Decimal("1392.84"),
    air("Watches", "Hong Kong", "Chicago", 10): Decimal("682.50"),
    sea("Bicycles", "Hong Kong", "Rotterdam", 40): Decimal("3116.52"),
}
MIDNIGHT = {sea("Green tea", "Shenzhen", "Hamburg", 12): Decimal("1014.41")}
NIGHT = {
    sea("Office chairs", "Hong Kong", "Rotterdam", 25): Decimal("1964.70"),
    air("Batteries", "Shenzhen", "Frankfurt", 150): Decimal("8201.25"),
    sea("Water pumps", "Hong Kong", "Long Beach", 8): Decimal("584.14"),
}
MORNING = {
    air("Cameras", "Shenzhen", "Frankfurt", 24): Decimal("1350.00"),
    sea("Umbrellas", "Hong Kong", "Long Beach", 36): Decimal("2471.11"),
    air("Loudspeakers", "Hong Kong", "Chicago", 18): Decimal("1192.50"),
    sea("Garden lamps", "Shenzhen", "Hamburg", 30): Decimal("2468.52"),
}
SUBMIT = "quote/submitoffer"


async def main() -> int:
    async with AsyncExitStack() as stack:
        sandbox = Exchange()
        url = (await stack.enter_async_context(serve(sandbox))).url
        say("exchange", f"listens at {url}")
        second = sandbox.add_account("consignor@demo.example", "consignor", firstname="Paula", lastname="Port")
        shipper, consignor, rival = [
            await stack.enter_async_context(client(url, account))
            for account in (sandbox.shipper, second, sandbox.rival)
        ]
        store = Path(stack.enter_context(TemporaryDirectory())) / "bot.db"
        bot = Program("bot", ["-m", "examples.demo_bot", str(store)], url, sandbox.forwarder)
        await stack.enter_async_context(bot)
        prices = await work(sandbox, shipper, consignor, rival, bot)
        counts = Counts.of(
            sandbox, prices, Kept.of(store, url), reported=bot.count_lines("was selected"), status=bot.exit_status
        )
    return verdict(counts)


async def work(
    sandbox: Exchange, shipper: FreightExchange, consignor: FreightExchange, rival: FreightExchange, bot: Program
) -> Mapping[int, Decimal | None]:
    """Play the story, and return each published request with its expected price."""
    prices: dict[int, Decimal | None] = {}

    async def publish(drafts: Mapping[RateRequestDraft, Decimal | None]) -> None:
        for draft, who in zip(drafts, cycle((shipper, consignor)), strict=False):
            request = await who.requests.publish(draft)
            prices[request.index] = drafts[draft]
            cargo = f"{request.quantity} x {request.packaging} of {request.commodity}"
            say("shipper", f"publishes request {request.index}: {cargo}, {request.origin} -> {request.destination}")
            await asyncio.sleep(0.1)

    def all_offered() -> bool:
        offered = {record.offer.request for record in sandbox.audit_log.offers}
        return offered >= {request for request, price in prices.items() if price is not None}

    await bot.starts()
    note("the answer to one offer gets lost: the exchange has taken it, and the bot cannot know")
    sandbox.faults.add(*FAULTS["reset_after_processing"](path=SUBMIT, skip=1))
    await publish(EVENING)
    await bot.until(all_offered)

    note("the bot is killed (kill -9) while the answer to an offer is on its way")
    sandbox.faults.add(*FAULTS["stall"](path=SUBMIT))
    await publish(MIDNIGHT)
    await bot.until(all_offered)
    await bot.dies()
    await publish(NIGHT)

    note("it is started again; one more offer gets lost, this time before the exchange has taken it")
    sandbox.faults.add(*FAULTS["reset_after_send"](path=SUBMIT))
    await bot.starts()
    await publish(MORNING)
    await bot.until(all_offered)
    await bot.until(lambda: bot.count_lines("is dead") > 0)

    note("a shipper approves an offer; the bot is notified once, though it is stopped and started once more")
    await approve(consignor, rival, min(index for index, price in prices.items() if price is not None))
    await bot.until(lambda: bot.count_lines("was selected") > 0)
    await bot.drains()
    await bot.starts()
    looks = len(sandbox.audit_log.calls_to("GET", "quote/bid"))
    await bot.until(lambda: len(sandbox.audit_log.calls_to("GET", "quote/bid")) > looks + 10)
    await bot.drains()
    return prices


async def approve(shipper: FreightExchange, rival: FreightExchange, request: int) -> None:
    await rival.bids.submit(request, amount=1500, currency="USD", terms="valid 7 days")
    listing = await shipper.offers.get(request)
    for offer in listing.offers:
        say("shipper", f"reads an offer on the {listing.commodity}: {offer.amount}, {offer.terms}")
    assert len({offer.currency for offer in listing.offers}) == 1, "amounts compare in one currency only"
    cheapest = min(listing.offers, key=lambda offer: offer.amount or 0)
    approved = await shipper.offers.approve(cheapest)
    assert approved.contact is not None
    say("shipper", f"approves {cheapest.amount}, by {approved.contact.name}")


@attrs.frozen(kw_only=True)
class Kept:
    """Content of the bot's file.

    Attributes:
        delivered: Requests that reached a handler.
        retries: Attempts beyond the first ones.
        dead: Requests of dead letters.
        open: Number of deliveries that are neither done nor dead.
        offers: Number of offers in the ledger, by state.
    """

    delivered: frozenset[int | None]
    retries: int
    dead: frozenset[int | None]
    open: int
    offers: Mapping[str, int]

    @classmethod
    def of(cls, path: Path, url: str) -> Self:
        store = SQLiteStore(path)
        try:
            work = store.open(Binding(url, "forwarder@demo.example", "bot"), lease=60)
            done, dead = work.deliveries(state="done"), work.deliveries(state="dead")
            return cls(
                delivered=frozenset(delivery.index for delivery in [*done, *dead]),
                retries=sum(delivery.attempts - 1 for delivery in [*done, *dead]),
                dead=frozenset(delivery.index for delivery in dead),
                open=len(work.deliveries(state="ready")) + len(work.deliveries(state="claimed")),
                offers=Counter(effect.state for effect in work.effects() if effect.key.startswith("offer:")),
            )
        finally:
            store.close()


@attrs.frozen(kw_only=True)
class Counts:
    """Counts at the end; `broken()` names the promises that were not kept."""

    requests: int
    offers: int
    duplicates: int
    missed: int
    wrong_prices: int
    lost_answers: int
    in_doubt: int
    unfinished: int
    retries: int
    dead_letters: int
    selections_reported: int
    exit_status: int

    @classmethod
    def of(
        cls, sandbox: Exchange, prices: Mapping[int, Decimal | None], kept: Kept, *, reported: int, status: int
    ) -> Self:
        audit_log = sandbox.audit_log
        ours = [record.offer for record in audit_log.offers if record.account == sandbox.forwarder.email]
        offered = {offer.request for offer in ours}
        published = {publication.request for publication in audit_log.publications}
        to_be_offered_on = {request for request in published if prices[request] is not None}
        return cls(
            requests=len(published),
            offers=len(ours),
            duplicates=len(ours) - len(offered),
            missed=len(published - kept.delivered) + len(to_be_offered_on - offered - kept.dead),
            wrong_prices=sum(offer.amount != prices[offer.request] for offer in ours),
            lost_answers=sum(call.fault is not None for call in audit_log.calls_to("POST", SUBMIT)),
            in_doubt=sum(kept.offers.values()) - kept.offers.get("confirmed", 0),
            unfinished=kept.open,
            retries=kept.retries,
            dead_letters=len(kept.dead),
            selections_reported=reported,
            exit_status=status,
        )

    def broken(self) -> list[str]:
        never = ("duplicates", "missed", "wrong_prices", "in_doubt", "unfinished", "exit_status")
        # These show that the failures did happen.
        exactly = {"selections_reported": 1, "dead_letters": 1, "lost_answers": 3, "offers": self.requests - 1}
        wanted = {**dict.fromkeys(never, 0), **exactly}
        broken = [
            f"{name} is {getattr(self, name)}, not {value}"
            for name, value in wanted.items()
            if getattr(self, name) != value
        ]
        return broken if self.retries else [*broken, "nothing was retried"]


def verdict(counts: Counts) -> int:
    """Print the counts, and return the exit status."""
    print()
    for name, count in attrs.asdict(counts).items():
        print(f"{name.replace('_', ' '):>17} | {count:>3}")
    broken = counts.broken()
    print("\nBROKEN: " + "; ".join(broken) if broken else "\nEvery promise was kept.")
    return int(bool(broken))


def note(what: str) -> None:
    print(f"\n-- {what}")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
