"""Tests of parking: no outage parks an offer, and an offer that no check can resolve waits for a person."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.rig import (
    AMOUNT,
    BIDS,
    SELDOM,
    SETTLE,
    UNANSWERED,
    UNPROCESSED,
    amounts_on,
    bidding_bot,
    blind,
    eventually,
    messages,
    offering_bot,
    parked,
    sent,
    strike,
)

from freight_exchange.errors import ValidationError
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Profile, Sandbox, Trial

pytestmark = pytest.mark.virtual_time


class Watched(MemoryStore):
    """Store that exposes the seat of its bot."""

    seat: Any

    def join(self, binding: Any, **options: Any) -> Any:
        self.seat = super().join(binding, **options)
        return self.seat


class TestOutages:
    @pytest.mark.parametrize(("fault", "settle"), [(UNANSWERED, timedelta(0)), (UNPROCESSED, SETTLE)])
    async def test_of_service_parks_nothing(
        self, sandbox: Sandbox, store: MemoryStore, fault: str, settle: timedelta
    ) -> None:
        strike(sandbox, fault)
        async with sandbox.running(offering_bot(store, settle=settle, interval=SELDOM)) as trial:
            await trial.idle()
            index = sandbox.publish()
            strike(sandbox, "refused", path=BIDS, times=None)
            await eventually(lambda: sent(sandbox))
            strike(sandbox, "refused", path=None, times=None)
            await anyio.sleep(1200)
            assert (trial.status.in_doubt, trial.status.parked) == (1, 0)
            sandbox.exchange.faults.clear()
            await trial.idle()
            assert (trial.status.in_doubt, trial.status.parked, trial.status.dead) == (0, 0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]

    @pytest.mark.parametrize(
        ("fault", "failure"),
        [(UNANSWERED, "stall"), (UNPROCESSED, "stall"), (UNANSWERED, "html_200"), (UNPROCESSED, "unauthorized_200")],
    )
    async def test_of_bid_listing_parks_nothing(
        self, sandbox: Sandbox, store: MemoryStore, fault: str, failure: str
    ) -> None:
        strike(sandbox, fault)
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            with blind(sandbox, BIDS, failure):
                index = sandbox.publish()
                await eventually(lambda: trial.status.in_doubt)
                await anyio.sleep(900)
                assert (trial.status.in_doubt, trial.status.parked) == (1, 0)
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_of_login_parks_nothing(self, sandbox: Sandbox, store: MemoryStore) -> None:
        strike(sandbox, UNPROCESSED)
        index = sandbox.publish()
        async with sandbox.running(offering_bot(store)) as trial:
            await eventually(lambda: sent(sandbox))
            strike(sandbox, "login_message_401", path="login", times=None)
            sandbox.exchange.expire_tokens()
            await anyio.sleep(3600)
            assert trial.status.state == "login-rejected"
            sandbox.exchange.faults.clear()
            await eventually(lambda: amounts_on(sandbox, index))
            await trial.idle()
            assert trial.status.parked == 0
        assert amounts_on(sandbox, index) == [AMOUNT]


class TestParked:
    """A service that rounds amounts: no check can match a listed price."""

    @pytest.fixture
    def sandbox(self) -> Sandbox:
        return Sandbox(Profile(amount_rounding="whole"))

    async def park(self, bot: Any, trial: Trial, sandbox: Sandbox) -> int:
        index = sandbox.publish()
        doubt = await parked(bot, trial)
        assert doubt.request == index
        return index

    async def test_alerts_once_in_each_run(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        strike(sandbox, UNANSWERED)
        bot, began = offering_bot(store, interval=SELDOM), datetime.fromtimestamp(sandbox.now(), UTC)
        async with sandbox.running(bot) as trial:
            index = await self.park(bot, trial, sandbox)
            await anyio.sleep(3600)
            (doubt,) = await bot.doubts()
            assert (doubt.request, doubt.revision, doubt.parked) == (index, 0, True)
            assert (doubt.amount, doubt.currency) == (Decimal(AMOUNT), 840)
            assert doubt.handler.endswith("quote")
            assert began - timedelta(seconds=1) < doubt.since
            assert doubt.since < datetime.fromtimestamp(sandbox.now(), UTC) - timedelta(minutes=55)
            assert (trial.status.in_doubt, trial.status.parked) == (0, 1)
        (alert,) = messages(caplog, logging.CRITICAL)
        assert f"request {index}" in alert
        async with sandbox.running(offering_bot(store)) as trial:
            await eventually(lambda: trial.status.parked)
        assert len(messages(caplog, logging.CRITICAL)) == 2
        assert sent(sandbox) == 1

    async def test_after_three_checks(self, sandbox: Sandbox, store: MemoryStore) -> None:
        steps: list[str] = []
        bot = offering_bot(store)
        strike(sandbox, UNANSWERED)
        sandbox.publish()
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await bot.serve(exchange=sandbox.client(), failpoints=steps.append)

            tasks.start_soon(serve)
            await eventually(lambda: bot.status().parked)
            bot.stop()
        assert steps.count("after resolved") == 3

    async def test_is_confirmed_by_a_persons_decision(self, sandbox: Sandbox, store: MemoryStore) -> None:
        strike(sandbox, UNANSWERED)
        bot, bids = bidding_bot(store)
        async with sandbox.running(bot) as trial:
            index = await self.park(bot, trial, sandbox)
            await bot.resolve(index, taken=True)
            assert await bot.doubts() == []
            await trial.idle()
        assert [(bid.index, bid.amount, bid.currency) for bid in bids] == [(index, Decimal(AMOUNT), 840)]
        assert sent(sandbox) == 1

    async def test_person_may_decide_before_checks_end(self, sandbox: Sandbox, store: MemoryStore) -> None:
        strike(sandbox, UNPROCESSED)
        bot = offering_bot(store, settle=timedelta(minutes=10))
        async with sandbox.running(bot) as trial:
            index = sandbox.publish()
            await eventually(lambda: trial.status.in_doubt)
            await bot.resolve(index, taken=False)
            await trial.idle()
            await anyio.sleep(3600)
            assert trial.status.offers == {"doubtful": 1, "not taken": 1, "confirmed": 1}
        assert len(amounts_on(sandbox, index)) == 1

    @pytest.mark.parametrize(("request_of", "revision"), [(0, 1), (1, 0)])
    async def test_other_offers_cannot_be_resolved(
        self, sandbox: Sandbox, store: MemoryStore, request_of: int, revision: int
    ) -> None:
        strike(sandbox, UNANSWERED)
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            index = await self.park(bot, trial, sandbox)
            with pytest.raises(ValidationError, match="not in doubt"):
                await bot.resolve(index + request_of, taken=True, revision=revision)
            assert trial.status.parked == 1

    async def test_doubt_of_another_replica_is_not_decided_here(self, sandbox: Sandbox) -> None:
        store = Watched()
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            index = sandbox.publish()
            await trial.idle()
            (effect,) = store.seat.work.effects_under("offer:")
            store.seat.work.put_effect(attrs.evolve(effect, state="unknown"), expected_state="confirmed")
            with pytest.raises(ValidationError, match="being sent, or checked by another replica"):
                await bot.resolve(index, taken=False)

    async def test_decision_by_a_command_has_the_handler_called_again(self, sandbox: Sandbox) -> None:
        store, called = Watched(), list[int]()
        bot = offering_bot(store, called, interval=SELDOM)
        strike(sandbox, UNANSWERED)
        async with sandbox.running(bot) as trial:
            index = await self.park(bot, trial, sandbox)
            calls = called.count(index)
            (effect,) = store.seat.work.effects_under("offer:")
            decided = attrs.evolve(effect, state="intent", at=effect.at + 1)
            store.seat.work.put_effect(decided, expected_state="unknown")
            await eventually(lambda: called.count(index) > calls)
            assert not await bot.doubts()

    async def test_invalid_decision_raises(self, sandbox: Sandbox, store: MemoryStore) -> None:
        taken: Any
        strike(sandbox, UNANSWERED)
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            index = await self.park(bot, trial, sandbox)
            for taken in ("no", None, 0, 1, []):
                with pytest.raises(ValidationError, match="taken must be True or False"):
                    await bot.resolve(index, taken=taken)
            for request, revision in ((str(index), 0), (index, "0"), (index, False), (float(index), 0), (index, -1)):
                with pytest.raises(ValidationError, match="must be"):
                    await bot.resolve(request, taken=True, revision=revision)  # type: ignore[arg-type]  # on purpose
            assert (trial.status.parked, sent(sandbox)) == (1, 1)

    async def test_doubt_keeps_its_start_through_restarts(self, sandbox: Sandbox, store: MemoryStore) -> None:
        strike(sandbox, UNANSWERED)
        bot, came = offering_bot(store), 0.0
        async with sandbox.running(bot) as trial:
            await trial.idle()
            sandbox.publish()
            await eventually(lambda: trial.status.in_doubt)
            came = sandbox.now()
            await parked(bot, trial)
        await anyio.sleep(3600)
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            (doubt,) = [await parked(bot, trial)]
        assert abs((doubt.since - datetime.fromtimestamp(came, UTC)).total_seconds()) < 1

    async def test_delays_no_other_request(self, sandbox: Sandbox, store: MemoryStore) -> None:
        called: list[int] = []
        strike(sandbox, UNANSWERED)
        bot = offering_bot(store, called, interval=SELDOM)
        async with sandbox.running(bot) as trial:
            index = await self.park(bot, trial, sandbox)
            calls = called.count(index)
            other = sandbox.publish()
            await eventually(lambda: amounts_on(sandbox, other))
            await anyio.sleep(6 * 3600)
            assert called.count(index) == calls
            assert (trial.status.dead, trial.status.retried) == (0, 0)
