"""Cost of a call for one caller and for many, of a page of records, and of a long listing with pages in flight.

`python -m benchmarks.calls CLIENT SETTING PORT CALLS` prints what one client takes. The client of httpx returns dicts.
This SDK returns typed records, and includes the deadline, retries, token renewal and the limiter.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks.rounds import SDK, Figures, Scale, Table, alone, interleaved, serving
from benchmarks.server import LATENCY, PAGE, RECORDS

PEER: Final = "httpx"
CALLERS: Final = (1, 10, 100, 500)
WINDOWS: Final = (1, 4, 8)

_CALLS: Final = 800
_SLICES: Final = 8
_COLUMNS: Final = {"cpu": "CPU us a call", "wall": "wall us a call"}
_LISTING: Final = {"wall": "s", "cpu": "CPU s", "limit": "limit, s", "over": "times the limit"}
_ONE: Final = {"index": 1, "secondsSinceUpdate": 432000}
_PAGE: Final = {"type": "all", "secondsSinceUpdate": 432000, "offset": 0, "rowsperpage": PAGE}


def tables(scale: Scale) -> Iterator[Table]:
    """Yield a table for each number of callers, one for pages, and one for each number of pages in flight."""
    titles = {f"{callers}": f"One record, {callers} callers at a time" for callers in CALLERS}
    titles |= {"page": f"A page of {PAGE} records in a listing of {RECORDS:,}"}
    with serving() as port:
        for setting, title in titles.items():
            run = {name: partial(alone, "calls", name, setting, port, scale.of(_CALLS)) for name in (PEER, SDK)}
            yield Table(f"calls {setting}", title, _COLUMNS, interleaved(run, scale.rounds), PEER)
        for window in WINDOWS:
            run = {name: partial(alone, "calls", name, f"listing {window}", port, 0) for name in (PEER, SDK)}
            title = f"{RECORDS:,} records, {LATENCY * 1e3:.0f} ms a reply, {window} pages in flight"
            yield Table(f"listing {window}", title, _LISTING, interleaved(run, scale.rounds), PEER)


async def _measure(name: str, setting: str, port: int, calls: int) -> Figures:
    clients = _httpx if name == PEER else _sdk
    kind, _, window = setting.partition(" ")
    place = {"page": "page", "listing": "slow"}.get(kind, "one")
    async with clients(f"http://127.0.0.1:{port}/{place}/api") as client:
        if kind == "listing":
            return await _listing(client, int(window))
        if kind == "page":
            figures = await _timed(partial(client.listing, 1), 1, max(2, calls // 100))
            return {column: seconds / (RECORDS // PAGE) for column, seconds in figures.items()}
        # Every caller calls more than once, or opening the connections would be all that is measured.
        return await _timed(client.one, int(kind), max(2, calls // int(kind)))


class _Client(NamedTuple):
    """Calls that are compared: of one record, and of a listing with so many pages in flight, which are counted."""

    one: Callable[[], Awaitable[object]]
    listing: Callable[[int], Awaitable[int]]


@asynccontextmanager
async def _httpx(root: str) -> AsyncIterator[_Client]:
    import httpx

    async with httpx.AsyncClient(base_url=root, verify=False, trust_env=False, timeout=120) as client:

        async def post(body: object) -> Any:
            response = await client.post("quote/getrequests", json=body)
            response.raise_for_status()
            return response.json()["raterequests"]

        async def listing(window: int) -> int:
            numbers, read = itertools.count(), 0

            async def reading() -> None:
                nonlocal read
                while records := await post({**_PAGE, "offset": next(numbers)}):
                    read += len(records)

            await asyncio.gather(*(reading() for _ in range(window)))
            return read

        yield _Client(partial(post, _ONE), listing)


@asynccontextmanager
async def _sdk(root: str) -> AsyncIterator[_Client]:
    from freight_exchange import FreightExchange

    async with FreightExchange(root, email="ben@demo.example", password="benchmark", deadline=120) as exchange:
        await exchange.login()

        async def listing(window: int) -> int:
            return len(await exchange.requests.search(window=window).collect())

        yield _Client(lambda: exchange.requests.get(1), listing)


async def _timed(call: Callable[[], Awaitable[object]], callers: int, each: int) -> Figures:
    async def calling(times: int) -> None:
        for _ in range(times):
            await call()

    async def together(times: int) -> None:
        await asyncio.gather(*(calling(times) for _ in range(callers)))

    await together(1 + each // 10)
    gc.collect()
    # Another program's burst falls into one or two slices, which the median leaves out.
    slices = min(_SLICES, each)
    done = callers * (each // slices)
    taken = [await _time(partial(together, each // slices)) for _ in range(slices)]
    return {"cpu": median(cpu for cpu, _ in taken) / done * 1e6, "wall": median(wall for _, wall in taken) / done * 1e6}


async def _time(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return the seconds of CPU and of the wall clock that some work takes."""
    cpu, wall = time.process_time(), time.perf_counter()
    await work()
    return time.process_time() - cpu, time.perf_counter() - wall


async def _listing(client: _Client, window: int) -> Figures:
    async def ten() -> None:
        for _ in range(10):
            await client.one()

    async def whole() -> None:
        assert await client.listing(window) == RECORDS

    await client.one()
    cpu, wall = await _time(ten)
    latency = (wall - cpu) / 10  # as this machine has it
    cpu, wall = await _time(whole)
    # No reader can beat this: so many pages wait together, and one processor works. The end is one page more.
    limit = max((latency * (RECORDS // PAGE + 1) + cpu) / window, cpu)
    return {"wall": wall, "cpu": cpu, "limit": limit, "over": wall / limit}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))))
