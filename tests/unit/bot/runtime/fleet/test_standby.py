"""Standby: a bot that waits for the store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.unit.bot.rig import Shared, amounts_on, eventually, offering_bot, strike
from tests.unit.bot.runtime.liveness import THREE, port, recovers, state, turns_bad

from freight_exchange.feed.lease import Lease
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Sandbox

pytestmark = pytest.mark.virtual_time


async def test_is_live_and_not_ready(sandbox: Sandbox) -> None:
    """A supervisor must not restart it."""
    store, index = Shared(), sandbox.publish()
    async with sandbox.running(offering_bot(store, standby=True)) as trial:
        await eventually(lambda: state(trial) == "standby", within=timedelta(seconds=1))
        for _ in range(60):
            await anyio.sleep(60)
            assert (port(trial, "/livez"), port(trial, "/readyz"), state(trial)) == (200, 503, "standby")
            assert (trial.status.age < timedelta(seconds=1), trial.status.feed) == (True, None)
        store.is_held = False
        await trial.idle()
        assert (port(trial, "/readyz"), state(trial)) == (200, "running")
    assert len(amounts_on(sandbox, index)) == 1


@pytest.mark.parametrize("fault", ["stall", "unavailable_forever"])
async def test_has_three_intervals_after_takeover(sandbox: Sandbox, fault: str) -> None:
    store = Shared()
    sandbox.strike(*FAULTS[fault](times=None))
    async with sandbox.running(offering_bot(store, standby=True)) as trial:
        await anyio.sleep(3600)
        store.is_held = False
        await anyio.sleep(THREE - 5)
        assert (port(trial, "/livez"), state(trial)) == (200, "starting")
        await turns_bad(trial)
        await anyio.sleep(600)
        assert port(trial, "/livez") == 503
        sandbox.exchange.faults.clear()
        await recovers(trial)


async def test_slow_store_is_no_standby(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    take = Lease.take

    async def slowly(hold: Lease, *which: Any, **how: Any) -> None:
        await anyio.sleep(20)
        await take(hold, *which, **how)

    monkeypatch.setattr(Lease, "take", slowly)
    async with sandbox.running(offering_bot(MemoryStore(), standby=True)) as trial:
        for _ in range(19):
            await anyio.sleep(1)
            seen.add(state(trial))
        assert seen == {"starting"}
        assert trial.status.age > timedelta(seconds=15)
        await trial.idle()


async def test_stop_ends_a_standby_at_once(sandbox: Sandbox) -> None:
    async with sandbox.running(offering_bot(Shared(), standby=True)) as trial:
        await anyio.sleep(3600)
        began = anyio.current_time()
    assert anyio.current_time() - began < 1
    assert (state(trial), trial.status.live) == ("stopped", False)


async def test_rejected_login_is_no_standby(sandbox: Sandbox) -> None:
    """The bot takes its lease again for each attempt."""
    async with sandbox.running(offering_bot(MemoryStore(), standby=True)) as trial:
        await trial.idle()
        strike(sandbox, "login_message_401", path="login", times=None)
        sandbox.exchange.expire_tokens()
        await turns_bad(trial, sooner=True)
        await anyio.sleep(THREE)
        for _ in range(6_000):
            await anyio.sleep(0.1)
            assert (trial.status.live, state(trial) == "standby") == (False, False)
