"""An exchange with any number of open requests; a few are published and changed while it is watched."""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Callable
from random import Random
from typing import Final

import anyio
import attrs
import httpx

from benchmarks.records import LOGIN, record

__all__ = ["CrowdedExchange", "Traffic"]

_DAYS: Final = 432_000.0
_LATENCY: Final = 0.05


@attrs.define
class Traffic:
    """Traffic on the wire since the last reset.

    Attributes:
        calls: Pages asked for.
        received: Bytes of them, of each in turn.
    """

    calls: int = 0
    received: list[int] = attrs.Factory(list)


class CrowdedExchange(httpx.AsyncBaseTransport):
    """Lists requests newest first, each by its last update within the window asked for.

    At its beginning as many are open as given, updated at even distances over the last five days. Each state of a
    request has a number of its own, which it carries as its quantity.

    Args:
        open_requests: How many.
        now: Seconds since its beginning.

    Attributes:
        busy: Seconds of the processor that it has taken: they are not its client's.
        began: When each state that came later began, by its number.
        last: The last such state of each request.
    """

    url = "http://127.0.0.1/api"

    def __init__(self, open_requests: int, now: Callable[[], float], seed: int = 0) -> None:
        self._now = now
        self._random = Random(seed)
        step = _DAYS / open_requests
        # By update, the oldest first: when, and which.
        self._times = [-_DAYS + step * (place + 0.5) for place in range(open_requests)]
        self._order = [*range(1, open_requests + 1)]
        self._quantities: dict[int, int] = {}
        self._rows: dict[int, str] = {}
        self._state = 1_000_000
        self._open = open_requests
        self.began: dict[int, float] = {}
        self.last: dict[int, int] = {}
        self.busy = 0.0
        self.traffic = Traffic()

    def deal(self) -> None:
        """Somebody publishes a request, or changes one that is open."""
        if self._random.random() < 0.6:
            self._open += 1
            index = self._open
        else:
            place = self._random.randrange(len(self._order))
            index = self._order.pop(place)
            self._times.pop(place)
        self._state += 1
        self._rows.pop(index, None)
        self._quantities[index] = self.last[index] = self._state
        self.began[self._state] = self._now()
        self._order.append(index)
        self._times.append(self._now())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await anyio.sleep(_LATENCY)
        began = time.process_time()
        if request.url.path.endswith("login"):
            body = json.dumps(LOGIN).encode()
        else:
            parameters = json.loads(await request.aread())
            body = self._page(
                parameters["offset"], min(parameters["rowsperpage"], 1000), parameters["secondsSinceUpdate"]
            )
            self.traffic.calls += 1
            self.traffic.received.append(len(body))
        self.busy += time.process_time() - began
        return httpx.Response(200, content=body, headers={"content-type": "application/json"})

    def _page(self, offset: int, rows: int, window: int) -> bytes:
        oldest = bisect_left(self._times, self._now() - window)
        end = max(oldest, len(self._order) - offset * rows)
        page = self._order[max(oldest, end - rows) : end]
        listed = (f'"{place}":{self._row(index)}' for place, index in enumerate(reversed(page)))
        return f'{{"raterequests":{{{",".join(listed)}}}}}'.encode()

    def _row(self, index: int) -> str:
        row = self._rows.get(index)
        if row is None:
            quantity = self._quantities.get(index, 10)
            row = self._rows[index] = json.dumps({**record(index), "qty": quantity}, separators=(",", ":"))
        return row
