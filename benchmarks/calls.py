"""Cost of a call: processor and wall time, for one caller and for many.

Run: `python -m benchmarks.calls CLIENT PORT CALLS` prints what one client took in each setting.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Final

from benchmarks.clients import CLIENTS, Call, client
from benchmarks.rounds import Metric, Scale, Table, alone, interleaved, serving

__all__ = ["CALLERS", "PEERS", "tables"]

CALLERS: Final = (1, 10, 100, 500)
PEERS: Final = {
    "this SDK": "httpx",
    "this SDK on httpx2": "httpx2",
    "openai": "httpx2",
    "anthropic": "httpx2",
}
"""The HTTP library that each is made on, by that library's own client."""

_CALLS: Final = 800
_SLICES: Final = 8
_METRICS: Final = (Metric("cpu", "CPU us a call", ratio=True), Metric("wall", "wall us a call"))


def tables(scale: Scale, note: Callable[[str], None]) -> list[Table]:
    """One table for each number of callers, and one for pages of 100 records."""
    with serving() as port:
        measured = interleaved(
            {name: partial(alone, "calls", name, port, scale.of(_CALLS)) for name in CLIENTS}, scale.rounds, note
        )

    def table(setting: str, title: str) -> Table:
        rows = {
            name: [{metric.key: one[f"{setting} {metric.key}"] for metric in _METRICS} for one in rounds]
            for name, rounds in measured.items()
        }
        return Table(name=f"calls {setting}", title=title, metrics=_METRICS, rows=rows, peers=PEERS)

    return [
        table("1", "One record, one call after another"),
        *(table(str(callers), f"One record, {callers} callers at a time") for callers in CALLERS[1:]),
        table("page", "A page of 100 records, one call after another"),
    ]


async def _measure(name: str, port: int, calls: int) -> None:
    figures: dict[str, float] = {}
    for callers in CALLERS:
        # Every caller calls more than once, or opening the connections would be all that is measured.
        each = max(2, calls // callers)
        async with client(name, f"http://127.0.0.1:{port}/one/api", page=False) as call:
            figures |= await _timed(str(callers), call, callers, each)
    async with client(name, f"http://127.0.0.1:{port}/page/api", page=True) as call:
        figures |= await _timed("page", call, 1, calls // 2)
    print(json.dumps(figures))


async def _timed(setting: str, call: Call, callers: int, each: int) -> dict[str, float]:
    async def calling(times: int) -> None:
        for _ in range(times):
            await call()

    async def together(times: int) -> None:
        await asyncio.gather(*(calling(times) for _ in range(callers)))

    await together(1 + each // 10)
    gc.collect()
    # The median of several slices: another program's burst is in one or two of them.
    slices = min(_SLICES, each)
    done = callers * (each // slices)
    cpu, wall = [], []
    for _ in range(slices):
        began = time.process_time(), time.perf_counter()
        await together(each // slices)
        cpu.append((time.process_time() - began[0]) / done * 1e6)
        wall.append((time.perf_counter() - began[1]) / done * 1e6)
    return {f"{setting} cpu": median(cpu), f"{setting} wall": median(wall)}


if __name__ == "__main__":
    asyncio.run(_measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
