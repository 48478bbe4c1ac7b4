"""Exchange that publishes at a steady pace forever, and keeps no records, so that only the client costs memory."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable

import httpx

__all__ = ["EndlessExchange"]

_RECORD = (
    '{"index":%d,"commodityname":"Electronics","refId":"FX%07d","requesttype":"Shipping","status":"Available",'
    '"origin":"Hong Kong","destination":"Los Angeles","needdate":"2030-01-15 00:00:00","notes":"10 cartons of'
    ' Electronics from Hong Kong to Los Angeles","qty":10,"packaging":"carton","measureUnit":"m","width":0.8,'
    '"height":0.5,"length":1.2,"massUnit":"kg","weight":40,"incoterm":"FOB","hazardous":0}'
)
_BID = (
    '{"bid":{"index":%d,"cargoname":"Electronics","refId":"FX%07d","status":"Available","offer":{"index":"%d",'
    '"offerAmount":%s,"currencyIndex":840,"status":"pending"}}}'
)


class EndlessExchange(httpx.AsyncBaseTransport):
    """Exchange that publishes request number k at the time k * `period`, and accepts offers, which it only counts.

    Args:
        period: Seconds from one publication to the next.
        now: Seconds since the first publication.

    Attributes:
        calls: Number of calls.
        offers: Number of offers.
        busy: CPU seconds of the exchange itself.
    """

    url = "http://127.0.0.1/api"

    def __init__(self, period: float, now: Callable[[], float]) -> None:
        self._period = period
        self._now = now
        self.calls = self.offers = 0
        self.busy = 0.0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        began = time.process_time()
        self.calls += 1
        sent = json.loads(await request.aread() or b"{}")
        match request.url.path.rpartition("/api/")[2]:
            case "login":
                body = b'{"user":{"access_token":"token","expires_on":1000000}}'
            case "quote/submitoffer":
                index, self.offers = sent["requestIndex"], self.offers + 1
                body = (_BID % (index, index, 5000 + index, sent["offer"])).encode()
            case "quote/bid":
                body = b'{"bids":{}}'
            case _:
                body = self._page(sent["offset"], min(sent["rowsperpage"], 1000), sent["secondsSinceUpdate"])
        self.busy += time.process_time() - began
        return httpx.Response(200, content=body, headers={"content-type": "application/json"})

    def _page(self, offset: int, rows: int, window: int) -> bytes:
        now = self._now()
        newest = int(now / self._period)
        oldest = max(0, math.ceil((now - window) / self._period) - 1)
        numbers = range(newest - offset * rows, max(oldest, newest - (offset + 1) * rows), -1)
        records = (f'"{place}":{_RECORD % (number, number)}' for place, number in enumerate(numbers))
        return f'{{"raterequests":{{{",".join(records)}}}}}'.encode()
