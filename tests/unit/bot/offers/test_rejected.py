"""Offers that the service refuses, and offers that were not sent."""

from __future__ import annotations

from random import Random
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.rig import (
    AMOUNT,
    BIDS,
    OFFER,
    SELDOM,
    amounts_on,
    blind,
    eventually,
    new_bot,
    offering_bot,
    offers,
    run_until_idle,
    sent,
    strike,
)

from freight_exchange.errors import OfferRejectedError, ValidationError
from freight_exchange.models import Bid
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Fault, Sandbox
from freight_sandbox.wire import Reply

pytestmark = pytest.mark.virtual_time
NO_CURRENCY = 99
NOT_SENT = "not_found_page"


class TestRejected:
    @pytest.mark.parametrize("status", [400, 413, 422])
    async def test_page_of_gateway_is_no_refusal(self, sandbox: Sandbox, store: MemoryStore, status: int) -> None:
        def page(good: Reply, now: float, random: Random) -> Reply:
            return attrs.evolve(good, status=status, body=b"<html>Request blocked by the firewall</html>")

        sandbox.strike(Fault(name="page", path=OFFER, processed=False, times=2, mutate=page))
        index = sandbox.publish()
        result = await run_until_idle(sandbox, offering_bot(store))
        assert (result.dead, result.parked) == (0, 0)
        assert result.offers["doubtful"] == 2
        assert amounts_on(sandbox, index) == [AMOUNT]

    @pytest.mark.parametrize("taken", [True, False])
    async def test_is_undone_by_hand(self, sandbox: Sandbox, store: MemoryStore, taken: bool) -> None:
        def refusing(good: Reply, now: float, random: Random) -> Reply:
            return attrs.evolve(good, status=400, body=b'{"message": "Offers are closed for today."}')

        sandbox.strike(Fault(name="closed", path=OFFER, processed=False, mutate=refusing))
        index, bot, bids = sandbox.publish(), new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            bids.append(await ctx.offer(amount=AMOUNT, currency=840))

        async with sandbox.running(bot) as trial:
            await trial.idle()
            (dead,) = await bot.dead_letters()
            with pytest.raises(ValidationError, match="taken must be True or False"):
                await bot.resolve(index, taken="no")  # type: ignore[arg-type]  # a form's answer
            await bot.resolve(index, taken=taken)
            assert bot.status().offers["confirmed" if taken else "not taken"] == 1
            with pytest.raises(ValidationError, match="not in doubt, nor was it refused"):
                await bot.resolve(index, taken=taken)
            assert await bot.replay(dead.event, dead.handler)
            await trial.idle()
            assert await bot.dead_letters() == []
        assert [str(bid.amount) for bid in bids] == [AMOUNT]
        assert amounts_on(sandbox, index) == ([] if taken else [AMOUNT])

    async def test_second_call_after_refusal_sends_nothing(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, calls = new_bot(store), list[str]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=AMOUNT, currency=NO_CURRENCY)
            except OfferRejectedError as error:
                calls.append(f"{error.status} {error.request}")
                raise

        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            (dead,) = await bot.dead_letters()
            assert (dead.request, dead.attempts) == (index, 1)
            assert dead.error is not None
            assert dead.error.startswith("OfferRejectedError")
            assert await bot.replay(dead.event, dead.handler)
            await trial.idle()
            assert trial.status.dead == 2
        assert calls == [f"400 {index}"] * 2
        assert sent(sandbox) == 1

    async def test_other_price_is_not_sent_but_revision_is(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            with pytest.raises(OfferRejectedError):
                await ctx.offer(amount=AMOUNT, currency=NO_CURRENCY)
            with pytest.raises(OfferRejectedError):
                await ctx.offer(amount=AMOUNT, currency=840)
            await ctx.offer(amount=AMOUNT, currency=840, revision=1)

        index = sandbox.publish()
        status = await run_until_idle(sandbox, bot)
        assert status.dead == 0
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert sent(sandbox) == 2


class TestUnsent:
    @pytest.mark.parametrize("fault", ["refused", "dns", "connect_stall", NOT_SENT])
    async def test_offer_that_cannot_have_arrived_is_sent_again(
        self, sandbox: Sandbox, store: MemoryStore, fault: str
    ) -> None:
        index, called = sandbox.publish(), list[int]()
        strike(sandbox, fault, times=5)
        status = await run_until_idle(sandbox, offering_bot(store, called))
        assert status.offers == {"confirmed": 1}
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert len(called) >= 2

    async def test_rejected_login_sends_nothing(self, sandbox: Sandbox, store: MemoryStore) -> None:
        called: list[int] = []
        async with sandbox.running(offering_bot(store, called)) as trial:
            await trial.idle()
            strike(sandbox, "login_message_401", path="login", times=3)
            sandbox.exchange.expire_tokens()
            index = sandbox.publish()
            await eventually(lambda: amounts_on(sandbox, index))
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_gateway_reply_to_login_is_no_refusal(self, sandbox: Sandbox, store: MemoryStore) -> None:
        def refusing(good: Reply, now: float, random: Random) -> Reply:
            return attrs.evolve(good, status=400, body=b'{"error": "Bad Request"}')

        bot, offered = new_bot(store), list[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            if len(offered) == 1:
                sandbox.exchange.expire_tokens()
                sandbox.strike(Fault(name="gateway", path="login", processed=False, times=3, mutate=refusing))
            offered.append(request.index)
            await ctx.offer(amount=AMOUNT, currency=840)

        async with sandbox.running(bot) as trial:
            sandbox.publish()
            await eventually(lambda: trial.status.offers.get("confirmed"))
            index = sandbox.publish()
            await eventually(lambda: amounts_on(sandbox, index))
            await trial.idle()
            assert (trial.status.dead, trial.status.parked) == (0, 0)
            assert "rejected" not in trial.status.offers
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert len(sandbox.exchange.faults.fired) == 3


async def test_offer_waits_for_own_bids_and_costs_no_attempts(sandbox: Sandbox, store: MemoryStore) -> None:
    # Two hours in which the bids cannot be listed, and everything else goes well.
    bot = new_bot(store, interval=SELDOM)
    bot.on_new(id="quote", retries=2, timeout=60)(offers())
    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        with blind(sandbox, BIDS):
            await anyio.sleep(7200)
            assert sent(sandbox) == 0
            assert trial.status.dead == 0
        await trial.idle()
    assert amounts_on(sandbox, index) == [AMOUNT]
