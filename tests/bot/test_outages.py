"""Tests of outages of the service, which make no dead letters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.bot.rig import HOUR, SELDOM, Calls, new_bot

from freight_exchange.store import Store
from freight_exchange.testing import FAULTS, Sandbox

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("interval", [30, 300])
async def test_outage_of_service_kills_no_delivery(store: Store, interval: int) -> None:
    """This holds for any interval between scans."""
    sandbox, calls = Sandbox(), list[int]()
    bot = new_bot(store, interval=timedelta(seconds=interval))

    @bot.on_new
    async def asks(request: Any, ctx: Any) -> None:
        calls.append(ctx.attempt)
        if len(calls) == 1:
            sandbox.strike(*FAULTS["unavailable_forever"]())
        await ctx.exchange.requests.get(request.index)

    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await anyio.sleep(HOUR / 2)
        assert trial.status.dead == 0
        sandbox.exchange.faults.clear()
        await trial.idle()
        assert trial.status.handled == 1
    # More often than it would be called for a failure of its own.
    assert len(calls) > 9


@pytest.mark.parametrize("fault", ["unavailable_forever", "throttled_huge", "refused"])
async def test_outage_of_operation_kills_no_delivery(store: Store, fault: str) -> None:
    """Requests are listed, but the operation that the handler calls fails."""
    sandbox, times = Sandbox(), list[float]()
    bot = new_bot(store, interval=SELDOM)

    @bot.on_new
    async def asks(request: Any, ctx: Any) -> None:
        times.append(anyio.current_time())
        await ctx.exchange.currencies.list()

    sandbox.strike(*FAULTS[fault](path="currency", times=None))
    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await anyio.sleep(50 * 60)
        assert (trial.status.dead, trial.status.handled) == (0, 0)
        sandbox.exchange.faults.clear()
        await anyio.sleep(HOUR)
        assert trial.status.handled == 1
    assert len(times) < 60, "it is not asked more and more"


async def test_permanent_failure_of_service_is_dead_in_the_end(store: Store) -> None:
    """One request may fail at the service while all others succeed."""
    sandbox, calls = Sandbox(), Calls()
    bot = new_bot(store, interval=SELDOM)

    @bot.on_new
    async def asks(request: Any, ctx: Any) -> None:
        calls.note("asks", ctx, request.index)
        await ctx.exchange.currencies.list()

    sandbox.strike(*FAULTS["unavailable_forever"](path="currency"))
    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await anyio.sleep(HOUR)
        assert trial.status.dead == 0
        await anyio.sleep(HOUR)
        assert trial.status.dead == 1
