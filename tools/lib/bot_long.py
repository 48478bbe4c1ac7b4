"""A bot that runs for a month in virtual time: its memory, store, descriptors and tasks at the end of each day."""

from __future__ import annotations

import gc
import heapq
import math
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import attrs
from tools.bot_costs import BiddingExchange
from tools.lib.watcher_costs import Machine, Month, client, in_virtual_time, memory

from freight_exchange import Bot
from freight_exchange.store import SQLiteStore

__all__ = ["BotMonth", "LivelyExchange", "bot_month"]

Backend = Literal["asyncio", "trio"]
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_UPDATED: Final = (10, 2 * _HOUR)
_SELECTED: Final = (100, 6 * _HOUR)
"""Interval of the requests that are selected, and seconds from publication to selection."""
_RECORD: Final = (
    '{"index":%d,"commodityname":"Electronics","refId":"FX%07d","requesttype":"Shipping","status":"%s",'
    '"origin":"Hong Kong","destination":"Los Angeles","needdate":"2030-01-15 00:00:00","notes":"%s",'
    '"qty":10,"packaging":"carton","measureUnit":"m","width":0.8,"height":0.5,"length":1.2,"massUnit":"kg","weight":40,'
    '"incoterm":"FOB","hazardous":0}'
)
_STAGES: Final = (("Available", "as published"), ("Available", "as updated"), ("Selected", "as updated"))


class LivelyExchange(BiddingExchange):
    """Exchange that updates every tenth request after two hours, and selects every hundredth offer after six.

    Args:
        listed_for: Seconds for which a selected bid is listed.
    """

    def __init__(self, period: float, now: Callable[[], float], *, most: int, listed_for: float = 5 * _DAY) -> None:
        super().__init__(period, now, most=most, latency=0.05)
        self._listed_for = listed_for

    def selected(self, at: float) -> range:
        every, after = _SELECTED
        oldest = max(0, self.published(at - after - self._listed_for)) if at > after + self._listed_for else 0
        return range(self.selections(at) * every, oldest, -every)

    def selections(self, at: float) -> int:
        """Return the number of bids that were selected up to a time."""
        every, after = _SELECTED
        return self.published(at - after) // every if at > after else 0

    def _page(self, offset: int, rows: int, window: int) -> bytes:
        now = self._now()
        rows = min(rows, self._most_rows)
        changes = heapq.merge(*(self._changes(now, window, stage) for stage in range(3)), reverse=True)
        page = [*changes][offset * rows : (offset + 1) * rows]
        records = (
            f'"{place}":{_RECORD % (index, index, *_STAGES[stage])}' for place, (_, index, stage) in enumerate(page)
        )
        return f'{{"raterequests":{{{",".join(records)}}}}}'.encode()

    def _changes(self, now: float, window: float, stage: int) -> Iterator[tuple[float, int, int]]:
        """Return the requests that reached a stage within the window and are still in it, the last one first."""
        every, after = ((1, 0.0), _UPDATED, _SELECTED)[stage]
        newest = int((now - after) / self._period) // every * every if now >= after else 0
        oldest = max(0, math.ceil((now - after - window) / self._period) - 1)
        for index in range(newest, oldest, -every):
            published = index * self._period
            if not any(
                index % later == 0 and published + delay <= now for later, delay in (_UPDATED, _SELECTED)[stage:]
            ):
                yield published + after, index, stage


@attrs.frozen(kw_only=True)
class Day:
    """State at the end of a day.

    Attributes:
        resident: Bytes of the process's memory.
        file: Bytes of the store's file, its log included.
        rows: Number of rows of the store, by kind.
        objects: Number of objects of the garbage collector, after a collection.
        descriptors: Open files, where the system lists them.
        tasks: Tasks of the loop.
    """

    resident: int
    file: int
    rows: Mapping[str, int]
    objects: int
    descriptors: int
    tasks: int


