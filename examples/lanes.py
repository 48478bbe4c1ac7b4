"""Application with a feed: a table of the lanes in demand, kept up to date while it runs.

Run it with `python examples/lanes.py`; Ctrl-C ends it. One task follows the feed, which yields each change once;
another prints the table after the first scan, and then each minute. Table and feed are in memory, so that each run
begins with all listed requests. A program that keeps its table in a database gives the feed a file too
(`store="lanes.db"`): after a restart the feed continues, and repeats only the events that were not acknowledged.

The exchange and the account come from the environment: FREIGHT_EXCHANGE_URL, FREIGHT_EXCHANGE_EMAIL,
FREIGHT_EXCHANGE_PASSWORD.
"""

from __future__ import annotations

import logging
import sys
from collections import defaultdict
from datetime import timedelta
from decimal import Decimal

import anyio
import attrs

from freight_exchange import Feed, FreightExchange, FreightExchangeError, Gap, RateRequest, RequestEvent, Unreadable

logger = logging.getLogger("lanes")

Lane = tuple[str, str]


@attrs.define
class Demand:
    """Open requests of a lane."""

    requests: int = 0
    volume: Decimal = Decimal(0)


class Lanes:
    """Open requests by lane."""

    def __init__(self) -> None:
        self._open: dict[int, RateRequest] = {}

    def take(self, event: RequestEvent) -> None:
        if event.kind == "withdrawn":
            self._open.pop(event.request.index, None)
        else:
            # An update replaces the request; a repeated event changes nothing.
            self._open[event.request.index] = event.request

    def __len__(self) -> int:
        return len(self._open)

    def busiest(self) -> list[tuple[Lane, Demand]]:
        lanes: defaultdict[Lane, Demand] = defaultdict(Demand)
        for request in self._open.values():
            demand = lanes[request.origin or "?", request.destination or "?"]
            demand.requests += 1
            demand.volume += request.volume or 0
        return sorted(lanes.items(), key=lambda lane: lane[1].volume, reverse=True)


async def follow(feed: Feed, lanes: Lanes) -> None:
    """Apply each event to the table. Pulling the next event acknowledges the one before."""
    async for event in feed:
        match event:
            case RequestEvent():
                lanes.take(event)
            case Gap(since=since, until=until):
                logger.error("no scan between %s and %s: requests of that time may be missing", since, until)
            case Unreadable(index=index, error=error):
                logger.error("request %s cannot be read: %s", index, error)


async def report(feed: Feed, lanes: Lanes, every: timedelta) -> None:
    """Print the table after the first complete scan, and then regularly."""
    print("reading the listed requests", flush=True)
    while (status := feed.status()).cover_age is None or status.unacknowledged:  # noqa: ASYNC110  # no event to await
        await anyio.sleep(0.5)
    while True:
        age = feed.status().cover_age or timedelta()
        count = "1 open request" if len(lanes) == 1 else f"{len(lanes)} open requests"
        print(f"{count}, as of {round(age.total_seconds())} s ago", flush=True)
        for (origin, destination), demand in lanes.busiest()[:10]:
            requests = "1 request" if demand.requests == 1 else f"{demand.requests} requests"
            print(f"  {origin} -> {destination}: {requests}, {demand.volume} m3", flush=True)
        await anyio.sleep(every.total_seconds())


async def run(exchange: FreightExchange, lanes: Lanes, interval: timedelta, every: timedelta) -> None:
    """Follow the feed and print the table, both at a time, until a cancellation or an error that ends the feed."""
    async with exchange.watch(start="backfill", interval=interval) as feed, anyio.create_task_group() as tasks:
        tasks.start_soon(report, feed, lanes, every)
        await follow(feed, lanes)


async def main() -> None:
    async with FreightExchange() as exchange:
        await run(exchange, Lanes(), timedelta(seconds=30), timedelta(minutes=1))


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("it takes no arguments: python examples/lanes.py")
    logging.basicConfig(level=logging.INFO)
    try:
        anyio.run(main)
    except FreightExchangeError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass
