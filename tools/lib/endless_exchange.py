"""Exchange that publishes at a steady pace forever, and keeps no state, so that only the client costs memory."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable

import anyio
import httpx

__all__ = ["EndlessExchange"]

_URL = "http://127.0.0.1/api"
_RECORD = (
    '{"index":%d,"commodityname":"Electronics","refId":"FX%07d","requesttype":"Shipping","status":"Available",'
    '"origin":"Hong Kong","destination":"Los Angeles","needdate":"2030-01-15 00:00:00","notes":"10 cartons of'
    ' Electronics from Hong Kong to Los Angeles","qty":10,"packaging":"carton","measureUnit":"m","width":0.8,'
    '"height":0.5,"length":1.2,"massUnit":"kg","weight":40,"incoterm":"FOB","hazardous":0}'
)


class EndlessExchange(httpx.AsyncBaseTransport):
    """Exchange that publishes request number k at the time k * `period`, and never changes or withdraws one.

    Args:
        period: Seconds from one publication to the next; infinity is an exchange where nothing happens.
        now: Seconds since the first publication.
        latency: Seconds that each reply takes.
        most_rows: Maximum rows in a page that it gives.

    Attributes:
        calls: Number of requested pages.
        busy: CPU seconds of the exchange itself.
    """

    url = _URL

    def __init__(
        self, period: float, now: Callable[[], float], *, latency: float = 0.05, most_rows: int = 1000
    ) -> None:
        self._period = period
        self._now = now
        self._latency = latency
        self._most_rows = most_rows
        self.calls = 0
        self.busy = 0.0

    def published(self, at: float) -> int:
        """Return the number of requests until a time, which is the number of the last one."""
        return int(at / self._period)

    def listed(self, at: float, window: float) -> int:
        """Return how many requests were published within the window."""
        return self.published(at) - max(0, math.ceil((at - window) / self._period) - 1)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await anyio.sleep(self._latency)
        began = time.process_time()
        if request.url.path.endswith("login"):
            body = b'{"user":{"access_token":"token","expires_on":1000000000}}'
        else:
            self.calls += 1
            parameters = json.loads(await request.aread())
            body = self._page(parameters["offset"], parameters["rowsperpage"], parameters["secondsSinceUpdate"])
        self.busy += time.process_time() - began
        return httpx.Response(200, content=body, headers={"content-type": "application/json"})

    def _page(self, offset: int, rows: int, window: int) -> bytes:
        now = self._now()
        rows = min(rows, self._most_rows)
        newest, listed = self.published(now), self.listed(now, window)
        numbers = range(newest - offset * rows, max(newest - listed, newest - (offset + 1) * rows), -1)
        records = (f'"{place}":{_RECORD % (number, number)}' for place, number in enumerate(numbers))
        return f'{{"raterequests":{{{",".join(records)}}}}}'.encode()
