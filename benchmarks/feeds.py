"""Cost of a poll, of a delivery, and of a month: feeds and bots on an exchange that only counts.

`python -m benchmarks.feeds poll OPEN HOURS` and `python -m benchmarks.feeds READER DELIVERIES` print what they take;
`python -m benchmarks.long` runs a month.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import httpx

from benchmarks.rounds import Figures, Scale, Table, alone, interleaved
from benchmarks.server import LOGIN, record
from freight_exchange import Bot
from freight_exchange.testing import Sandbox, virtual_time_options

OPEN: Final = (100, 10_000)
BOT, EVENTS, BATCHES = "a bot", "a loop, `async for event in feed`", "a loop, `feed.batches()`"

_CROWDED: Final = 400_000.0
"""Seconds over which the crowd was published, within the five days that the service looks back."""
_INTERVAL: Final = 30.0
_DELIVERIES: Final = 3_000
_POLL: Final = {"cpu": "CPU ms a poll", "bytes": "bytes a poll", "calls": "calls a poll", "events": "events"}
_DELIVERY: Final = {"cpu": "CPU us a delivery", "rate": "deliveries a second"}
_BID: Final = '{"bid":{"index":%d,"status":"Available","offer":{"index":"%d","offerAmount":%s,"currencyIndex":840}}}'


class Endless(httpx.AsyncBaseTransport):
    """Exchange that publishes at a steady pace, and keeps no records, so that only its client costs memory.

    Args:
        period: Seconds from one publication to the next.
        crowd: Requests that are open at the start, published at even distances over the days before.

    Attributes:
        calls, received: Number of calls, and of their bytes.
        offers: Number of offers.
        busy: CPU seconds of the exchange itself, which are not the client's.
    """

    def __init__(self, period: float, crowd: int = 0) -> None:
        self._began = anyio.current_time()
        self._period, self._crowd = period, crowd
        self.calls = self.received = self.offers = 0
        self.busy = 0.0

    def client(self) -> Any:
        """Make a client of this exchange, on whose clocks virtual time counts."""
        return Sandbox().client(http_client=httpx.AsyncClient(transport=self, trust_env=False))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        began = time.process_time()
        sent = json.loads(await request.aread() or b"{}")
        match request.url.path.rpartition("/api/")[2]:
            case "login":
                body = LOGIN
            case "quote/submitoffer":
                index, self.offers = sent["requestIndex"], self.offers + 1
                body = (_BID % (index, 5000 + index, sent["offer"])).encode()
            case "quote/getrequests":
                body = self._page(sent["offset"], min(sent["rowsperpage"], 1000), sent["secondsSinceUpdate"])
            case _:
                body = b'{"bids":{}}'
        self.calls, self.received = self.calls + 1, self.received + len(body)
        self.busy += time.process_time() - began
        return httpx.Response(200, content=body, headers={"content-type": "application/json"})

    def _page(self, offset: int, rows: int, window: float) -> bytes:
        now = anyio.current_time() - self._began
        published = int(now / self._period)
        listed = min(published, math.ceil(window / self._period))
        if self._crowd and window > now:
            listed = published + min(self._crowd, int((window - now) / _CROWDED * self._crowd))
        newest = self._crowd + published
        indexes = range(newest - offset * rows, max(newest - listed, newest - (offset + 1) * rows), -1)
        return json.dumps({"raterequests": {str(at): record(index) for at, index in enumerate(indexes)}}).encode()


def tables(scale: Scale) -> Iterator[Table]:
    """Yield a table of polls, and one of deliveries."""
    polls = {f"{crowd:,} open requests": partial(alone, "feeds", "poll", crowd, 2 * scale.share) for crowd in OPEN}
    rows = interleaved(polls, scale.rounds)
    yield Table("polls", "A poll every 30 s, one request published in each", _POLL, rows, next(iter(rows)))
    run = {name: partial(alone, "feeds", name, scale.of(_DELIVERIES)) for name in (EVENTS, BATCHES, BOT)}
    title = "Deliveries from an SQLite file, with nothing to do in the handler"
    yield Table("deliveries", title, _DELIVERY, interleaved(run, scale.rounds), EVENTS)


async def _poll(crowd: int, hours: float) -> Figures:
    service, events, polls = Endless(_INTERVAL, crowd), 0, max(10, round(hours * 3600 / _INTERVAL))

    async def watch() -> None:
        nonlocal events
        async with service.client() as exchange, exchange.watch(interval=timedelta(seconds=_INTERVAL)) as feed:
            async for _ in feed:
                events += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await anyio.sleep(2.5 * _INTERVAL)  # the first scan reads all that is open
        sums = []
        for _ in range(polls):
            before = time.process_time() - service.busy, service.received, service.calls
            await anyio.sleep(_INTERVAL)
            after = time.process_time() - service.busy, service.received, service.calls
            sums.append([late - early for early, late in zip(before, after, strict=True)])
        tasks.cancel_scope.cancel()
    # Some polls look back further; the median is a usual one.
    cpu, received, calls = (statistics.median(one) for one in zip(*sums, strict=True))
    return {"cpu": cpu * 1e3, "bytes": received, "calls": calls, "events": events}


async def _deliver(reader: str, deliveries: int, store: Path) -> Figures:
    # All are published at the start, within the five days that the service looks back.
    service = Endless(math.inf, crowd=deliveries)
    async with service.client() as exchange:
        if reader != BOT:
            async with exchange.watch(store=store, start="backfill") as feed:
                return await _timed(service, partial(_read, feed, reader, deliveries), deliveries)
        bot, handled, all_handled = Bot(exchange, store=store, start="backfill"), 0, anyio.Event()

        @bot.on_new(id="count")
        async def count(request: Any, ctx: Any) -> None:
            nonlocal handled
            handled += 1
            if handled == deliveries:
                all_handled.set()

        async with bot:
            return await _timed(service, all_handled.wait, deliveries)


async def _read(feed: Any, reader: str, deliveries: int) -> None:
    left = deliveries
    async for found in feed.batches() if reader == BATCHES else feed:
        left -= len(found) if reader == BATCHES else 1
        if left <= 0:
            break
    await feed.ack()


async def _timed(service: Endless, work: Callable[[], Awaitable[object]], deliveries: int) -> Figures:
    wall, cpu = time.perf_counter(), time.process_time() - service.busy
    await work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - service.busy - cpu
    return {"cpu": cpu / deliveries * 1e6, "rate": deliveries / wall}


def main(what: str, number: str, hours: str = "0") -> Figures:
    if what == "poll":
        return anyio.run(_poll, int(number), float(hours), backend_options=virtual_time_options("asyncio"))
    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(_deliver, what, int(number), Path(folder, "store.db"))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
