"""Replica that is cut off from the exchange alone: it leaves deliveries to the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.unit.bot.rig import amounts_on, eventually, messages, strike
from tests.unit.bot.runtime.fleet.followers import claims, follower, waiting_store

from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time

COUNT = 12


@pytest.mark.both_backends
async def test_replica_that_is_cut_off_claims_nothing_until_a_call_succeeds(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    store, indexes = await waiting_store(sandbox, COUNT)
    store.has_peer = True
    is_open = anyio.Event()

    async def offer(request: Any, ctx: Any) -> None:
        await is_open.wait()
        await ctx.offer(amount=100, currency=840)

    async with follower(sandbox, store, offer, concurrency=2) as bot:
        await eventually(lambda: bot.status().in_flight == 2)
        strike(sandbox, "refused", path=None, times=None)
        is_open.set()
        await anyio.sleep(600)
        assert claims(store) <= 4
        assert sum("leaves deliveries to other replicas" in text for text in messages(caplog)) == 1
        sandbox.exchange.faults.clear()
        await eventually(lambda: all(amounts_on(sandbox, index) for index in indexes), within=timedelta(seconds=40))


async def test_replica_that_is_cut_off_goes_on_if_no_other_one_lives(sandbox: Sandbox) -> None:
    (store, _), looks = await waiting_store(sandbox, COUNT), list[int]()

    async def look(request: Any, ctx: Any) -> None:
        looks.append(request.index)
        strike(sandbox, "refused", path=None, times=None)
        await ctx.exchange.requests.get(request.index)

    async with follower(sandbox, store, look, concurrency=2):
        await anyio.sleep(600)
        assert len(looks) >= 3 * COUNT
