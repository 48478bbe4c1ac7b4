"""Demonstration of a forwarder's bot that keeps its promises while it is killed, over real HTTP, against the sandbox.

A shipper publishes requests. The bot (`bot.py`, with a flaky tariff for air freight) is a process of its own. Replies
to it get lost, and it is killed (`kill -9`) while an offer is in flight. After a restart the shipper approves an offer,
and the bot is notified. At the end the exchange's log is counted. The exit status is 1 if a promise was broken.

Run it with `make demo` or `python examples/demo.py`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten

from freight_exchange import Bot, FreightExchange, RateRequest, RateRequestDraft
from freight_exchange.tariff import NoQuote, Quote, Tariff
from freight_sandbox import FAULTS, Exchange
from freight_sandbox.server import serve

# A script's own folder is on the path; the root, which the next import needs, is not.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.bot import TARIFF, WEIGHT_PER, Prices, router

SUBMIT = "quote/submitoffer"
POISON = "Violins"
# Way, commodity, origin, destination and quantity of each request, with its price by the tariff, calculated by hand.
EVENING = {
    ("air", POISON, "Hong Kong", "Chicago", 4): None,
    ("sea", "Ceramic tiles", "Hong Kong", "Long Beach", 20): Decimal("1392.84"),
    ("air", "Watches", "Hong Kong", "Chicago", 10): Decimal("682.50"),
    ("sea", "Bicycles", "Hong Kong", "Rotterdam", 40): Decimal("3116.52"),
}
MIDNIGHT = {("sea", "Green tea", "Shenzhen", "Hamburg", 12): Decimal("1014.41")}
NIGHT = {
    ("sea", "Office chairs", "Hong Kong", "Rotterdam", 25): Decimal("1964.70"),
    ("air", "Batteries", "Shenzhen", "Frankfurt", 150): Decimal("8201.25"),
}
MORNING = {
    ("air", "Cameras", "Shenzhen", "Frankfurt", 24): Decimal("1350.00"),
    ("sea", "Umbrellas", "Hong Kong", "Long Beach", 36): Decimal("2471.11"),
    ("air", "Loudspeakers", "Hong Kong", "Chicago", 18): Decimal("1192.50"),
}
Freight = tuple[str, str, str, str, int]


def draft(way: str, commodity: str, origin: str, destination: str, quantity: int) -> RateRequestDraft:
    is_sea = way == "sea"
    length, width, height, weight = ("1.2", "1", "0.9", "640") if is_sea else ("0.4", "0.3", "0.25", "12.5")
    return RateRequestDraft(
        commodity=commodity,
        type="Shipping" if is_sea else "Air Freight",
        origin=origin,
        destination=destination,
        arrival=datetime.now() + timedelta(days=60),
        packaging="pallet" if is_sea else "carton",
        quantity=quantity,
        length=Decimal(length),
        width=Decimal(width),
        height=Decimal(height),
        weight=Decimal(weight),
        incoterm="FOB",
        hazardous=False,
    )


async def main() -> int:
    sandbox = Exchange()
    with TemporaryDirectory() as folder:
        async with serve(sandbox) as server:
            say("exchange", f"listens at {server.url}")
            email, password = sandbox.shipper.email, sandbox.shipper.password
            async with FreightExchange(server.url, email=email, password=password) as shipper:
                bot = Program(str(Path(folder, "bot.db")), server.url, sandbox)
                try:
                    prices = await work(sandbox, shipper, bot)
                finally:
                    await bot.dies()
    return verdict(counted(sandbox, prices, bot))


async def work(sandbox: Exchange, shipper: FreightExchange, bot: Program) -> Mapping[int, Decimal | None]:
    """Play the story, and return each published request with its expected price."""
    prices: dict[int, Decimal | None] = {}

    async def publish(freight: Mapping[Freight, Decimal | None]) -> None:
        for parts, price in freight.items():
            request = await shipper.requests.publish(draft(*parts))
            prices[request.index] = price
            what = f"{request.quantity} x {request.packaging} of {request.commodity}"
            say("shipper", f"publishes request {request.index}: {what}, {request.origin} -> {request.destination}")
            await asyncio.sleep(0.1)

    def all_offered() -> bool:
        offered = {record.offer.request for record in sandbox.audit_log.offers}
        return offered >= {request for request, price in prices.items() if price is not None}

    await bot.starts()
    print("\n-- the answer to one offer gets lost: the exchange has taken it, and the bot cannot know")
    sandbox.faults.add(*FAULTS["reset_after_processing"](path=SUBMIT, skip=1))
    await publish(EVENING)
    await bot.until(all_offered)

    print("\n-- the bot is killed (kill -9) while the answer to an offer is on its way")
    sandbox.faults.add(*FAULTS["stall"](path=SUBMIT))
    await publish(MIDNIGHT)
    await bot.until(all_offered)
    await bot.dies()
    await publish(NIGHT)

    print("\n-- it is started again; one more offer gets lost, this time before the exchange has taken it")
    sandbox.faults.add(*FAULTS["reset_after_send"](path=SUBMIT))
    await bot.starts()
    await publish(MORNING)
    await bot.until(all_offered)
    await bot.until(lambda: bot.count_lines("is dead") > 0)

    print("\n-- the shipper approves an offer; the bot is notified once, though it is stopped and started once more")
    listing = await shipper.offers.get(min(index for index, price in prices.items() if price is not None))
    approved = await shipper.offers.approve(listing.offers[0])
    say("shipper", f"approves {listing.offers[0].amount}, by {approved.contact and approved.contact.name}")
    await bot.until(lambda: bot.count_lines("was selected") > 0)
    await bot.drains()
    await bot.starts()
    looks = len(sandbox.audit_log.calls_to("GET", "quote/bid"))
    await bot.until(lambda: len(sandbox.audit_log.calls_to("GET", "quote/bid")) > looks + 5)
    await bot.drains()
    return prices


def counted(sandbox: Exchange, prices: Mapping[int, Decimal | None], bot: Program) -> Counter[str]:
    """Count what the exchange has logged, and what the bot has printed."""
    offers = Counter(record.offer.request for record in sandbox.audit_log.offers)
    wrong = [record for record in sandbox.audit_log.offers if record.offer.amount != prices[record.offer.request]]
    return Counter({
        "requests": len(prices),
        "offers": offers.total(),
        "duplicates": offers.total() - len(offers),
        "missed": len({request for request, price in prices.items() if price is not None} - offers.keys()),
        "wrong prices": len(wrong),
        "replies lost": sum(call.fault is not None for call in sandbox.audit_log.calls_to("POST", SUBMIT)),
        "dead letters": bot.count_lines("is dead"),
        "selections reported": bot.count_lines("was selected"),
        "exit status": bot.exit_status,
    })  # fmt: skip


def verdict(counts: Mapping[str, int]) -> int:
    """Print the counts, and return the exit status."""
    # The lost replies and the dead letter show that the failures did happen.
    wanted = dict.fromkeys(("duplicates", "missed", "wrong prices", "exit status"), 0)
    wanted |= {"selections reported": 1, "dead letters": 1, "replies lost": 3, "offers": counts["requests"] - 1}
    print()
    for name, count in counts.items():
        print(f"{name:>19} | {count:>3}")
    broken = [f"{name} is {counts[name]}, not {value}" for name, value in wanted.items() if counts[name] != value]
    print(f"\nBROKEN: {'; '.join(broken)}" if broken else "\nEvery promise was kept.")
    return int(bool(broken))


def say(who: str, what: str) -> None:
    print(f"{who:>11} | {what}", flush=True)


class Program:
    """The bot in a process of its own, which takes its exchange from the environment.

    Attributes:
        lines: Every line that it printed.
        exit_status: 0 if every requested stop ended well.
    """

    def __init__(self, store: str, url: str, sandbox: Exchange) -> None:
        self.lines: list[str] = []
        self.exit_status = 0
        self._store = store
        account = {"URL": url, "EMAIL": sandbox.forwarder.email, "PASSWORD": sandbox.forwarder.password}
        self._environment = os.environ | {f"FREIGHT_EXCHANGE_{name}": value for name, value in account.items()}
        self._process: Process | None = None
        self._reading: asyncio.Task[None]

    def count_lines(self, words: str) -> int:
        return sum(words in line for line in self.lines)

    async def starts(self) -> None:
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, self._store, stdout=PIPE, stderr=STDOUT, env=self._environment
        )
        say("bot", f"process {process.pid} starts")
        self._reading = asyncio.create_task(self._read(process))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition while the program runs."""
        async with asyncio.timeout(60):
            while not condition():
                if self._process is None or self._process.returncode is not None:
                    raise RuntimeError("the bot has ended by itself")
                await asyncio.sleep(0.02)

    async def drains(self) -> None:
        """Stop it as a supervisor does."""
        assert self._process is not None
        self._process.terminate()
        self.exit_status |= await self._ended(self._process)

    async def dies(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._ended(self._process)

    async def _ended(self, process: Process) -> int:
        async with asyncio.timeout(60):
            status = await process.wait()
            await self._reading
        say("bot", f"process {process.pid} is gone, with status {status}")
        return status

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        while line := (await process.stdout.readline()).decode().rstrip():
            say("bot", line)
            self.lines.append(line)


class FlakyPrices(Prices):
    """Prices that fail once for each request by air, and always for violins."""

    def __init__(self, tariff: Tariff) -> None:
        super().__init__(tariff)
        self._asked: set[int] = set()

    async def quote(self, request: RateRequest) -> Quote | NoQuote:
        if request.commodity == POISON:
            raise ValueError("the tariff does not know what a violin is")
        if request.type == "Air Freight" and request.index not in self._asked:
            self._asked.add(request.index)
            raise ConnectionError("the tariff hung up")
        return await super().quote(request)


async def shared() -> AsyncIterator[FlakyPrices]:
    yield FlakyPrices(Tariff.read(TARIFF, weight_per=WEIGHT_PER))


def run_bot(store: str) -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.format = lambda record: shorten(record.getMessage(), 160)  # type: ignore[method-assign]  # one line
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)
    second = timedelta(seconds=1)
    bot = Bot(store=store, lifespan=shared, start="backfill", interval=second, selection_interval=second, settle=second)
    bot.include(router)
    bot.run()


if __name__ == "__main__":
    if sys.argv[1:]:
        run_bot(sys.argv[1])
    else:
        sys.exit(asyncio.run(main()))
