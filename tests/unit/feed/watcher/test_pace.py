"""Tests of the pace during failures: never more requests than in health."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from itertools import cycle
from typing import Any, Final

import anyio
import attrs
import httpx
import pytest
from tests.unit.feed.rig import Rig, Service

from freight_exchange import Bot, FreightExchange
from freight_exchange.errors import BadRequestError, ServerError
from freight_exchange.platform.clock import Reading
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import virtual_time_options

Answer = Callable[[httpx.Request], Any]

_WARM_UP: Final = 1800.0
_HOUR: Final = 3600.0
_HEALTHY_HOURS: Final = 4


class _Clocks:
    def read(self) -> Reading:
        now = anyio.current_time()
        return Reading(run="run", loop=now, boot_id="boot", boot=now, wall=1.9e9 + now)


def _refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


def _fail_every_other() -> Answer:
    turns = cycle((httpx.Response(503, json={"message": "down"}), None))
    return lambda _: next(turns)


def _refuse_every_other() -> Answer:
    """Refuse a token at its second request, as a service with one session per account does to two processes."""
    turns = cycle((httpx.Response(401, json={"Unauthorized": "denied"}), None))
    return lambda request: None if "login" in request.url.path else next(turns)


FAILURES: Final[dict[str, Answer | None]] = {
    "health": None,
    "429": lambda _: httpx.Response(429, json={"message": "slowly"}),
    "429, Retry-After: 3600": lambda _: httpx.Response(429, headers={"retry-after": "3600"}, json={}),
    "503": lambda _: httpx.Response(503, json={"message": "down"}),
    "503, every other request": _fail_every_other(),
    "refused": _refuse,
    "token refused, login 503": lambda request: httpx.Response(503 if "login" in request.url.path else 401, json={}),
    "token refused, every other request": _refuse_every_other(),
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
        with anyio.move_on_after(_WARM_UP + hours * _HOUR):
            await (_bot if bot else _feed)(exchange, timedelta(seconds=interval))

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


CASES = [name for name in FAILURES if name != "health" and "every other" not in name]
EVERY_OTHER = ["503, every other request", "token refused, every other request"]

health = cache(usual)


@pytest.mark.parametrize("bot", [False, True])
@pytest.mark.parametrize("failure", CASES)
def test_watcher_during_failures_sends_no_more_than_in_health(failure: str, *, bot: bool) -> None:
    assert hourly(failure, 300, bot=bot) <= health(300, bot=bot)


@pytest.mark.parametrize("failure", EVERY_OTHER)
def test_bot_counts_the_retries_of_a_poll_for_selected_bids(failure: str) -> None:
    assert hourly(failure, 300, bot=True) <= health(300, bot=True)


def test_retry_after_is_asked_again_only_when_it_has_passed() -> None:
    assert hourly("429, Retry-After: 3600", 30, bot=False) == 1


@pytest.mark.parametrize("failure", EVERY_OTHER)
def test_feed_whose_requests_fail_every_other_time_sends_no_more_than_in_health(failure: str) -> None:
    """The count is over hours, since the start of an hour may make a difference of a request."""
    assert sum(hourly(failure, 30, bot=False) for _ in range(3)) <= 3 * 120


@pytest.mark.virtual_time
async def test_refusals_during_failures_are_not_repeated_at_once_for_smaller_pages(store: Store) -> None:
    rig = Rig(service := Service(), store=store, interval=600.0)
    await rig.prime()
    service.faults[:] = [ServerError("down", status=503)] * 2 + [BadRequestError("no", status=400)] * 2
    await rig.scan()
    service.pages.clear()
    for scans in (1, 2):
        await rig.scan()
        assert len(service.pages) == scans