@attrs.frozen(kw_only=True)
class BotMonth(Month):
    """Results of many days of a bot.

    Attributes:
        days: State at the end of each day.
        offers: Number of requests, by the number of their offers.
        handled: Number of deliveries, by the kind of their event.
        selections: Number of selected bids.
    """

    days: Sequence[Day]
    offers: Mapping[int, int]
    handled: Mapping[str, int]
    selections: int


def bot_month(
    days: int, period: float, path: Path, interval: float = 60.0, looks: float = 600.0, backend: Backend = "asyncio"
) -> BotMonth:
    """Run a bot for a number of days on a file, and offer on every request.

    Args:
        days: The number of days.
        period: Seconds from one publication to the next.
        path: The store's file.
        interval: Seconds from one scan to the next.
        looks: Seconds from one look for selected bids to the next.
        backend: On which the bot runs.
    """
    done: BotMonth = in_virtual_time(backend, _bot_month, days, period, path, interval, looks)
    return done


async def _bot_month(days: int, period: float, path: Path, interval: float, looks: float) -> BotMonth:
    began = time.perf_counter()
    machine = Machine(0.0)
    rest = 2 * interval + looks
    service = LivelyExchange(period, machine.now, most=int((days * _DAY + rest) / period) + 2)
    handled: Counter[str] = Counter()
    store = SQLiteStore(path, inline=True)
    bot = _bot(store, interval, looks, handled)
    ends: list[Day] = []
    published = selections = 0
    async with client(service, machine) as exchange, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bot.serve, exchange=exchange))
        for day in range(1, days + 1):
            await anyio.sleep(day * _DAY - machine.now())
            ends.append(_day(path))
        # The last to come are few: what was published shortly before the end is offered on as well.
        await anyio.sleep(rest)
        published = service.published(machine.now() - interval - period)
        bot.stop()
        selections = service.selections(machine.now() - looks)
    store.close()
    last = ends[-1]
    return BotMonth(
        resident=[day.resident for day in ends],
        file=[day.file for day in ends],
        events=sum(handled.values()),
        live=last.rows["seen live"],
        tombstones=last.rows["seen tombstone"],
        kept_events=sum(count for name, count in last.rows.items() if name.startswith("event")),
        seconds=time.perf_counter() - began,
        days=ends,
        offers=Counter(service.offers[1 : published + 1]),
        handled=handled,
        selections=selections,
    )


def _bot(store: SQLiteStore, interval: float, looks: float, handled: Counter[str]) -> Bot:
    bot = Bot(store=store, interval=timedelta(seconds=interval), selection_interval=timedelta(seconds=looks))

    @bot.on_new
    @bot.on_updated
    async def quote(request: Any, ctx: Any) -> None:
        handled[ctx.event.kind] += 1
        await ctx.offer(amount="1840.50", currency=840)

    @bot.on_selected
    async def won(bid: Any, ctx: Any) -> None:
        assert bid.contact is not None
        handled[ctx.event.kind] += 1

    return bot


def _day(path: Path) -> Day:
    resident = memory("VmRSS")
    gc.collect()
    return Day(
        resident=resident,
        file=sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*")),
        rows=_rows(path),
        objects=len(gc.get_objects()),
        descriptors=_descriptors(),
        tasks=len(anyio.get_running_tasks()),
    )


_KINDS: Final = (
    ("event", "CASE WHEN owed THEN 'owed' WHEN acknowledged THEN 'done' ELSE 'pending' END"),
    ("delivery", "state"),
    ("effect", "substr(key, 1, instr(key || ':', ':') - 1)"),
    ("seen", "CASE WHEN record IS NULL THEN 'tombstone' ELSE 'live' END"),
)


def _rows(path: Path) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    with closing(sqlite3.connect(path)) as reader:
        for table, kind in _KINDS:
            for name, count in reader.execute(f"SELECT {kind}, count(*) FROM {table} GROUP BY 1"):
                found[f"{table} {name}"] = count
    return found


def _descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len([*folder.iterdir()]) if folder.exists() else 0
