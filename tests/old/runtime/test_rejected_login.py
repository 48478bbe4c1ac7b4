"""Logins that are rejected at the start, and later."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.old.rig import INTERVAL, amounts_on, eventually, offering_bot, strike
from tests.old.runtime.liveness import port, recovers, state, turns_bad

from freight_exchange.errors import LoginRejectedError
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time
LOGIN_REJECTED = [
    "login_message_200",
    "login_message_400",
    "login_message_401",
    "login_message_403",
    "login_message_422",
]


@pytest.mark.parametrize("fault", LOGIN_REJECTED)
async def test_rejected_first_login_is_raised(sandbox: Sandbox, fault: str) -> None:
    strike(sandbox, fault, path="login", times=None)
    bot = offering_bot(MemoryStore())
    with pytest.raises(LoginRejectedError):
        await bot.serve(exchange=sandbox.client())
    assert bot.status().state == "stopped"
    assert not bot.status().live


@pytest.mark.parametrize(
    ("store", "fault"),
    [(MemoryStore, "login_message_200"), (MemoryStore, "login_message_403"), (lambda: None, "login_message_401")],
)
async def test_later_rejection_is_retried(sandbox: Sandbox, store: Any, fault: str) -> None:
    bot = offering_bot(store())
    async with sandbox.running(bot) as trial:
        await trial.idle()
        strike(sandbox, fault, path="login", times=None)
        sandbox.exchange.expire_tokens()
        await turns_bad(trial, sooner=True)
        await eventually(lambda: state(trial) == "login-rejected")
        index = sandbox.publish()
        for _ in range(36):
            await anyio.sleep(100)
            assert not trial.status.live
        sandbox.exchange.faults.clear()
        await recovers(trial)
        await eventually(lambda: amounts_on(sandbox, index))
        await trial.idle()
    assert len(amounts_on(sandbox, index)) == 1


async def test_changed_password_is_retried(sandbox: Sandbox) -> None:
    async with sandbox.running(offering_bot(MemoryStore())) as trial:
        await trial.idle()
        password, sandbox.forwarder.password = sandbox.forwarder.password, "another"
        sandbox.exchange.expire_tokens()
        await turns_bad(trial, sooner=True)
        tried = len(sandbox.audit_log.logins)
        await anyio.sleep(2 * 3600)
        # Often enough to be back soon, and not so often that an account is locked for it.
        assert 4 <= len(sandbox.audit_log.logins) - tried <= 16
        sandbox.forwarder.password = password
        await recovers(trial)
        index = sandbox.publish()
        await eventually(lambda: amounts_on(sandbox, index))


async def test_rejection_before_first_scan_is_retried(sandbox: Sandbox) -> None:
    # The login is taken, the first scan fails for a while, and then the password is changed.
    strike(sandbox, "unavailable_forever", path="quote/getrequests", times=None)
    async with sandbox.running(offering_bot(MemoryStore())) as trial:
        await eventually(lambda: sandbox.audit_log.logins)
        await anyio.sleep(60)
        strike(sandbox, "login_message_401", path="login", times=None)
        sandbox.exchange.expire_tokens()
        sandbox.exchange.faults.clear()
        strike(sandbox, "login_message_401", path="login", times=None)
        await anyio.sleep(600)
        assert port(trial, "/livez") == 503
        sandbox.exchange.faults.clear()
        await recovers(trial)


async def test_watermark_ages_while_login_is_rejected(sandbox: Sandbox) -> None:
    bot = offering_bot(MemoryStore())
    async with sandbox.running(bot) as trial:
        await trial.idle()
        began = anyio.current_time()
        strike(sandbox, "login_message_401", path="login", times=None)
        sandbox.exchange.expire_tokens()
        looks = 0
        while anyio.current_time() < began + 3600:
            await anyio.sleep(60)
            silent = anyio.current_time() - began
            if state(trial) != "login-rejected":
                # Another try is on its way.
                continue
            looks += 1
            feed = trial.status.feed
            assert feed is not None
            assert feed.cover_age is not None
            for age in (trial.status.age, feed.cover_age):
                assert silent <= age.total_seconds() <= silent + INTERVAL
            gauges = {family.name: family.samples for family in bot.collector().collect()}
            (sample,) = gauges["freight_exchange_bot_cover_age_seconds"]
            assert sample.value == feed.cover_age.total_seconds()
        assert looks > 50
    stopped = bot.status()
    await anyio.sleep(600)
    assert bot.status() == stopped


async def test_stop_while_login_is_rejected(sandbox: Sandbox) -> None:
    bot = offering_bot(MemoryStore())
    async with sandbox.running(bot) as trial:
        await trial.idle()
        strike(sandbox, "login_message_401", path="login", times=None)
        sandbox.exchange.expire_tokens()
        await anyio.sleep(3600)
        assert state(trial) == "login-rejected"
        began = anyio.current_time()
    assert anyio.current_time() - began < 1
    assert state(trial) == "stopped"
