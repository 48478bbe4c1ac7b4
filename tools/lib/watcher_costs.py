"""Costs of a watcher over days of virtual time: polls, memory, and starts among very many requests."""

from __future__ import annotations

import math
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import attrs
import httpx
from tools.lib.endless_exchange import EndlessExchange

from freight_exchange import FreightExchange, RequestEvent
from freight_exchange.feed.events import Event
from freight_exchange.hooks import Hook, Scan
from freight_exchange.platform.clock import Reading
from freight_exchange.store import MemoryStore, SQLiteStore, Store
from freight_exchange.testing import virtual_time_options

__all__ = ["Idle", "Machine", "Month", "Start", "client", "idle", "in_virtual_time", "memory", "month", "start"]

Backend = Literal["asyncio", "trio"]
_INTERVAL: Final = timedelta(seconds=30)
_HOUR, _DAY = 3600.0, 86_400.0
_WINDOW: Final = 5 * _DAY


class Machine:
    """Clocks of a machine that started at a given time, and was not restarted since."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._loop: float | None = None

    def now(self) -> float:
        if self._loop is None:
            self._loop = anyio.current_time()
        return self._began + anyio.current_time() - self._loop

    def read(self) -> Reading:
        now = self.now()
        return Reading(run=f"run {self._began}", loop=now, boot_id="boot", boot=now, wall=1.9e9 + now)


def client(service: EndlessExchange, machine: Machine, *hooks: Hook) -> FreightExchange:
    client = httpx.AsyncClient(transport=service, trust_env=False)
    exchange = FreightExchange(service.url, email="me@co.example", password="p", http_client=client, hooks=hooks)
    exchange._shared.clock = machine
    return exchange


def in_virtual_time(backend: Backend, what: Callable[..., Any], *arguments: Any) -> Any:
    return anyio.run(what, *arguments, backend=backend, backend_options=virtual_time_options(backend))


def memory(what: Literal["VmRSS", "VmHWM"]) -> int:
    """Return the resident memory of this process in bytes, now or at its peak; 0 if the system does not report it."""
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


# Polls


@attrs.frozen(kw_only=True)
class Idle:
    """Requests that an idle watcher makes.

    Attributes:
        scans: Number of scans, by the depth of the window.
        calls: Number of requests of these scans.
    """

    hours: float
    scans: Counter[str]
    calls: int

    @property
    def extra(self) -> float:
        """Return the requests beyond one per scan."""
        return self.calls / self.scans.total() - 1


def idle(hours: float, period: float, backend: Backend = "asyncio") -> Idle:
    """Watch for a given time, while a request is published every `period` seconds."""
    done: Idle = in_virtual_time(backend, _idle, hours, period)
    return done


async def _idle(hours: float, period: float) -> Idle:
    machine = Machine(6 * _DAY)
    service = EndlessExchange(period, machine.now)
    scans: Counter[str] = Counter()

    def count(event: object) -> None:
        if isinstance(event, Scan):
            scans[event.tier] += 1

    async with (
        client(service, machine, count) as exchange,
        exchange.watch(store=MemoryStore(), interval=_INTERVAL) as feed,
    ):
        primed = service.calls
        scans.clear()
        with anyio.move_on_after(hours * _HOUR):
            async for event in feed:
                assert isinstance(event, RequestEvent), event
    return Idle(hours=hours, scans=scans, calls=service.calls - primed)


# A month


@attrs.frozen(kw_only=True)
class Month:
    """Results of many days.

    Attributes:
        resident: Bytes of the process's memory at the end of each day.
        file: Bytes of the store's file, its log included, at the end of each day.
        events: Number of delivered events.
        live, tombstones, kept_events: Number of rows in the store at the end.
        seconds: Wall time of the measurement.
    """

    resident: Sequence[int]
    file: Sequence[int]
    events: int
    live: int
    tombstones: int
    kept_events: int
    seconds: float

    def slope(self, series: Sequence[int], since: int) -> tuple[float, float]:
        """Return the bytes a day from that day, by least squares, and their standard error."""
        points = [(float(day), value) for day, value in enumerate(series, 1) if day >= since]
        middle = sum(day for day, _ in points) / len(points)
        spread = sum((day - middle) ** 2 for day, _ in points)
        level = sum(value for _, value in points) / len(points)
        slope = sum((day - middle) * value for day, value in points) / spread
        error = sum((value - level - slope * (day - middle)) ** 2 for day, value in points)
        return slope, math.sqrt(error / max(1, len(points) - 2) / spread)


def month(days: int, period: float, path: Path, interval: timedelta = _INTERVAL, backend: Backend = "asyncio") -> Month:
    """Watch for a number of days on a file; pulling the next event acknowledges each one."""
    done: Month = in_virtual_time(backend, _month, days, period, path, interval)
    return done


async def _month(days: int, period: float, path: Path, interval: timedelta) -> Month:
    began = time.perf_counter()
    machine = Machine(0.0)
    service = EndlessExchange(period, machine.now)
    resident: list[int] = []
    file: list[int] = []
    events = 0
    store = SQLiteStore(path, inline=True)
    async with client(service, machine) as exchange, exchange.watch(store=store, interval=interval) as feed:
        for day in range(1, days + 1):
            with anyio.move_on_after(day * _DAY - machine.now()):
                async for _ in feed:
                    events += 1
            resident.append(memory("VmRSS"))
            file.append(sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*")))
    store.close()
    with sqlite3.connect(path) as reader:
        (live,) = reader.execute("SELECT count(*) FROM seen WHERE record IS NOT NULL").fetchone()
        (tombstones,) = reader.execute("SELECT count(*) FROM seen WHERE record IS NULL").fetchone()
        (kept,) = reader.execute("SELECT count(*) FROM event").fetchone()
    reader.close()
    return Month(
        resident=resident,
        file=file,
        events=events,
        live=live,
        tombstones=tombstones,
        kept_events=kept,
        seconds=time.perf_counter() - began,
    )


# Very many requests


@attrs.frozen(kw_only=True)
class Start:
    """Cost of a start until every open request was delivered.

    Attributes:
        events: By kind.
        first, last, total: The lowest and the highest index, and the sum of all.
        calls: Pages asked for.
        seconds: Of the processor, without what the exchange itself took.
        before, peak: Bytes of the process's memory.
    """

    open: int
    events: Counter[str]
    first: int
    last: int
    total: int
    calls: int
    seconds: float
    before: int
    peak: int

    @property
    def whole(self) -> bool:
        """Return whether every request between the first and the last came exactly once."""
        count = self.last - self.first + 1
        return self.events["new"] == count and self.total == count * (self.first + self.last) // 2


def start(path: Path, day: float, requests: int, latency: float, backend: Backend = "asyncio") -> Start:
    """Start among many requests of the last five days, and stop when all of them were delivered."""
    done: Start = in_virtual_time(backend, _start, path, day, requests, latency)
    return done


async def _start(path: Path, day: float, requests: int, latency: float) -> Start:
    machine = Machine(day * _DAY)
    service = EndlessExchange(_WINDOW / requests, machine.now, latency=latency)
    opened = service.listed(machine.now(), _WINDOW)
    events: Counter[str] = Counter()
    first, last, total = 10**12, 0, 0
    store: Store = SQLiteStore(path, inline=True)
    complete = False

    def note(event: object) -> None:
        nonlocal complete
        complete = complete or (isinstance(event, Scan) and event.complete)

    before, began = memory("VmRSS"), time.process_time()
    async with (
        client(service, machine, note) as exchange,
        exchange.watch(store=store, start="backfill", interval=_INTERVAL) as feed,
    ):
        batches = feed.batches()
        batch: tuple[Event, ...] = ()
        # The first complete scan has written down all that was there.
        while not complete or feed.status().unacknowledged > len(batch):
            batch = await anext(batches)
            events.update(event.kind for event in batch)
            numbers = [event.request.index for event in batch if isinstance(event, RequestEvent)]
            first, last = min((first, *numbers)), max((last, *numbers))
            total += sum(numbers)
        await feed.ack()
        calls, seconds = service.calls, time.process_time() - began - service.busy
    store.close()
    peak = memory("VmHWM")
    return Start(
        open=opened,
        events=events,
        first=first,
        last=last,
        total=total,
        calls=calls,
        seconds=seconds,
        before=before,
        peak=peak,
    )
