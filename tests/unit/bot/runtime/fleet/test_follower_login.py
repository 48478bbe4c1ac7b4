"""Login of a replica that follows: it has to work before the replica claims deliveries."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.unit.bot.rig import amounts_on, eventually, new_bot, offers, strike
from tests.unit.bot.runtime.fleet.followers import claims, follower, waiting_store
from tests.unit.bot.runtime.fleet.one_of_two import OneOfTwo

from freight_exchange import RetryLater
from freight_exchange.errors import LoginRejectedError
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def waiting(sandbox: Sandbox) -> tuple[OneOfTwo, int]:
    """Store with one delivery that is due, and another replica that scans."""
    store, (index,) = await waiting_store(sandbox)
    return store, index


@pytest.mark.both_backends
async def test_rejected_first_login_ends_a_follower_before_it_claims(
    sandbox: Sandbox, waiting: tuple[OneOfTwo, int]
) -> None:
    store, index = waiting
    strike(sandbox, "login_message_401", path="login", times=None)
    bot = new_bot(store)
    bot.on_new(id="quote")(offers())
    with pytest.raises(LoginRejectedError):
        await bot.serve(exchange=sandbox.client())
    assert (bot.status().state, amounts_on(sandbox, index)) == ("stopped", [])
    assert claims(store) == 0


@pytest.mark.parametrize("fault", ["refused", "unavailable_forever", "login_hung"])
async def test_follower_that_cannot_log_in_yet_is_live_but_not_ready_and_claims_nothing(
    sandbox: Sandbox, waiting: tuple[OneOfTwo, int], fault: str
) -> None:
    store, index = waiting
    strike(sandbox, fault, path="login", times=None)
    async with follower(sandbox, store) as bot:
        for _ in range(10):
            await anyio.sleep(60)
            assert (bot.status().state, bot.status().live, bot.status().scans) == ("starting", True, False)
        assert claims(store) == 0
        sandbox.exchange.faults.clear()
        await eventually(lambda: amounts_on(sandbox, index), within=timedelta(seconds=40))
        assert bot.status().state == "running"


@pytest.mark.both_backends
async def test_follower_that_cannot_log_in_yet_scans_once_the_term_is_free(
    sandbox: Sandbox, waiting: tuple[OneOfTwo, int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "freight_exchange.bot")
    store, index = waiting
    strike(sandbox, "refused", path="login", times=None)
    async with follower(sandbox, store) as bot:
        await anyio.sleep(120)
        assert caplog.text.count("handles deliveries but does not scan") == 1
        assert not bot.status().scans
        store.is_free = True
        await eventually(lambda: bot.status().scans, within=timedelta(seconds=5))
        sandbox.exchange.faults.clear()
        await eventually(lambda: amounts_on(sandbox, index), within=timedelta(seconds=120))
        assert (bot.status().state, bot.status().scans) == ("running", True)


async def test_follower_waits_an_hour_at_most_before_it_logs_in_again(
    sandbox: Sandbox, waiting: tuple[OneOfTwo, int]
) -> None:
    store, index = waiting
    strike(sandbox, "throttled_huge", path="login", times=1)
    async with follower(sandbox, store):
        await eventually(lambda: amounts_on(sandbox, index), within=timedelta(hours=1.1))


async def test_follower_that_is_stopped_while_it_logs_in_ends(sandbox: Sandbox, waiting: tuple[OneOfTwo, int]) -> None:
    store, _ = waiting
    strike(sandbox, "login_hung", path="login", times=None)
    async with follower(sandbox, store) as bot:
        await anyio.sleep(5)
        began = anyio.current_time()
        bot.stop()
    assert anyio.current_time() - began < 1


@pytest.mark.both_backends
async def test_later_rejection_in_a_delivery_makes_a_follower_drain_and_try_again(
    sandbox: Sandbox, waiting: tuple[OneOfTwo, int], caplog: pytest.LogCaptureFixture
) -> None:
    (store, index), looked = waiting, list[float]()

    async def look(request: Any, ctx: Any) -> None:
        await ctx.exchange.requests.get(index)
        looked.append(anyio.current_time())
        raise RetryLater(timedelta(seconds=10))

    async with follower(sandbox, store, look) as bot:
        await eventually(lambda: looked)
        password, sandbox.forwarder.password = sandbox.forwarder.password, "another"
        sandbox.exchange.expire_tokens()
        await eventually(lambda: bot.status().state == "login-rejected")
        assert not bot.status().live
        assert caplog.text.count("the bot drains, and tries again") == 1
        sandbox.forwarder.password = password
        looked.clear()
        await eventually(lambda: looked)
        assert bot.status().state == "running"
