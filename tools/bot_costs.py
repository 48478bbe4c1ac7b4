"""Costs of a bot's deliveries, compared with the same work in a bare loop over the feed.

`python tools/bot_costs.py` makes 10,000 deliveries in each way, in interleaved rounds and each in a process of its own,
and prints medians and ratios; `--profile` prints a profile of a bot's own code.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import multiprocessing
import pstats
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

import anyio
import attrs
import httpx

# Only the script's own folder is on the path; the imports below also need the root of the tree and its sources.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tools.lib.endless_exchange import EndlessExchange

from freight_exchange import Bot, FreightExchange, RequestEvent
from freight_exchange.store import MemoryStore, SQLiteStore
from freight_exchange.store.protocol import Binding
from freight_exchange.store.sqlite.feed import SQLiteFeed

__all__ = ["WAYS", "BiddingExchange", "Cost", "Way", "cost"]

_WINDOW: Final = 400_000.0
"""Seconds within which the requests were published, of the five days that the service looks back."""

_BID = (
    '{"index":%d,"cargoname":"Electronics","refId":"FX%07d","status":"%s","origin":"Hong Kong","destination":'
    '"Los Angeles","needdate":"2030-01-15 00:00:00","notes":"10 cartons of Electronics from Hong Kong to Los Angeles",'
    '"qty":10,"packingtype":"Carton","measureUnit":"m","cargowidth":0.8,"cargoheight":0.5,"cargolength":1.2,'
    '"massUnit":"kg","weight":40,%s}'
)
_SUBMITTED = '"offer":{"index":"%d","offerAmount":%s,"currencyIndex":840,"status":"pending"}'
_LISTED = (
    '"price":1840.5,"currencyIndex":840,"loadingPOC":{"name":"Sylvia Ship","email":"shipper@demo.example"},'
    '"loadingCompany":{"name":"Ship & Co. Ltd","address1":"1 Harbour Road","city":"Hong Kong","country":"Hong Kong"}'
)


class BiddingExchange(EndlessExchange):
    """Exchange that also accepts offers. It keeps only their number for each request, so its memory does not grow.

    Args:
        most: The highest index of a request that receives an offer.

    Attributes:
        offers: Number of offers received, by the request's index.
    """

    def __init__(
        self, period: float, now: Callable[[], float], *, most: int, latency: float = 0.0, lifetime: float = 3600.0
    ) -> None:
        super().__init__(period, now, latency=latency)
        self.offers = bytearray(most + 1)
        self._lifetime = lifetime

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._latency:
            await anyio.sleep(self._latency)
        began = time.process_time()
        parameters = json.loads(await request.aread())
        match request.url.path.rpartition("/api/")[2]:
            case "login":
                body = b'{"user":{"access_token":"token","expires_on":%d}}' % self._lifetime
            case "quote/submitoffer":
                body = self._offer(parameters["requestIndex"], parameters["offer"])
            case "quote/bid":
                body = self._bids(parameters["offset"], parameters["rowsperpage"], parameters.get("type"))
            case _:
                self.calls += 1
                body = self._page(parameters["offset"], parameters["rowsperpage"], parameters["secondsSinceUpdate"])
        self.busy += time.process_time() - began
        return httpx.Response(200, content=body, headers={"content-type": "application/json"})

    def selected(self, at: float) -> range:
        """Return the indexes of the bids that are listed as selected."""
        return range(0)

    def _offer(self, index: int, amount: object) -> bytes:
        self.offers[index] += 1
        offered = _SUBMITTED % (5000 + index, amount)
        return f'{{"bid":{_BID % (index, index, "Available", offered)}}}'.encode()

    def _bids(self, offset: int, rows: int, kind: str | None) -> bytes:
        chosen = self.selected(self._now()) if kind == "sel" else range(0)
        page = chosen[offset * rows : (offset + 1) * rows]
        records = (f'"{place}":{_BID % (index, index, "Selected", _LISTED)}' for place, index in enumerate(page))
        return f'{{"bids":{{{",".join(records)}}}}}'.encode()


# The ways

Reader = Literal["bot", "events", "batches"]
Kept = Literal["file", "inline", "memory"]


@attrs.frozen
class Way:
    """Way to do the work.

    Attributes:
        reader: A bot, or a bare loop over a feed's events or batches.
        store: A file that worker threads write, a file that the loop itself writes, or memory.
        offers: Whether each delivery makes an offer, or nothing.
    """

    reader: Reader
    store: Kept
    offers: bool

    def __str__(self) -> str:
        return f"{_READERS[self.reader]}, {_STORES[self.store]}"


_READERS: Final = {"bot": "bot", "events": "`async for event in feed`", "batches": "`feed.batches()`"}
_WORK: Final = {False: "nothing to do", True: "one offer each"}
_STORES: Final = {"file": "SQLite", "inline": "SQLite without threads", "memory": "memory"}

_PAIRS: Final[tuple[tuple[Reader, Kept], ...]] = (
    ("events", "file"),
    ("batches", "file"),
    ("bot", "file"),
    ("bot", "inline"),
    ("bot", "memory"),
    ("batches", "memory"),
)
WAYS: Final = tuple(Way(reader, store, offers) for offers in (False, True) for reader, store in _PAIRS)
"""Ways to compare. The first one with offers, and the first without, is the baseline of the others."""


@attrs.frozen(kw_only=True)
class Cost:
    """Cost of the deliveries.

    Attributes:
        seconds: Wall time, from the end of the first scan to the end of the last delivery.
        processor: CPU seconds of all threads, without those of the exchange.
        file: Bytes of the store's file after it was closed.
        commits: Number of transactions that wrote; 0 unless counted. `reads` is the number of statements outside these.
        offers: Number of requests, by the number of their offers.
    """

    deliveries: int
    seconds: float
    processor: float
    file: int
    commits: int
    reads: int
    offers: Counter[int]


class _CountingStore(SQLiteStore):
    """Store that counts the transactions and statements on its file."""

    commits = reads = 0
    _writing = False

    def open(self, binding: Binding, *, lease: float) -> SQLiteFeed:
        with self._database.access:
            self._database.connect().set_trace_callback(self._note)
        return super().open(binding, lease=lease)

    def _note(self, statement: str) -> None:
        word = statement.split(None, 1)[0]
        self.commits += word == "COMMIT"
        self.reads += word == "SELECT" and not self._writing
        self._writing = (self._writing or word == "BEGIN") and word not in ("COMMIT", "ROLLBACK")


@attrs.frozen
class _Bare:
    """Context of a loop without a bot."""

    exchange: FreightExchange
    request: Any

    async def offer(self, **offered: Any) -> None:
        await self.exchange.bids.submit(self.request, **offered)


async def _nothing(request: Any, ctx: Any) -> None:
    pass


async def _quote(request: Any, ctx: Any) -> None:
    await ctx.offer(amount="1840.50", currency=840)


def cost(
    way: Way,
    deliveries: int,
    folder: Path,
    *,
    counted: bool = False,
    profile: cProfile.Profile | None = None,
    latency: float = 0.0,
    backend: str = "asyncio",
) -> Cost:
    """Make a number of deliveries, and return their cost.

    Args:
        way: The way to make them.
        deliveries: Their number.
        folder: Folder of the store's file.
        counted: Whether the store's transactions are counted, which takes time of its own.
        profile: Profiler that runs meanwhile.
        latency: Seconds that each reply of the exchange takes.
        backend: `asyncio` or `trio`.
    """
    return anyio.run(partial(_cost, way, deliveries, folder, counted, profile, latency), backend=backend)


async def _cost(
    way: Way, deliveries: int, folder: Path, counted: bool, profile: cProfile.Profile | None, latency: float
) -> Cost:
    period = _WINDOW / deliveries
    service = BiddingExchange(period, lambda: _WINDOW + period / 2, most=deliveries, latency=latency, lifetime=1e6)
    path = folder / "costs.db"
    kind = _CountingStore if counted else SQLiteStore
    store = MemoryStore() if way.store == "memory" else kind(path, inline=way.store == "inline")
    work = _quote if way.offers else _nothing
    read = {"bot": _by_bot, "events": _by_events, "batches": _by_batches}[way.reader]
    http_client = httpx.AsyncClient(transport=service, trust_env=False)
    exchange = FreightExchange(service.url, email="me@co.example", password="p", http_client=http_client)
    async with http_client, exchange, read(exchange, store, work, deliveries) as go:
        before = _commits(store)
        began = time.perf_counter(), time.process_time() - service.busy
        if profile is not None:
            profile.enable()
        await go()
        if profile is not None:
            profile.disable()
        ended = time.perf_counter(), time.process_time() - service.busy
        after = _commits(store)
    store.close()
    return Cost(
        deliveries=deliveries,
        seconds=ended[0] - began[0],
        processor=ended[1] - began[1],
        file=_removed(path),
        commits=after[0] - before[0],
        reads=after[1] - before[1],
        offers=Counter(service.offers[1:]),
    )


def _removed(path: Path) -> int:
    """Return the size of a store's file in bytes, and remove the file."""
    size = path.stat().st_size if path.exists() else 0
    for part in path.parent.glob(f"{path.name}*"):
        part.unlink()
    return size


