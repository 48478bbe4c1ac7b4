"""Offers whose handler ends before their result."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import pytest
from tests.unit.bot.rig import (
    AMOUNT,
    BIDS,
    CURRENCIES,
    OFFER,
    SELDOM,
    UNANSWERED,
    UNPROCESSED,
    amounts_on,
    bidding_bot,
    blind,
    eventually,
    new_bot,
    offering_bot,
    offers,
    run_until_idle,
    sent,
    strike,
)

from freight_exchange import RetryLater
from freight_exchange.errors import OfferInDoubtError, ValidationError
from freight_exchange.models import Bid
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import FAULTS, Sandbox

pytestmark = pytest.mark.virtual_time


class TestCancelled:
    @pytest.mark.parametrize("fault", [None, UNANSWERED, UNPROCESSED])
    async def test_timeout_does_not_stop_send(self, sandbox: Sandbox, store: MemoryStore, fault: str | None) -> None:
        bot, bids = bidding_bot(store, timeout=1)
        if fault is None:
            strike(sandbox, "slow", seconds=4.0)
        else:
            strike(sandbox, fault)
        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert trial.status.parked == trial.status.in_doubt == trial.status.dead == 0
            # What has an answer is not even in doubt.
            assert trial.status.offers["confirmed"] == 1
            assert ("doubtful" in trial.status.offers) == (fault is not None)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [str(bid.amount) for bid in bids] == [AMOUNT]

    @pytest.mark.parametrize("drain", [0, 0.5, 2, 30])
    async def test_drain_records_result_or_next_run_resolves_it(
        self, sandbox: Sandbox, store: MemoryStore, drain: float
    ) -> None:
        strike(sandbox, "slow", seconds=1.0)
        index = sandbox.publish()
        bot = offering_bot(store, drain=timedelta(seconds=drain))
        async with sandbox.running(bot):
            await eventually(lambda: sent(sandbox))
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            await anyio.sleep(60)
            assert trial.status.parked == trial.status.in_doubt == 0
            assert trial.status.handled == (0 if drain >= 2 else 1)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert sent(sandbox) == 1

    async def test_drain_waits_for_offer_of_ended_handler(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store, settle=timedelta(0))
        bot.on_new(id="quote", timeout=1)(offers())
        strike(sandbox, "slow", seconds=4.0)
        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await eventually(lambda: sent(sandbox) and not trial.status.in_flight)
        assert trial.status.offers == {"confirmed": 1}
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_cancelled_waiters_do_not_disturb_others(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            async def ask(timeout: float) -> None:
                with anyio.move_on_after(timeout):
                    bids.append(await ctx.offer(amount=AMOUNT, currency=840))

            async with anyio.create_task_group() as tasks:
                for timeout in (9, 1, 2, 9, 1, 9):
                    tasks.start_soon(ask, timeout)

        strike(sandbox, "slow", seconds=4.0)
        index = sandbox.publish()
        await run_until_idle(sandbox, bot)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert len(bids) == 3


HOUR = 3600


def stall(sandbox: Sandbox, *, times: int | None = 1) -> None:
    """Leave offers without a reply for 30 s, and reject them."""
    sandbox.strike(*[attrs.evolve(fault, processed=False, times=times) for fault in FAULTS["stall"](path=OFFER)])


class TestDuringDoubt:
    @pytest.mark.parametrize("retries", [0, 1])
    async def test_timeout_is_no_failure(
        self, sandbox: Sandbox, store: Store, retries: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot, attempts = new_bot(store, settle=timedelta(seconds=30)), list[int]()

        @bot.on_new(retries=retries, timeout=10)
        async def quote(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            await ctx.offer(amount=AMOUNT, currency=840)

        stall(sandbox)
        index = sandbox.publish()
        status = await run_until_idle(sandbox, bot)
        assert (status.dead, status.retried) == (0, 0)
        assert status.offers == {"doubtful": 1, "not taken": 1, "confirmed": 1}
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert attempts == [1, 1]
        # Why it ended is reported all the same.
        (failure,) = [
            record for record in caplog.records if "TimeoutError; its offer is in doubt" in record.getMessage()
        ]
        assert failure.exc_info is not None
        assert failure.exc_info[0] is TimeoutError

    @pytest.mark.parametrize("by_hand", [False, True])
    async def test_other_error_is_no_failure(self, sandbox: Sandbox, store: Store, by_hand: bool) -> None:
        bot, calls = new_bot(store), list[int]()

        @bot.on_new(retries=0)
        async def quote(request: Any, ctx: Any) -> None:
            calls.append(ctx.attempt)
            try:
                await ctx.offer(amount=AMOUNT, currency=840)
            except Exception as error:
                raise RuntimeError("quoting failed") from error

        async with sandbox.running(bot) as trial:
            await trial.idle()
            strike(sandbox, UNPROCESSED)
            with blind(sandbox):
                index = sandbox.publish()
                await anyio.sleep(600)
                assert (trial.status.in_doubt, trial.status.dead) == (1, 0)
                if by_hand:
                    await bot.resolve(index, taken=False)
            await trial.idle()
            assert (trial.status.dead, trial.status.retried) == (0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert calls == [1, 1]

    async def test_retry_later_is_respected(self, sandbox: Sandbox, store: Store) -> None:
        bot, times = new_bot(store), list[float]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            times.append(anyio.current_time())
            try:
                await ctx.offer(amount=AMOUNT, currency=840)
            except OfferInDoubtError as error:
                raise RetryLater(timedelta(minutes=10), "tomorrow, as it were") from error

        async with sandbox.running(bot) as trial:
            await trial.idle()
            strike(sandbox, UNPROCESSED)
            index = sandbox.publish()
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert times[1] - times[0] == pytest.approx(600, abs=1)


class TestRepeatedTimeouts:
    async def test_offer_is_parked_after_four_sends(self, sandbox: Sandbox, store: Store) -> None:
        bot, calls = new_bot(store, interval=SELDOM), list[int]()

        @bot.on_new(retries=0, timeout=10)
        async def quote(request: Any, ctx: Any) -> None:
            calls.append(ctx.attempt)
            await ctx.offer(amount=AMOUNT, currency=840)

        stall(sandbox, times=None)
        sandbox.publish()
        async with sandbox.running(bot) as trial:
            await eventually(lambda: trial.status.parked)
            await anyio.sleep(HOUR)
            assert (trial.status.parked, trial.status.dead) == (1, 0)
        assert sent(sandbox) == len(calls) == 4

    @pytest.mark.parametrize("leaves", [False, True])
    @pytest.mark.parametrize(("fault", "path"), [("connect_stall", OFFER), ("stall", BIDS)])
    async def test_delivery_that_never_sends_is_dead_in_the_end(
        self, sandbox: Sandbox, store: Store, fault: str, path: str, leaves: bool
    ) -> None:
        """All other operations of the service work for hours."""
        bot, calls = new_bot(store, interval=SELDOM), list[int]()

        @bot.on_new(retries=2, timeout=4)  # shorter than one attempt to connect
        async def quote(request: Any, ctx: Any) -> None:
            calls.append(request.index)
            with anyio.move_on_after(3 if leaves else HOUR):
                # The account's bids on the request are read, since others may stand beside it.
                await ctx.offer(amount=AMOUNT, currency=840, allow_existing=True)

        async with sandbox.running(bot) as trial:
            await trial.idle()
            strike(sandbox, fault, path, times=None)
            index = sandbox.publish()
            await eventually(lambda: trial.status.dead, within=timedelta(hours=3))
            (dead,) = await bot.dead_letters()
            assert (dead.request, trial.status.in_doubt) == (index, 0)
            assert "before its offer" in (dead.error or "")
        assert 3 < len(calls) < 100
        assert amounts_on(sandbox, index) == []


class TestCurrencyLookup:
    async def test_handler_that_does_not_wait_is_called_again(self, sandbox: Sandbox, store: Store) -> None:
        bot, calls = new_bot(store), list[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            calls.append(ctx.attempt)
            with anyio.move_on_after(2):
                await ctx.offer(amount=AMOUNT, currency="USD")

        strike(sandbox, "slow", CURRENCIES, seconds=4.0)
        index = sandbox.publish()
        status = await run_until_idle(sandbox, bot)
        assert status.handled == 1
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert len(calls) == 2

    async def test_unknown_currency_raises_in_handler(self, sandbox: Sandbox, store: Store) -> None:
        bot, errors = new_bot(store), list[str]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=AMOUNT, currency="XYZ")
            except ValidationError as error:
                errors.append(error.field or "")

        index = sandbox.publish()
        status = await run_until_idle(sandbox, bot)
        assert (status.handled, status.retried) == (1, 0)
        assert (errors, amounts_on(sandbox, index)) == (["currency"], [])

    async def test_unknown_currency_hides_no_doubt(self, sandbox: Sandbox, store: Store) -> None:
        bot, calls = new_bot(store), list[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            calls.append(ctx.attempt)
            try:
                await ctx.offer(amount=AMOUNT, currency=840)
            except OfferInDoubtError:
                with contextlib.suppress(ValidationError):
                    await ctx.offer(amount=AMOUNT, currency="XYZ")

        async with sandbox.running(bot) as trial:
            await trial.idle()
            strike(sandbox, UNPROCESSED)
            index = sandbox.publish()
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert calls == [1, 1]
