"""Cost of watching as more requests are open, beside the loops that people write.

Polls every 30 s, in virtual time: a state every 30 s, and 240 within 20 s in the middle. What each algorithm reports is
compared with what happened.

Run: `python -m benchmarks.watching ALGORITHM OPEN HOURS SEED` prints what that time gave.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

import anyio
import httpx

from benchmarks.crowd import CrowdedExchange, Traffic
from benchmarks.naive import everything_open, newest_of_the_last_hour, since_the_last_poll
from benchmarks.rounds import Figures, Metric, Scale, Table, alone, interleaved
from freight_exchange.platform.clock import Reading

__all__ = ["ALGORITHMS", "OPEN", "WATCH", "tables"]

OPEN: Final = (100, 1_000, 10_000, 100_000)
WATCH: Final = "`exchange.watch()`"
ALGORITHMS: Final = {
    "everything open, each time": "everything",
    "newest 100 of the last hour": "newest",
    "window since the last poll": "window",
    WATCH: "watch",
}

_INTERVAL: Final = 30.0
_HOUR: Final = 3600.0
_BURST: Final = 12
"""So many states a second, for 20 seconds."""

_QUIET: Final = 300.0
"""Seconds after the last state: what is not reported by then is missed."""

_METRICS: Final = (
    Metric("missed", "final states missed"),
    Metric("repeated", "reported twice"),
    Metric("calls", "requests an event", 2),
    Metric("bytes", "bytes an event"),
    Metric("quiet", "bytes of a usual poll"),
    Metric("cpu", "CPU ms a poll", 2),
    Metric("latency", "latency p50, s", 1),
    Metric("late", "p99, s", 1),
)


def tables(scale: Scale, note: Callable[[str], None]) -> list[Table]:
    """One table for each number of open requests."""
    # Virtual time gives the same each time, but for the processor's: other rounds have other seeds.
    hours, rounds = (0.5, min(2, scale.rounds)) if scale.share >= 1 else (0.3, 1)
    return [
        Table(
            name=f"watching {crowd}",
            title=f"{crowd:,} open requests",
            metrics=_METRICS,
            rows=interleaved(
                {title: _Seeded(name, crowd, _hours(name, crowd, hours)) for title, name in ALGORITHMS.items()},
                rounds,
                note,
            ),
        )
        for crowd in OPEN
    ]


def _hours(name: str, crowd: int, hours: float) -> float:
    # To read 50 MB every 30 seconds takes the better part of these, even in virtual time.
    return hours / 10 if name == "everything" and crowd > 10_000 else hours


class _Seeded:
    """Runs an algorithm with another seed in each round."""

    def __init__(self, name: str, crowd: int, hours: float) -> None:
        self._run = partial(alone, "watching", name, crowd, hours)
        self._seed = 0

    def __call__(self) -> Figures:
        self._seed += 1
        return self._run(self._seed)


class _Clocks:
    """Clocks of a machine in virtual time, which all advance together."""

    def __init__(self) -> None:
        self._began = anyio.current_time()

    def loop(self) -> float:
        """Return the seconds since the run began."""
        return anyio.current_time() - self._began

    def read(self) -> Reading:
        now = self.loop()
        return Reading(run="run", loop=now, boot_id="boot", boot=now, wall=1_900_000_000.0 + now)


async def _measure(name: str, crowd: int, hours: float, seed: int) -> Figures:
    from freight_exchange import FreightExchange, RetryPolicy

    clocks = _Clocks()
    service = CrowdedExchange(crowd, clocks.loop, seed)
    reported: dict[int, float] = {}
    events = 0

    def tell(row: Mapping[str, Any]) -> None:
        nonlocal events
        # Some clients report what was open before; it is not an event.
        if (state := int(row["qty"])) in service.began:
            events += 1
            reported.setdefault(state, clocks.loop())

    exchange = FreightExchange(
        service.url,
        email="me@co.example",
        password="p",
        http_client=httpx.AsyncClient(transport=service, trust_env=False),
        retries=RetryPolicy(attempts=1),
    )
    exchange._shared.clock = clocks
    async with exchange, anyio.create_task_group() as tasks:
        tasks.start_soon(_watch if name == "watch" else partial(_poll, name), exchange, tell)
        # The first scan of all that is open is not a usual poll.
        await anyio.sleep(_INTERVAL * 2 - 1)
        service.traffic = Traffic()
        began = time.process_time() - service.busy
        await _trade(service, hours)
        took = time.process_time() - service.busy - began
        tasks.cancel_scope.cancel()
    latencies = sorted(at - service.began[state] for state, at in reported.items())
    polls = (hours * _HOUR + _QUIET) / _INTERVAL
    return {
        "missed": sum(state not in reported for state in service.last.values()),
        "repeated": events - len(reported),
        "calls": service.traffic.calls / len(service.began),
        "bytes": sum(service.traffic.received) / len(service.began),
        "quiet": statistics.median(service.traffic.received) * max(1.0, round(service.traffic.calls / polls)),
        "cpu": took / polls * 1e3,
        "latency": statistics.median(latencies),
        "late": latencies[int(0.99 * len(latencies))],
    }


async def _trade(service: CrowdedExchange, hours: float) -> None:
    for second in range(int(hours * _HOUR)):
        if second % int(_INTERVAL) == 7:
            service.deal()
        if 0 <= second - hours * _HOUR / 2 < 20:
            for _ in range(_BURST):
                service.deal()
        await anyio.sleep(1.0)
    await anyio.sleep(_QUIET)


async def _poll(name: str, exchange: Any, tell: Callable[[Mapping[str, Any]], None]) -> None:
    async def ask(page: int, rows: int, window: int) -> Sequence[Mapping[str, Any]]:
        body = {"type": "all", "offset": page, "rowsperpage": rows, "secondsSinceUpdate": window}
        reply = await exchange.request("POST", "quote/getrequests", body=body, repeatable=True)
        return [*reply["raterequests"].values()]

    loops: Mapping[str, Any] = {
        "everything": everything_open,
        "newest": newest_of_the_last_hour,
        "window": partial(since_the_last_poll, overlap=60),
    }
    await loops[name](ask, tell, _INTERVAL)


async def _watch(exchange: Any, tell: Callable[[Mapping[str, Any]], None]) -> None:
    async with exchange.watch(interval=timedelta(seconds=_INTERVAL)) as feed:
        async for event in feed:
            tell({"qty": event.request.quantity})


if __name__ == "__main__":
    from freight_exchange.testing import virtual_time_options

    arguments = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    print(json.dumps(anyio.run(_measure, *arguments, backend_options=virtual_time_options("asyncio"))))
