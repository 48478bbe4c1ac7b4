"""Demonstration of a tender with both sides as bots, over real HTTP, against the sandbox.

A shipper publishes requests. The forwarder's bot (`bot.py`) and a rival offer on them; the shipper's bot (`tender.py`)
compares the offers and approves one of each request. Both bots are killed (`kill -9`) in the middle, and the answer to
an approval is lost. At the end the log of the exchange is counted. The exit status is 1 if a request got another number
of approvals than one, the wrong offer was approved, or the winner was not notified once.

Run it with `make demo-tender` or `python examples/demo_tender.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from freight_exchange.sandbox import FAULTS, Exchange
from freight_exchange.sandbox.faces.tcp import serve_tcp

# A script's own folder is on the path; the root, which the next import needs, is not.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.stage import Program, client, say, sea

APPROVE = "quote/approveoffer"
# The bot's tariff is 1,392.84 for the tiles, 3,116.52 for the bicycles, and so on: the rival is dearer, or cheaper.
TENDER = {
    sea("Ceramic tiles", "Hong Kong", "Long Beach", 20): 1500,
    sea("Bicycles", "Hong Kong", "Rotterdam", 40): 2500,
    sea("Green tea", "Shenzhen", "Hamburg", 12): 1200,
    sea("Umbrellas", "Hong Kong", "Long Beach", 36): 2400,
}


async def main() -> int:
    async with AsyncExitStack() as stack:
        sandbox = Exchange()
        url = (await stack.enter_async_context(serve_tcp(sandbox))).url
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
        sandbox.faults.add(*FAULTS["reset_after_processing"](path=APPROVE))
        for number, (draft, price) in enumerate(TENDER.items()):
            request = await shipper.requests.publish(draft)
            say("shipper", f"publishes request {request.index}: {draft.commodity}")
            await rival.bids.submit(request, amount=price, currency="USD")
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
        return verdict(sandbox, forwarder)


def approvals(sandbox: Exchange) -> Counter[int]:
    """Return the number of approvals of each request that the exchange has carried out."""
    return Counter(change.request for change in sandbox.audit_log.changes if change.what == "selected")


def cheapest(sandbox: Exchange) -> dict[int, tuple[Decimal, str]]:
    """Return the lowest amount offered on each request, and its account."""
    found: dict[int, tuple[Decimal, str]] = {}
    for record in sandbox.audit_log.offers:
        entry = (Decimal(record.offer.amount), record.account)
        found[record.offer.request] = min(found.get(record.offer.request, entry), entry)
    return found


def expected_wins(sandbox: Exchange) -> int:
    return sum(account == sandbox.forwarder.email for _, account in cheapest(sandbox).values())


def verdict(sandbox: Exchange, forwarder: Program) -> int:
    counts, lowest = approvals(sandbox), cheapest(sandbox)
    amounts = {record.offer.index: Decimal(record.offer.amount) for record in sandbox.audit_log.offers}
    chosen = {
        change.request: amounts[change.state.selected or 0]
        for change in sandbox.audit_log.changes
        if change.what == "selected"
    }
    sent = sum(call.processed for call in sandbox.audit_log.calls_to("POST", APPROVE))
    too_many = sent - len(counts)
    wrong = sum(chosen[request] != lowest[request][0] for request in chosen)
    reported, wins = forwarder.count_lines("was selected"), expected_wins(sandbox)
    say("count", f"{len(counts)} requests awarded, {sent} approvals, {too_many} too many, {wrong} of the wrong offer")
    say("count", f"the forwarder has won {wins}, and was notified {reported} times")
    kept = len(counts) == len(TENDER) and not too_many and not wrong and reported == wins
    say("verdict", "every promise was kept" if kept else "A PROMISE WAS BROKEN")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
