"""Demonstration of a tender with both sides as bots, over real HTTP, against the sandbox.

A shipper publishes requests. The forwarder's bot (`bot.py`) and a rival offer on them; the shipper's bot (`tender.py`)
compares the offers in one currency and approves one on each request: the rival asks for euros. Both bots are killed
(`kill -9`) in the middle, and the answer to an approval is lost. At the end the log of the exchange is counted. The
exit status is 1 unless each request has exactly one approval, of the right offer, and each winner was notified exactly
once.

Run it with `make demo DEMO=demo_tender` or `python examples/demo_tender.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from freight_sandbox import FAULTS, Exchange
from freight_sandbox.audit import OfferRecord
from freight_sandbox.records import Offer
from freight_sandbox.server import serve

# A script's own folder is on the path; the root, which the next import needs, is not.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.stage import Program, client, say, sea
from examples.tender import RATES

APPROVE = "quote/approveoffer"
# The forwarder's tariff comes to 1,392.84, 3,116.52, 1,014.41 and 2,471.11 dollars. These are the rival's, in euros: on
# the tiles and the umbrellas, the dearer offer has the lower number.
TENDER = {
    sea("Ceramic tiles", "Hong Kong", "Long Beach", 20): 1300,
    sea("Bicycles", "Hong Kong", "Rotterdam", 40): 2500,
    sea("Green tea", "Shenzhen", "Hamburg", 12): 1200,
    sea("Umbrellas", "Hong Kong", "Long Beach", 36): 2300,
}
EUR, DOLLARS = 978, {840: Decimal(1), 978: RATES["EUR"]}


async def main() -> int:
    async with AsyncExitStack() as stack:
        sandbox = Exchange()
        url = (await stack.enter_async_context(serve(sandbox))).url
        say("exchange", f"listens at {url}")
        shipper = await stack.enter_async_context(client(url, sandbox.shipper))
        rival = await stack.enter_async_context(client(url, sandbox.rival))
        folder = Path(stack.enter_context(TemporaryDirectory()))
        forwarder = Program("forwarder", ["-m", "examples.demo_bot", str(folder / "bot.db")], url, sandbox.forwarder)
        tender = Program(
            "tender", [str(Path("examples") / "tender.py"), str(folder / "tender.db"), "1"], url, sandbox.shipper
        )
        await stack.enter_async_context(forwarder)
        await stack.enter_async_context(tender)
        await forwarder.starts()
        await tender.starts()
        # The exchange carries out the first approval and never replies: the bot is killed while it waits.
        sandbox.faults.add(*FAULTS["stall"](path=APPROVE, processed=True))
        for number, (draft, price) in enumerate(TENDER.items()):
            request = await shipper.requests.publish(draft)
            say("shipper", f"publishes request {request.index}: {draft.commodity}")
            await rival.bids.submit(request, amount=price, currency="EUR")
            if number == 1:
                await tender.until(lambda: len(approvals(sandbox)) > 0)
                say("", "both bots are killed (kill -9), after the first approval; they start again after an offer")
                await forwarder.dies()
                await tender.dies()
            elif number == 2:
                await forwarder.starts()
                await tender.starts()
        await tender.until(lambda: len(approvals(sandbox)) == len(TENDER))
        await forwarder.until(lambda: forwarder.count_lines("was selected") >= expected_wins(sandbox))
        await tender.drains()
        await forwarder.drains()
        return verdict(sandbox, forwarder, tender)


def approvals(sandbox: Exchange) -> Counter[int]:
    """Return the number of approvals of each request that the exchange has carried out."""
    return Counter(change.request for change in sandbox.audit_log.changes if change.what == "selected")


def dollars(offer: Offer) -> Decimal:
    """Return the amount of an offer in the currency of the comparison."""
    return Decimal(offer.amount) * DOLLARS[offer.currency]


def cheapest(sandbox: Exchange) -> dict[int, OfferRecord]:
    """Return the cheapest offer on each request."""
    found: dict[int, OfferRecord] = {}
    for record in sorted(sandbox.audit_log.offers, key=lambda record: dollars(record.offer)):
        found.setdefault(record.offer.request, record)
    return found


def expected_wins(sandbox: Exchange) -> int:
    return sum(record.account == sandbox.forwarder.email for record in cheapest(sandbox).values())


def verdict(sandbox: Exchange, forwarder: Program, tender: Program) -> int:
    log, counts = sandbox.audit_log, approvals(sandbox)
    chosen = {change.request: change.state.selected for change in log.changes if change.what == "selected"}
    sent = sum(call.processed for call in log.calls_to("POST", APPROVE))
    counted: dict[str, int] = {
        "requests": len(log.publications),
        "offers": len(log.offers),
        "offers in euros": sum(record.offer.currency == EUR for record in log.offers),
        "awarded": len(counts),
        "approvals": sent,
        "approvals too many": sent - len(counts),
        "wrong offer approved": sum(
            record.offer.index != chosen.get(request) for request, record in cheapest(sandbox).items()
        ),
        "replies lost": sum(call.fault is not None for call in log.calls_to("POST", APPROVE)),
        "won by the forwarder": expected_wins(sandbox),
        "notified of a win": forwarder.count_lines("was selected"),
    }
    print()
    for name, count in counted.items():
        print(f"{name:>20} | {count:>3}")
    kept = (
        counted["requests"] == counted["awarded"] == counted["approvals"] == len(TENDER)
        and counted["offers"] == 2 * len(TENDER)
        and not counted["wrong offer approved"]
        and counted["notified of a win"] == counted["won by the forwarder"]
        and forwarder.exit_status == tender.exit_status == 0
    )
    print("\nEvery promise was kept." if kept else "\nA PROMISE WAS BROKEN")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
