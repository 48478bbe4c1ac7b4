"""Tests of the pace during failures: never more requests than in health."""

from __future__ import annotations

from datetime import timedelta
from functools import cache

import anyio
import httpx
import pytest
from tests.unit.feed.rig import Rig, Service
from tools.watcher_failures import FAILURES, hourly, usual

from freight_exchange import FreightExchange
from freight_exchange.errors import BadRequestError, ServerError
from freight_exchange.store import Store

CASES = ["429", "429, Retry-After: 3600", "503", "refused", "token refused, login 503"]
EVERY_OTHER = ["503, every other request", "token refused, every other request"]

health = cache(usual)


def test_every_case_is_measured_by_the_tool() -> None:
    assert FAILURES.keys() >= {*CASES, *EVERY_OTHER}


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
async def test_feed_that_starts_before_its_service_pays_for_three_attempts_to_log_in() -> None:
    times: list[float] = []

    async def refuse(request: httpx.Request) -> httpx.Response:
        times.append(anyio.current_time())
        await request.extensions["trace"]("connection.connect_tcp.started", {})
        await request.extensions["trace"]("connection.connect_tcp.failed", {})
        raise httpx.ConnectError("refused", request=request)

    client = httpx.AsyncClient(transport=httpx.MockTransport(refuse), trust_env=False)
    exchange = FreightExchange("https://host/api", email="me@co.example", password="p", http_client=client)
    with anyio.move_on_after(3600):
        async with exchange, exchange.watch(interval=timedelta(seconds=30)):
            pass
    assert times[2] - times[0] < 1
    assert 90 <= times[3] - times[2] <= 135
    assert len(times) <= 120


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