def _commits(store: object) -> tuple[int, int]:
    return (store.commits, store.reads) if isinstance(store, _CountingStore) else (0, 0)


_Work = Callable[[Any, Any], Awaitable[None]]


@asynccontextmanager
async def _by_bot(exchange: FreightExchange, store: Any, work: _Work, deliveries: int) -> AsyncIterator[Any]:
    # A new store waits before it offers; this wait does not count as a cost of the offers.
    bot = Bot(exchange, store=store, start="backfill", settle=timedelta(0))
    last = anyio.Event()
    done = 0

    async def handler(request: Any, ctx: Any) -> None:
        nonlocal done
        await work(request, ctx)
        done += 1
        if done == deliveries:
            last.set()

    async def go() -> None:
        await last.wait()
        while bot.status().handled < deliveries:  # noqa: ASYNC110 - nothing signals that the last is settled
            await anyio.sleep(0.001)

    bot.on_new(handler)
    async with bot:
        yield go


@asynccontextmanager
async def _by_events(exchange: FreightExchange, store: Any, work: _Work, deliveries: int) -> AsyncIterator[Any]:
    async def go() -> None:
        left = deliveries
        async for event in feed:
            assert isinstance(event, RequestEvent)
            await work(event.request, _Bare(exchange, event.request))
            left -= 1
            if not left:
                break
        await feed.ack()

    async with exchange.watch(store=store, start="backfill") as feed:
        yield go


