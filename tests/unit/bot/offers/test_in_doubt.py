"""Tests of offers in doubt, which are checked until they are resolved."""

from __future__ import annotations

import logging
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

import anyio
import attrs
import pytest
from tests.unit.bot.rig import (
    AMOUNT,
    BIDS,
    HOUR,
    SELDOM,
    SETTLE,
    UNANSWERED,
    UNPROCESSED,
    amounts_on,
    eventually,
    messages,
    new_bot,
    offering_bot,
    parked,
    run_until_idle,
    sent,
    strike,
)

from freight_exchange import Drop
from freight_exchange.bot.offers.in_doubt import InDoubtResolver
from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.bot.offers.repository import OfferRepository
from freight_exchange.errors import FreightExchangeError, OfferInDoubtError
from freight_exchange.models import Bid, StillUnknown
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Profile, Sandbox

pytestmark = pytest.mark.virtual_time
TAKEN = [UNANSWERED, "server_error_after_commit", "reset_mid_reply", "stall", "half_json", "bad_request_after_commit"]
NOT_TAKEN = [UNPROCESSED, "server_error", "html_200", "garbage_status", "unavailable"]


async def nothing_is_seen(doubts: InDoubtResolver, record: OfferRecord) -> StillUnknown:
    """Check that proves nothing."""
    return StillUnknown()


