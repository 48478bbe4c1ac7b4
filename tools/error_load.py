"""Print how long the largest replies block the event loop: error replies, and a page of broken records.

Run: `python -m tools.error_load`. It measures only the client's own work, without a network.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import httpx

from freight_exchange import FreightExchange, FreightExchangeError
from freight_exchange.options import RetryPolicy

__all__: list[str] = []

Call = Callable[[FreightExchange], Awaitable[None]]

_SIZE: Final = 9_900_000
_TIMES: Final = 3
_LOGIN: Final = {"user": {"access_token": f"head.{'t' * 900}.tail", "expires_on": 3600}}
_BODIES: Final[Mapping[str, bytes]] = {
    "text": b"<p>no such token</p> " * (_SIZE // 21),
    "one JSON string": b'{"message":"%s"}' % (b"x " * (_SIZE // 2)),
    "a JSON list of strings": b'{"message":"no","all":[%s"x"]}' % (b'"abc",' * (_SIZE // 6)),
    "a JSON object of many keys": b"{%s}" % b",".join(b'"k%06d":"v"' % number for number in range(_SIZE // 14)),
    "nothing but brackets": b"[" * _SIZE,
    "bytes of no charset": b"\xff" * _SIZE,
}
_MANY: Final = range(100_000)
_FIELDS: Final = ("weight", "qty", "height", "width", "length", "notes", "origin", "index")
_PAGES: Final[Mapping[str, list[object]]] = {
    "records broken alike": [{"index": n, "weight": {}, "notes": "n" * 20} for n in _MANY],
    "records broken in many ways": [{"index": n, _FIELDS[n % 8]: [n], "status": "Available"} for n in _MANY],
    "records without an index": [{"weight": n} for n in _MANY],
    "rows that are not records": ["a row" for _ in _MANY],
}


async def _pause(call: Call, status: int, content: bytes) -> tuple[float, int]:
    """Measure a call with this reply: the milliseconds that it blocked the loop, and the characters in the error."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/login"):
            return httpx.Response(200, json=_LOGIN)
        return httpx.Response(status, content=content)

    longest, kept = 0.0, 0

    async def watch() -> None:
        nonlocal longest
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    async with (
        client,
        FreightExchange(
            "http://127.0.0.1/api",
            email="me@co.example",
            password='p"é/1',
            http_client=client,
            retries=RetryPolicy(attempts=1),
        ) as exchange,
    ):
        await exchange.login()
        watcher = asyncio.create_task(watch())
        await asyncio.sleep(0)
        try:
            await call(exchange)
        except FreightExchangeError as error:
            kept = len(repr(error.body))
        await asyncio.sleep(0)
        watcher.cancel()
    return 1000 * longest, kept


async def _ask(exchange: FreightExchange) -> None:
    await exchange.request("GET", "carrier")


async def _list(exchange: FreightExchange) -> None:
    await exchange.requests.search()


async def _show(name: str, call: Call, content: bytes, *statuses: int) -> None:
    pauses, kept = [], 0
    for status in statuses:
        # The minimum, as other work of the machine can only add time.
        measured = [await _pause(call, status, content) for _ in range(_TIMES)]
        pauses.append(f"{status}: {min(pause for pause, _ in measured):6.1f} ms")
        kept = max(kept, *(characters for _, characters in measured))
    print(f"{len(content) / 1e6:.1f} MB of {name:28}{'  '.join(pauses)}  kept: {kept:,} characters")


async def _main() -> None:
    for name, content in _BODIES.items():
        await _show(name, _ask, content, 400, 401, 404, 500)
    for name, rows in _PAGES.items():
        await _show(name, _list, json.dumps({"raterequests": rows}).encode(), 200)


if __name__ == "__main__":
    asyncio.run(_main())
