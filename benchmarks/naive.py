"""Common polling loops, with their windows, their end of a listing and their test for new requests."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import anyio

from freight_exchange import FreightExchangeError

__all__ = ["Ask", "Tell", "everything_open", "newest_of_the_last_hour", "since_the_last_poll"]

Row = Mapping[str, Any]
Ask = Callable[[int, int, int], Awaitable[Sequence[Row]]]
"""Function that returns the rows of a page, by its number, its rows, and the seconds to look back."""

Tell = Callable[[Row], None]

_ROWS: Final = 100
_LARGE: Final = 1000
_FIVE_DAYS: Final = 432_000
_REMEMBERED: Final = 1000


async def everything_open(ask: Ask, tell: Tell, interval: float) -> None:
    """Read every page of all listed requests each time, and compare the last state of each request."""
    last: dict[object, int] = {}
    while True:
        began = anyio.current_time()
        for page in range(1000):
            try:
                rows = await ask(page, _LARGE, _FIVE_DAYS)
            except FreightExchangeError:
                break
            for row in rows:
                state = hash(repr(row))
                if last.get(row["index"]) != state:
                    last[row["index"]] = state
                    tell(row)
            if len(rows) < _LARGE:
                break
        await anyio.sleep(max(0.0, began + interval - anyio.current_time()))


async def newest_of_the_last_hour(ask: Ask, tell: Tell, interval: float) -> None:
    """Read one page of the last hour, and compare it with a bounded set of known states."""
    seen: OrderedDict[str, None] = OrderedDict()
    while True:
        began = anyio.current_time()
        try:
            rows = await ask(0, _ROWS, 3600)
        except FreightExchangeError:
            rows = ()
        for row in rows:
            if repr(row) not in seen:
                seen[repr(row)] = None
                tell(row)
        while len(seen) > _REMEMBERED:
            seen.popitem(last=False)
        await anyio.sleep(began + interval - anyio.current_time())


async def since_the_last_poll(ask: Ask, tell: Tell, interval: float, overlap: float) -> None:
    """Read the pages of the time since the last poll, up to a short one."""
    last: dict[object, Row] = {}
    before = anyio.current_time() - interval
    while True:
        began = anyio.current_time()
        window, before = math.ceil(began - before + overlap), began
        rows: Sequence[Row] = ()
        for page in range(1000):
            try:
                rows = await ask(page, _ROWS, window)
            except FreightExchangeError:
                break
            for row in rows:
                if last.get(row["index"]) != row:
                    last[row["index"]] = row
                    tell(row)
            if len(rows) < _ROWS:
                break
        await anyio.sleep(began + interval - anyio.current_time())