class TestDoubt:
    @pytest.mark.parametrize("fault", TAKEN)
    async def test_taken_offer_is_found(self, sandbox: Sandbox, store: MemoryStore, fault: str) -> None:
        bot, calls = new_bot(store), list[object]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            try:
                bid = await ctx.offer(amount=AMOUNT, currency=840)
            except OfferInDoubtError as error:
                calls.append(error)
                raise
            calls.append((ctx.attempt, bid.index, bid.amount, bid.currency))

        strike(sandbox, fault)
        index = sandbox.publish()
        status = await run_until_idle(sandbox, bot)
        assert status.offers == {"doubtful": 1, "confirmed": 1}
        assert (status.in_doubt, status.parked, status.retried) == (0, 0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert sent(sandbox) == 1
        assert isinstance(calls[0], OfferInDoubtError)
        # The attempt that ended in doubt was forgiven.
        assert calls[-1] == (1, index, Decimal(AMOUNT), 840)

    @pytest.mark.parametrize("fault", NOT_TAKEN)
    async def test_absent_offer_is_sent_again_once(self, sandbox: Sandbox, store: MemoryStore, fault: str) -> None:
        strike(sandbox, fault, processed=False)
        index = sandbox.publish()
        status = await run_until_idle(sandbox, offering_bot(store))
        assert status.offers == {"doubtful": 1, "not taken": 1, "confirmed": 1}
        assert (status.in_doubt, status.parked, status.retried) == (0, 0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert sent(sandbox) == 2

    async def test_absent_offer_is_sent_again_until_taken(self, sandbox: Sandbox, store: MemoryStore) -> None:
        strike(sandbox, UNPROCESSED, times=3)
        index = sandbox.publish()
        status = await run_until_idle(sandbox, offering_bot(store))
        assert (status.dead, status.parked) == (0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert sent(sandbox) == 4

    @pytest.mark.parametrize(("late", "settle"), [(900, timedelta(seconds=30)), (7200, timedelta(seconds=1))])
    async def test_offer_listed_late_is_sent_four_times_at_most(
        self, store: MemoryStore, late: float, settle: timedelta, caplog: pytest.LogCaptureFixture
    ) -> None:
        sandbox = Sandbox(Profile(late_visibility=late))
        strike(sandbox, "server_error_after_commit", times=None)
        bot = offering_bot(store, settle=settle, interval=SELDOM)
        async with sandbox.running(bot) as trial:
            index = sandbox.publish()
            await anyio.sleep(3 * HOUR)
            assert trial.status.in_doubt == 0
            # Each proof of absence takes four times as long as the one before: what shows in time is found.
            if (late, settle) == (900, timedelta(seconds=30)):
                assert (trial.status.parked, trial.status.handled) == (0, 1)
            else:
                (doubt,) = await bot.doubts()
                assert doubt.parked
                assert any(f"request {index}" in alert for alert in messages(caplog, logging.CRITICAL))
        assert 1 < len(amounts_on(sandbox, index)) <= 4
        assert sent(sandbox) <= 4

    async def test_person_may_decide_while_check_is_recorded(
        self, sandbox: Sandbox, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        recording: list[str] = []
        advance = OfferRepository.advance

        async def slowly(repository: OfferRepository, record: Any, state: Any, **how: Any) -> Any:
            if how.get("step") == "resolved" and not recording:
                recording.append(state)
                await anyio.sleep(5)
            return await advance(repository, record, state, **how)

        monkeypatch.setattr(OfferRepository, "advance", slowly)
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            await trial.idle()
            strike(sandbox, UNPROCESSED)
            monkeypatch.setattr(InDoubtResolver, "_check", nothing_is_seen)
            index = sandbox.publish()
            await eventually(lambda: recording)
            await bot.resolve(index, taken=False)
            monkeypatch.undo()
            await trial.idle()
        assert recording == ["unknown"]
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_absences_are_counted_through_restarts(self, sandbox: Sandbox, store: MemoryStore) -> None:
        strike(sandbox, UNPROCESSED, times=5)
        index = sandbox.publish()
        for sends in (1, 2, 3, 4):
            async with sandbox.running(offering_bot(store, interval=SELDOM)) as trial:
                await eventually(lambda sends=sends: sent(sandbox) == sends)  # type: ignore[misc]  # mypy has no types for it
                await eventually(lambda trial=trial: trial.status.in_doubt)  # type: ignore[misc]  # mypy has no types for it
        bot = offering_bot(store, interval=SELDOM)
        async with sandbox.running(bot) as trial:
            await parked(bot, trial)
            await anyio.sleep(HOUR)
            assert sent(sandbox) == 4
            await bot.resolve(index, taken=False)
            await trial.idle()
            assert trial.status.parked == 0
        assert sent(sandbox) == 6
        assert amounts_on(sandbox, index) == [AMOUNT]

    @pytest.mark.parametrize("late", [0.5, 4.0])
    async def test_offer_listed_within_settle_is_found(self, store: MemoryStore, late: float) -> None:
        sandbox = Sandbox(Profile(late_visibility=late))
        strike(sandbox, UNANSWERED)
        index = sandbox.publish()
        async with sandbox.running(offering_bot(store)) as trial:
            await eventually(lambda: trial.status.handled)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert sent(sandbox) == 1

    @pytest.mark.parametrize("point", ["before send", "after send", "before confirmed"])
    async def test_offer_sent_before_crash_is_found_late(self, store: MemoryStore, point: str) -> None:
        sandbox = Sandbox(Profile(late_visibility=3))
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            await anyio.sleep(SETTLE.total_seconds())
        index = sandbox.publish()
        await anyio.sleep(5)
        async with sandbox.running(offering_bot(store), crash_at=point) as trial:
            await trial.crashed()
        status = await run_until_idle(sandbox, offering_bot(store))
        assert (status.in_doubt, status.parked) == (0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_many_doubts_are_resolved_with_one_offer_each(self, sandbox: Sandbox, store: MemoryStore) -> None:
        for number in range(12):
            strike(sandbox, UNANSWERED if number % 2 else UNPROCESSED)
        indexes = [sandbox.publish() for _ in range(15)]
        status = await run_until_idle(sandbox, offering_bot(store))
        assert (status.in_doubt, status.parked) == (0, 0)
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * 15

    async def test_many_doubts_share_their_readings(self, sandbox: Sandbox) -> None:
        strike(sandbox, UNPROCESSED, times=40)
        indexes = [sandbox.publish() for _ in range(40)]
        await run_until_idle(sandbox, offering_bot(None))
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * 40
        # Each on its own reads five views of the listing twice, and more than once each time.
        assert len(sandbox.audit_log.calls_to("GET", BIDS)) < 25 * len(indexes)

    async def test_slow_readings_get_more_time(self, store: MemoryStore) -> None:
        """Reading all views takes longer than the time of the first checks."""
        sandbox = Sandbox(Profile(latency=6.0))
        bot = offering_bot(store, interval=SELDOM)
        async with sandbox.running(bot) as trial:
            await trial.idle()
            strike(sandbox, UNPROCESSED)
            index = sandbox.publish()
            await eventually(lambda: amounts_on(sandbox, index), timedelta(hours=2))
            await trial.idle()
            assert (trial.status.parked, trial.status.in_doubt) == (0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_delays_no_other_request(self, sandbox: Sandbox, store: MemoryStore) -> None:
        called: list[int] = []
        bot = offering_bot(store, called, concurrency=1, settle=timedelta(minutes=10))
        async with sandbox.running(bot) as trial:
            await trial.idle()
            strike(sandbox, UNPROCESSED)
            first = sandbox.publish()
            await eventually(lambda: trial.status.in_doubt)
            others = [sandbox.publish() for _ in range(5)]
            await anyio.sleep(300)
            assert trial.status.in_doubt == 1
            assert called.count(first) == 1
            assert [amounts_on(sandbox, index) for index in others] == [[AMOUNT]] * 5
            await trial.idle()
        assert amounts_on(sandbox, first) == [AMOUNT]

    @pytest.mark.parametrize("fault", [UNANSWERED, UNPROCESSED])
    async def test_handler_that_catches_error_is_called_again(
        self, sandbox: Sandbox, store: MemoryStore, fault: str
    ) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            try:
                bids.append(await ctx.offer(amount=AMOUNT, currency=840))
            except FreightExchangeError as error:
                ctx.log.info("caught: %s", error)

        strike(sandbox, fault)
        index = sandbox.publish()
        status = await run_until_idle(sandbox, bot)
        assert (status.in_doubt, status.handled) == (0, 1)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [str(bid.amount) for bid in bids] == [AMOUNT]

    @pytest.mark.parametrize("fault", ["connect_stall", "stall"])
    async def test_handler_that_does_not_wait_is_called_again(
        self, sandbox: Sandbox, store: MemoryStore, fault: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot, bids = new_bot(store, settle=timedelta(0)), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            with anyio.move_on_after(0.5):
                bids.append(await ctx.offer(amount=AMOUNT, currency=840))

        strike(sandbox, fault, times=5 if fault == "connect_stall" else 1)
        index = sandbox.publish()
        status = await run_until_idle(sandbox, bot)
        assert (status.dead, status.in_doubt) == (0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [str(bid.amount) for bid in bids] == [AMOUNT]
        # The handler had ended before the result.
        assert any("was not sent" in line for line in messages(caplog)) == (fault == "connect_stall")

    async def test_handler_may_drop_event(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, calls = new_bot(store), list[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=AMOUNT, currency=840)
            except OfferInDoubtError:
                calls.append(request.index)
                raise Drop("it was not worth it") from None

        strike(sandbox, UNPROCESSED)
        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            await eventually(lambda: not trial.status.in_doubt)
        assert calls == [index]
        assert amounts_on(sandbox, index) == []


def record(*, at: float) -> OfferRecord:
    return OfferRecord(request=1, handler="quote", amount=Decimal(AMOUNT), currency=840, state="unknown", at=at)


async def test_repeated_doubts_are_checked_more_rarely(sandbox: Sandbox, store: MemoryStore) -> None:
    bot = offering_bot(store, settle=timedelta(seconds=30), interval=SELDOM)
    strike(sandbox, UNPROCESSED, times=4)
    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await eventually(lambda: sent(sandbox) == 1)
        await eventually(lambda: sent(sandbox) == 2)
        once = len(sandbox.audit_log.calls_to("GET", BIDS))
        await parked(bot, trial)
        assert sent(sandbox) == 4
    # Looked for 1, 4, 16 and 64 times as long.
    assert len(sandbox.audit_log.calls_to("GET", BIDS)) < 20 * once
    assert amounts_on(sandbox, index) == []


SIX_DAYS = 6 * 24 * 3600
EARLIER = 105


@pytest.mark.parametrize("stride", ["clamped", "asked"])
async def test_unanswered_offer_behind_lowered_clamp_is_not_repeated(
    stride: Literal["clamped", "asked"],
) -> None:
    """The account has more bids than one page, and the new one is listed last."""
    sandbox = Sandbox(Profile(order="oldest", clamp_stride=stride))
    for _ in range(EARLIER):
        request = sandbox.exchange.publish(sandbox.shipper, sandbox.now() - SIX_DAYS)
        sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now() - SIX_DAYS, amount=990)
    async with sandbox.running(offering_bot(MemoryStore())) as trial:
        await trial.idle()
        sandbox.exchange.profile = attrs.evolve(sandbox.exchange.profile, rows_clamp=50)
        strike(sandbox, UNANSWERED)
        index = sandbox.publish()
        await eventually(lambda: sent(sandbox) == 1)
        await trial.idle()
    assert sent(sandbox) == 1
    assert amounts_on(sandbox, index) == [AMOUNT]
