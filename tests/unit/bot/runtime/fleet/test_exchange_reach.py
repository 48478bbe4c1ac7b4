"""Replica that is cut off from the exchange alone: it leaves deliveries to the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.unit.bot.rig import amounts_on, eventually, messages, strike
from tests.unit.bot.runtime.fleet.followers import claims, follower, waiting_store

from freight_exchange.bot.runtime.fleet.exchange_reach import ExchangeReach
from freight_exchange.errors import DeadlineExceededError, FreightExchangeError, OutcomeUnknownError, ServerError
from freight_exchange.hooks import CallInfo
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time

COUNT = 12


def _waiting_for_login() -> DeadlineExceededError:
    error = DeadlineExceededError("the deadline has passed")
    error.login_pending = True
    return error


@pytest.mark.parametrize("kind", ["read", "offer"])
@pytest.mark.parametrize("fault", ["refused", "stall", "reset_after_send"])
@pytest.mark.both_backends
async def test_replica_that_is_cut_off_claims_nothing_until_a_call_succeeds(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture, fault: str, kind: str
) -> None:
    """Its path may refuse connections, or accept them and never answer."""
    store, indexes = await waiting_store(sandbox, COUNT)
    store.has_peer = True
    is_open = anyio.Event()

    async def offer(request: Any, ctx: Any) -> None:
        await is_open.wait()
        if kind == "read":
            await ctx.exchange.requests.get(request.index)
        await ctx.offer(amount=100, currency=840)

    async with follower(sandbox, store, offer, concurrency=2) as bot:
        await eventually(lambda: bot.status().in_flight == 2)
        strike(sandbox, fault, path=None, times=None)
        is_open.set()
        await anyio.sleep(600)
        assert claims(store) <= 6
        assert sum("leaves deliveries to other replicas" in text for text in messages(caplog)) == 1
        sandbox.exchange.faults.clear()
        await eventually(lambda: all(amounts_on(sandbox, index) for index in indexes), within=timedelta(seconds=40))


@pytest.mark.parametrize(
    ("error", "is_counted"),
    [
        (DeadlineExceededError("the deadline has passed", attempts=1), True),
        (DeadlineExceededError("the deadline has passed while it waited for a connection"), False),
        (_waiting_for_login(), True),
        (OutcomeUnknownError("no reply", attempts=1), True),
        (OutcomeUnknownError("a reply that cannot be read", attempts=1, status=200), False),
        (ServerError("maintenance", status=503, attempts=1), False),
    ],
    ids=repr,
)
def test_only_calls_that_were_sent_and_got_no_reply_count(error: FreightExchangeError, is_counted: bool) -> None:
    reach = ExchangeReach()
    call = CallInfo(base_url="https://exchange/api", method="GET", path="quote/bid", call_id="1", write=None)
    with pytest.raises(type(error)), reach.call(call):
        raise error
    assert reach._failures == is_counted


async def test_replica_that_is_cut_off_goes_on_if_no_other_one_lives(sandbox: Sandbox) -> None:
    (store, _), looks = await waiting_store(sandbox, COUNT), list[int]()

    async def look(request: Any, ctx: Any) -> None:
        looks.append(request.index)
        strike(sandbox, "refused", path=None, times=None)
        await ctx.exchange.requests.get(request.index)

    async with follower(sandbox, store, look, concurrency=2):
        await anyio.sleep(600)
        assert len(looks) >= 3 * COUNT
