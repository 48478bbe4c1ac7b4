"""A watcher that is killed in the middle of the night and misses nothing, over real HTTP, against the sandbox.

The watcher (`watcher.py`) is a process of its own. Run it with `python examples/watching.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import attrs

from freight_exchange import FreightExchange, Packaging, RateRequestDraft, RequestType
from freight_exchange.sandbox import Exchange
from freight_exchange.sandbox.asgi import serve

PALLETS = RateRequestDraft(
    commodity="Ceramic tiles",
    type=RequestType.SHIPPING,
    origin="Hong Kong",
    destination="Long Beach",
    arrival=datetime(2027, 3, 1),
    packaging=Packaging.PALLET,
    quantity=20,
    length=Decimal("1.2"),
    width=Decimal(1),
    height=Decimal("0.9"),
    weight=Decimal(640),
    incoterm="FOB",
    hazardous=False,
)
AT_NIGHT = [
    attrs.evolve(PALLETS, commodity=commodity, destination=destination, quantity=quantity)
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


async def main() -> int:
    async with AsyncExitStack() as stack:
        sandbox = Exchange()
        url = await stack.enter_async_context(serve(sandbox))
        account = sandbox.shipper
        shipper = FreightExchange(url, email=account.email, password=account.password)
        return await night(sandbox, await stack.enter_async_context(shipper), url)


async def night(sandbox: Exchange, shipper: FreightExchange, url: str) -> int:
    """A watcher is killed while the shipper goes on publishing; what it told is held against what really happened."""
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
    published = {f"FX{publication.request:06d}" for publication in sandbox.truth.publications}
    seen = Counter(watcher.told)
    say("published", f"{len(published):>3}")
    say("seen", f"{len(published & seen.keys()):>3}")
    say("missed", f"{len(published - seen.keys()):>3}")
    say("repeated", f"{seen.total() - len(seen):>3}")
    return int(published != seen.keys() or seen.total() != len(seen))


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
        say("shipper", f"publishes {published.ref_id}: {published.quantity} x {published.commodity}")
        await asyncio.sleep(0.2)


def say(who: str, what: str) -> None:
    print(f"{who:>11} | {what}")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
