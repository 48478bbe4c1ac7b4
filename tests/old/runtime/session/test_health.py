"""Tests of liveness: a bot without replies is not live after three intervals, and recovers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.old.rig import amounts_on, eventually, new_bot, offering_bot, run_until_idle, strike
from tests.old.runtime.liveness import port, recovers, state, turns_bad

from freight_exchange.errors import NotFoundError
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Profile, Sandbox

pytestmark = pytest.mark.virtual_time
DEAF = ["stall", "html_200", "garbage_status", "refused", "unavailable_forever", "unauthorized_forever", "half_json"]
DAY = timedelta(days=1)


@pytest.mark.parametrize("fault", DEAF)
async def test_feed_without_replies_is_not_live_and_recovers(sandbox: Sandbox, fault: str) -> None:
    async with sandbox.running(offering_bot(MemoryStore())) as trial:
        await trial.idle()
        assert port(trial, "/livez") == port(trial, "/readyz") == 200
        sandbox.strike(*FAULTS[fault](times=None))
        await turns_bad(trial, sooner=fault == "unauthorized_forever")
        index = sandbox.publish()
        await anyio.sleep(3600)
        assert port(trial, "/livez") == 503
        sandbox.exchange.faults.clear()
        await recovers(trial)
        await eventually(lambda: amounts_on(sandbox, index))
        await trial.idle()
    assert len(amounts_on(sandbox, index)) == 1


@pytest.mark.parametrize("fault", ["stall", "refused", "unavailable_forever", "login_hung", "login_message_500"])
async def test_bot_without_first_scan_is_not_live(sandbox: Sandbox, fault: str) -> None:
    sandbox.strike(*FAULTS[fault](times=None))
    async with sandbox.running(offering_bot(MemoryStore())) as trial:
        await anyio.sleep(1)
        assert (port(trial, "/livez"), port(trial, "/readyz")) == (200, 503)
        await turns_bad(trial)
        assert state(trial) == "starting"
        await anyio.sleep(600)
        assert port(trial, "/livez") == 503
        sandbox.exchange.faults.clear()
        await recovers(trial)
        index = sandbox.publish()
        await eventually(lambda: amounts_on(sandbox, index))


async def test_wrong_address_is_raised(sandbox: Sandbox) -> None:
    strike(sandbox, "not_found_page", path=None, times=None)
    with pytest.raises(NotFoundError):
        await offering_bot(MemoryStore()).serve(exchange=sandbox.client())


async def test_hanging_handlers_stay_live(sandbox: Sandbox) -> None:
    # Live is that the service replies, and not that handlers are quick: those have their own bound.
    bot = new_bot(MemoryStore(), concurrency=1, drain=timedelta(0))

    @bot.on_new(timeout=3600)
    async def hang(request: Any, ctx: Any) -> None:
        await anyio.sleep_forever()

    sandbox.publish()
    async with sandbox.running(bot) as trial:
        for _ in range(20):
            await anyio.sleep(60)
            assert port(trial, "/livez") == 200 or state(trial) == "starting"
        assert trial.status.in_flight == 1


async def test_short_tokens_stay_live() -> None:
    sandbox = Sandbox(Profile(token_lifetime=5))
    async with sandbox.running(offering_bot(MemoryStore())) as trial:
        index = sandbox.publish()
        await trial.idle()
        for _ in range(30):
            await anyio.sleep(13)
            assert port(trial, "/livez") == 200
    assert len(amounts_on(sandbox, index)) == 1


async def test_restart_after_days_is_live(sandbox: Sandbox) -> None:
    store = MemoryStore()
    await run_until_idle(sandbox, offering_bot(store))
    await anyio.sleep(2 * DAY.total_seconds())
    async with sandbox.running(offering_bot(store)) as trial:
        await anyio.sleep(0.01)
        assert port(trial, "/livez") == 200
        await trial.idle()
        assert port(trial, "/readyz") == 200


async def test_slow_lifespan_is_a_start(sandbox: Sandbox) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        await anyio.sleep(20)
        yield

    bot = offering_bot(MemoryStore(), lifespan=lifespan)
    for _ in range(2):
        async with sandbox.running(bot) as trial:
            await anyio.sleep(10)
            assert state(trial) == "starting"
            assert (port(trial, "/livez"), port(trial, "/readyz")) == (200, 503)
            await trial.idle()
            assert port(trial, "/readyz") == 200
        assert state(trial) == "stopped"
        assert port(trial, "/livez") == 503


async def test_hanging_lifespan_is_not_live(sandbox: Sandbox) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        await anyio.sleep(600)
        yield

    async with sandbox.running(offering_bot(MemoryStore(), lifespan=lifespan)) as trial:
        await anyio.sleep(1)
        await turns_bad(trial)
        assert state(trial) == "starting"
