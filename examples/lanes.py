"""An application that embeds the feed: which lanes are in demand, kept up to date, and asked for while it runs.

Run it with `python examples/lanes.py`; Ctrl-C ends it. The feed is one task of the program, and tells of each change
once. What the program makes of it is its own: here a table of lanes, in memory. So the feed keeps its state in memory
too, and begins with all that is open. A program that keeps its table in a database gives the feed a file as well
(`store="lanes.db"`): it goes on after a restart, and what was not acknowledged comes again.

Which exchange, and who asks, comes from the environment: FREIGHT_EXCHANGE_URL, FREIGHT_EXCHANGE_EMAIL,
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
    """What is open on a lane."""

    requests: int = 0
    volume: Decimal = Decimal(0)


class Lanes:
    """The application's own state, fed by events."""

    def __init__(self) -> None:
        self._open: dict[int, RateRequest] = {}

    def take(self, event: RequestEvent) -> None:
        if event.kind == "withdrawn":
            self._open.pop(event.request.index, None)
        else:
            # A request that was updated takes the place of what it was; told twice, it changes nothing.
            self._open[event.request.index] = event.request

    def busiest(self) -> list[tuple[Lane, Demand]]:
        lanes: defaultdict[Lane, Demand] = defaultdict(Demand)
        for request in self._open.values():
            demand = lanes[request.origin or "?", request.destination or "?"]
            demand.requests += 1
            demand.volume += request.volume or 0
        return sorted(lanes.items(), key=lambda lane: lane[1].volume, reverse=True)


async def follow(feed: Feed, lanes: Lanes) -> None:
    """Take in what the feed hands out, for ever. Pulling the next event acknowledges the one before."""
    async for event in feed:
        match event:
            case RequestEvent():
                lanes.take(event)
            case Gap(since=since, until=until):
                logger.error("nobody watched from %s to %s", since, until)
            case Unreadable(index=index, error=error):
                logger.error("request %s cannot be read: %s", index, error)


async def report(feed: Feed, lanes: Lanes, every: timedelta) -> None:
    """Say how things are. A cover that is not young means that what follows is old."""
    while True:
        await anyio.sleep(every.total_seconds())
        age = feed.status().cover_age
        print(f"as of {'?' if age is None else round(age.total_seconds())} s ago", flush=True)
        for (origin, destination), demand in lanes.busiest()[:10]:
            print(f"  {origin} -> {destination}: {demand.requests} requests, {demand.volume} m3", flush=True)


async def run(exchange: FreightExchange, lanes: Lanes, interval: timedelta, every: timedelta) -> None:
    """Both at once, until they are cancelled, or something ends the feed that does not pass."""
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
