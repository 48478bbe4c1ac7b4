"""Reading 10,000 records of a service that takes 20 ms to reply, with one page in flight and with more.

Run: `python -m benchmarks.reading READER WINDOW PORT` prints what one reading took.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from benchmarks.rounds import Figures, Metric, Scale, Table, alone, interleaved, serving
from benchmarks.server import LATENCY, PAGE, RECORDS

__all__ = ["WINDOWS", "tables"]

WINDOWS: Final = (1, 4, 8)

_METRICS: Final = (
    Metric("wall", "s", 3, ratio=True),
    Metric("cpu", "CPU s", 3),
    Metric("limit", "latency and CPU alone, s", 3),
    Metric("over", "times that limit", 2),
)
_READERS: Final = {"bare": "httpx by hand, dicts", "sdk": "this SDK, typed"}


def tables(scale: Scale, note: Callable[[str], None]) -> list[Table]:
    """One table: each reader at each window."""
    with serving() as port:
        candidates = {
            f"{title}, {window} in flight": partial(_limited, reader, window, port)
            for window in WINDOWS
            for reader, title in _READERS.items()
        }
        rows = interleaved(candidates, scale.rounds, note)
    names = [*rows]
    peers = dict(zip(names[1::2], names[::2], strict=True))
    title = f"{RECORDS:,} records in pages of {PAGE}, {LATENCY * 1e3:.0f} ms a reply"
    return [Table(name="reading", title=title, metrics=_METRICS, rows=rows, peers=peers)]


def _limited(reader: str, window: int, port: int) -> Figures:
    figures = alone("reading", reader, window, port)
    # What no reader can beat: so many pages wait together, and the processor's own work is done one after another.
    # The end of the listing is one page more, and an empty one.
    pages = RECORDS // PAGE + 1
    waiting, working = figures["latency"] * pages, figures["cpu"]
    limit = max((waiting + working) / window, working)
    return {"wall": figures["wall"], "cpu": figures["cpu"], "limit": limit, "over": figures["wall"] / limit}


async def _measure(reader: str, window: int, port: int) -> None:
    import httpx

    root = f"http://127.0.0.1:{port}/slow/api"
    async with httpx.AsyncClient(base_url=root, verify=False, trust_env=False) as client:
        beyond = RECORDS // PAGE
        await _page(client, beyond)
        began = time.perf_counter(), time.process_time()
        for _ in range(10):
            await _page(client, beyond)
        # As it is met: what the client itself does meanwhile is not part of it.
        latency = (time.perf_counter() - began[0] - (time.process_time() - began[1])) / 10
        wall, cpu = await (_by_hand(client, window) if reader == "bare" else _by_sdk(root, window))
    print(json.dumps({"wall": wall, "cpu": cpu, "latency": latency}))


async def _page(client: Any, number: int) -> Any:
    parameters = {"type": "all", "secondsSinceUpdate": 432000, "offset": number, "rowsperpage": PAGE}
    return (await client.post("quote/getrequests", json=parameters)).json()["raterequests"]


async def _by_hand(client: Any, window: int) -> tuple[float, float]:
    numbers = itertools.count()
    read = 0

    async def reading() -> None:
        nonlocal read
        while records := await _page(client, next(numbers)):
            read += len(records)

    began = time.perf_counter(), time.process_time()
    await asyncio.gather(*(reading() for _ in range(window)))
    took = time.perf_counter() - began[0], time.process_time() - began[1]
    assert read == RECORDS, read
    return took


async def _by_sdk(root: str, window: int) -> tuple[float, float]:
    from freight_exchange import FreightExchange

    async with FreightExchange(root, email="ben@demo.example", password="benchmark") as exchange:
        await exchange.login()
        began = time.perf_counter(), time.process_time()
        records = await exchange.requests.search(window=window).collect()
        took = time.perf_counter() - began[0], time.process_time() - began[1]
    assert len(records) == RECORDS, len(records)
    return took


if __name__ == "__main__":
    asyncio.run(_measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
