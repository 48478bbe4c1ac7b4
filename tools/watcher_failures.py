"""Measure the requests of a watcher per hour, with and without failures of the service, in virtual time.

`python tools/watcher_failures.py` prints a table for a feed and one for a bot with a handler of selections: one row for
each failure, one column for each interval. Exits with 1 if a failure causes more requests.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any, Final

# Only the script's own folder is on the path; the imports below also need the root of the tree and its sources.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import anyio
import attrs
import httpx

from freight_exchange import Bot, FreightExchange, LoginRejectedError
from freight_exchange.platform.clock import Reading
from freight_exchange.store import MemoryStore
from freight_exchange.testing import virtual_time_options

__all__ = ["FAILURES", "INTERVALS", "hourly", "main", "usual"]

INTERVALS: Final = (10, 30, 300, 600)
_WARM_UP: Final = 1800.0
_HOUR: Final = 3600.0
_HEALTHY_HOURS: Final = 4


class _Clocks:
    def read(self) -> Reading:
        now = anyio.current_time()
        return Reading(run="run", loop=now, boot_id="boot", boot=now, wall=1.9e9 + now)


def _refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


async def _hang(request: httpx.Request) -> httpx.Response:
    await anyio.sleep(30)
    raise httpx.ReadTimeout("timed out", request=request)


def _fail_every_other() -> Answer:
    turns = cycle((httpx.Response(503, json={"message": "down"}), None))
    return lambda _: next(turns)


def _refuse_every_other() -> Answer:
    """Refuse a token at its second request, as a service with one session per account does to two processes."""
    turns = cycle((httpx.Response(401, json={"Unauthorized": "denied"}), None))
    return lambda request: None if "login" in request.url.path else next(turns)


Answer = Callable[[httpx.Request], Any]

FAILURES: Final[dict[str, Answer | None]] = {
    "health": None,
    "429": lambda _: httpx.Response(429, json={"message": "slowly"}),
    "429, Retry-After: 3600": lambda _: httpx.Response(429, headers={"retry-after": "3600"}, json={}),
    "503": lambda _: httpx.Response(503, json={"message": "down"}),
    "503, every other request": _fail_every_other(),
    "503, Retry-After: 120": lambda _: httpx.Response(503, headers={"retry-after": "120"}, json={}),
    "refused": _refuse,
    "timeouts": _hang,
    "token refused, login 503": lambda request: httpx.Response(503 if "login" in request.url.path else 401, json={}),
    "token refused, login accepted": lambda request: (
        _login(request) if "login" in request.url.path else httpx.Response(401, json={"Unauthorized": "denied"})
    ),
    "token refused, every other request": _refuse_every_other(),
    "token refused, login rejected": lambda _: httpx.Response(401, json={"message": "invalid password"}),
}
"""Answers of the service by name; `None` is its usual answer."""


def _login(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={"user": {"access_token": "a-token", "expires_on": 86_400}})


@attrs.define
class _Service:
    """Service with ten requests, which works until the failure begins, and counts all requests that arrive."""

    failure: Answer | None = None
    began: float = math.inf
    times: list[float] = attrs.field(factory=list)

    async def answer(self, request: httpx.Request) -> httpx.Response:
        now = anyio.current_time()
        self.times.append(now)
        if self.failure is not None and now >= self.began:
            answer = self.failure(request)
            if answer is not None:
                return answer if isinstance(answer, httpx.Response) else await answer
        path = request.url.path
        if path.endswith("login"):
            return _login(request)
        if path.endswith("bid"):
            return httpx.Response(200, json={"bids": {}})
        body = json.loads(request.content or b"{}")
        listed = range(1, 11) if body.get("secondsSinceUpdate", 0) > _DAY and not body.get("offset") else ()
        return httpx.Response(200, json={"raterequests": {str(at): {"index": row} for at, row in enumerate(listed)}})


_DAY: Final = 86_400


def usual(interval: float, *, bot: bool) -> int:
    """Return the mean requests of an hour of health. Jitter may add or remove one in a single hour."""
    return math.ceil(hourly("health", interval, bot=bot, hours=_HEALTHY_HOURS) / _HEALTHY_HOURS)


def hourly(failure: str, interval: float, *, bot: bool, hours: int = 1) -> int:
    """Return the requests in the hours after the failure began, or in as many hours of health."""
    service = _Service(FAILURES[failure])

    async def run() -> None:
        client = httpx.AsyncClient(transport=httpx.MockTransport(service.answer), trust_env=False)
        exchange = FreightExchange("https://host/api", email="me@co.example", password="p", http_client=client)
        exchange._shared.clock = _Clocks()
        service.began = anyio.current_time() + _WARM_UP
        try:
            with anyio.move_on_after(_WARM_UP + hours * _HOUR):
                await (_bot if bot else _feed)(exchange, timedelta(seconds=interval))
        except* LoginRejectedError:
            pass

    logging.disable(logging.CRITICAL)
    try:
        anyio.run(run, backend_options=virtual_time_options("asyncio"))
    finally:
        logging.disable(logging.NOTSET)
    return sum(service.began <= time < service.began + hours * _HOUR for time in service.times)


async def _feed(exchange: FreightExchange, interval: timedelta) -> None:
    async with exchange, exchange.watch(interval=interval) as feed:
        async for _ in feed:
            pass


async def _bot(exchange: FreightExchange, interval: timedelta) -> None:
    bot = Bot(store=MemoryStore(), interval=interval)

    @bot.on_new
    async def new(event: Any, context: Any) -> None:
        """Do nothing."""

    @bot.on_selected
    async def selected(event: Any, context: Any) -> None:
        """Do nothing."""

    await bot.serve(exchange=exchange)


def main(intervals: Sequence[float] = INTERVALS) -> int:
    """Print the table; return 1 if any count exceeds the one of health."""
    louder = 0
    for who in (False, True):
        print(f"\n| {'A bot' if who else 'A feed'}: requests an hour |", *(f" {each:g} s |" for each in intervals))
        print("|---|" + "---|" * len(intervals))
        health = [usual(each, bot=who) for each in intervals]
        for failure, answer in FAILURES.items():
            found = [hourly(failure, each, bot=who) for each in intervals] if answer else health
            louder += sum(one > most for one, most in zip(found, health, strict=True))
            print(f"| {failure} |", *(f"{one} |" for one in found), flush=True)
    return int(louder > 0)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    sys.exit(main())