@asynccontextmanager
async def _by_batches(exchange: FreightExchange, store: Any, work: _Work, deliveries: int) -> AsyncIterator[Any]:
    async def go() -> None:
        left = deliveries
        async for batch in feed.batches():
            for event in batch:
                assert isinstance(event, RequestEvent)
                await work(event.request, _Bare(exchange, event.request))
            left -= len(batch)
            if not left:
                break
        await feed.ack()

    async with exchange.watch(store=store, start="backfill") as feed:
        yield go


# The tables


def _alone(*arguments: Any, **options: Any) -> Cost:
    """Measure in a new process, so that one way does not warm up another."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(cost, arguments, options)


def _a_commit(folder: Path, times: int = 300) -> float:
    """Return the seconds of a transaction of one row on this machine."""
    path = folder / "commit.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE line (number INTEGER)")
    took: list[float] = []
    for number in range(times):
        began = time.perf_counter()
        connection.execute("INSERT INTO line VALUES (?)", (number,))
        took.append(time.perf_counter() - began)
    connection.close()
    return median(took)


def _print(way: Way, costs: Sequence[Cost], ratios: Sequence[float], counts: Cost) -> None:
    rate = median(done.deliveries / done.seconds for done in costs)
    processor = median(done.processor / done.deliveries for done in costs) * 1e6
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(
        f"| {way} | {rate:.0f} | {processor:.0f} | {median(ratios):.2f} ({spread}) |"
        f" {counts.commits / counts.deliveries:.2f} | {counts.reads / counts.deliveries:.2f} |"
        f" {costs[0].file / costs[0].deliveries:.0f} |",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deliveries", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds that a reply of the exchange takes")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    parser.add_argument("--folder", type=Path, help="where the stores' files lie while they are measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures, round by round")
    parser.add_argument("--profile", action="store_true", help="where the bot's own time goes, and nothing else")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        if options.profile:
            return _profile(options.deliveries, Path(name))
        return _measure(options, Path(name))


def _measure(options: Any, folder: Path) -> int:
    run = partial(_alone, latency=options.latency, backend=options.backend)
    print(f"one row, one commit: {_a_commit(folder) * 1e6:.0f} us\n")
    rounds: list[dict[Way, Cost]] = []
    for number in range(options.rounds):
        rounds.append({})
        for way in WAYS:
            done = rounds[-1][way] = run(way, options.deliveries, folder)
            text = f"{done.seconds:.1f} s, {done.processor:.1f} s of the processor"
            print(f"round {number + 1}: {way}, {_WORK[way.offers]}: {text}", file=sys.stderr, flush=True)
    good = True
    for offers in (False, True):
        print(f"| {_WORK[offers]} | a second | CPU us | against the first | commits | reads | bytes kept |")
        print("|---|---|---|---|---|---|---|")
        ways = [way for way in WAYS if way.offers == offers]
        for way in ways:
            costs = [found[way] for found in rounds]
            ratios = [found[way].processor / found[ways[0]].processor for found in rounds]
            # Counting takes time of its own, and a tenth shows as much.
            _print(way, costs, ratios, run(way, max(1, options.deliveries // 10), folder, counted=True))
            good &= all(done.offers == {int(offers): options.deliveries} for done in costs)
    if options.json is not None:
        options.json.write_text(
            json.dumps([{repr(way): attrs.asdict(done) for way, done in found.items()} for found in rounds])
        )
    return int(not good)


def _profile(deliveries: int, folder: Path) -> int:
    for way in (Way("bot", "inline", False), Way("bot", "inline", True)):
        profile = cProfile.Profile()
        cost(way, deliveries, folder, profile=profile)
        stats = pstats.Stats(profile)
        print(f"{way}, {_WORK[way.offers]}")
        stats.sort_stats("tottime").print_stats(25)
        stats.sort_stats("cumulative").print_stats("freight_exchange", 60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
