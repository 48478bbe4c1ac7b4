"""An offer of which nobody knows is looked for until that is known: never sent again before, never forgotten."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.ledger_rig import (
    AMOUNT,
    BIDS,
    OFFER,
    SETTLE,
    UNANSWERED,
    UNPROCESSED,
    amounts_on,
    blind,
    eventually,
    new_bot,
    offering_bot,
    parked,
    said,
    sent,
    strike,
)

from freight_exchange import Drop
from freight_exchange.bot.metrics import Metrics
from freight_exchange.bot.offers.in_doubt import InDoubtResolver
from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.bot.offers.repository import OfferRepository
from freight_exchange.errors import FreightExchangeError, OfferInDoubtError, ValidationError
from freight_exchange.models import Bid, NotApplied, StillUnknown
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Profile, Sandbox, Trial

pytestmark = pytest.mark.virtual_time

TAKEN = [UNANSWERED, "server_error_after_commit", "reset_mid_reply", "stall", "half_json", "bad_request_after_commit"]
NOT_TAKEN = [UNPROCESSED, "server_error", "html_200", "garbage_status", "unavailable"]


async def nothing_is_seen(doubts: InDoubtResolver, record: OfferRecord) -> StillUnknown:
    """A look that proves nothing."""
    return StillUnknown()


class TestWhatBecomesOfADoubt:
    @pytest.mark.parametrize("fault", TAKEN)
    async def test_one_that_was_taken_is_found_and_the_handler_has_its_bid(
        self, sandbox: Sandbox, store: MemoryStore, fault: str
    ) -> None:
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
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert trial.status.offers == {"doubtful": 1, "confirmed": 1}
            assert (trial.status.in_doubt, trial.status.parked, trial.status.retried) == (0, 0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert sent(sandbox) == 1
        assert isinstance(calls[0], OfferInDoubtError)
        # The attempt that ended in doubt was forgiven.
        assert calls[-1] == (1, index, Decimal(AMOUNT), 840)

    @pytest.mark.parametrize("fault", NOT_TAKEN)
    async def test_one_that_is_proven_absent_is_made_again_once(
        self, sandbox: Sandbox, store: MemoryStore, fault: str
    ) -> None:
        strike(sandbox, fault, processed=False)
        index = sandbox.publish()
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            assert trial.status.offers == {"doubtful": 1, "not taken": 1, "confirmed": 1}
            assert (trial.status.in_doubt, trial.status.parked, trial.status.retried) == (0, 0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert sent(sandbox) == 2

    @pytest.mark.parametrize("times", [2, 3])
    async def test_absent_again_and_again_it_is_made_again_until_it_is_taken(
        self, sandbox: Sandbox, store: MemoryStore, times: int
    ) -> None:
        strike(sandbox, UNPROCESSED, times=times)
        index = sandbox.publish()
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            assert (trial.status.dead, trial.status.parked) == (0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert sent(sandbox) == times + 1

    @pytest.mark.parametrize("late", [900, 7200])
    @pytest.mark.parametrize("settle", [timedelta(seconds=1), timedelta(seconds=30)])
    async def test_one_that_shows_later_than_that_is_made_four_times_at_most(
        self, store: MemoryStore, late: float, settle: timedelta, caplog: pytest.LogCaptureFixture
    ) -> None:
        sandbox = Sandbox(Profile(late_visibility=late))
        strike(sandbox, "server_error_after_commit", times=None)
        bot = offering_bot(store, settle=settle, interval=timedelta(minutes=1))
        async with sandbox.running(bot) as trial:
            index = sandbox.publish()
            await anyio.sleep(4 * 3600)
            assert trial.status.in_doubt == 0
            # Each proof of absence takes four times as long as the one before: what shows in time is found.
            if (late, settle) == (900, timedelta(seconds=30)):
                assert (trial.status.parked, trial.status.handled) == (0, 1)
            else:
                (doubt,) = await bot.doubts()
                assert doubt.parked
                assert any(f"request {index}" in alert for alert in said(caplog, logging.CRITICAL))
        assert 1 < len(amounts_on(sandbox, index)) <= 4
        assert sent(sandbox) <= 4

    async def test_a_person_may_decide_while_a_look_for_it_is_noted(
        self, sandbox: Sandbox, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        noting: list[str] = []
        advance = OfferRepository.advance

        async def slowly(repository: OfferRepository, record: Any, state: Any, **how: Any) -> Any:
            if how.get("step") == "resolved" and not noting:
                noting.append(state)
                await anyio.sleep(5)
            return await advance(repository, record, state, **how)

        monkeypatch.setattr(OfferRepository, "advance", slowly)
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            await trial.idle()
            strike(sandbox, UNPROCESSED)
            monkeypatch.setattr(InDoubtResolver, "_check", nothing_is_seen)
            index = sandbox.publish()
            await eventually(lambda: noting)
            await bot.resolve(index, taken=False)
            monkeypatch.undo()
            await trial.idle()
        assert noting == ["unknown"]
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_a_count_of_absences_lasts_through_restarts_until_a_person_decides(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        strike(sandbox, UNPROCESSED, times=5)
        index = sandbox.publish()
        for sends in (1, 2, 3, 4):
            async with sandbox.running(offering_bot(store)) as trial:
                await eventually(lambda sends=sends: sent(sandbox) == sends)  # type: ignore[misc]  # mypy has no types for it
                await eventually(lambda trial=trial: trial.status.in_doubt)  # type: ignore[misc]  # mypy has no types for it
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            await parked(bot, trial)
            await anyio.sleep(3600)
            assert sent(sandbox) == 4
            await bot.resolve(index, taken=False)
            await trial.idle()
            assert trial.status.parked == 0
        assert sent(sandbox) == 6
        assert amounts_on(sandbox, index) == [AMOUNT]

    @pytest.mark.parametrize("late", [0.5, 4.0])
    async def test_one_that_shows_late_is_waited_for(self, store: MemoryStore, late: float) -> None:
        sandbox = Sandbox(Profile(late_visibility=late))
        strike(sandbox, UNANSWERED)
        index = sandbox.publish()
        async with sandbox.running(offering_bot(store)) as trial:
            await eventually(lambda: trial.status.handled)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert sent(sandbox) == 1

    @pytest.mark.parametrize("point", ["before send", "after send", "before confirmed"])
    async def test_one_that_was_on_its_way_when_the_process_died_is_looked_for_though_it_shows_late(
        self, store: MemoryStore, point: str
    ) -> None:
        sandbox = Sandbox(Profile(late_visibility=3))
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            await anyio.sleep(SETTLE.total_seconds())
        index = sandbox.publish()
        await anyio.sleep(5)
        async with sandbox.running(offering_bot(store), crash_at=point) as trial:
            await trial.crashed()
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            assert (trial.status.in_doubt, trial.status.parked) == (0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_a_crowd_of_them_is_resolved_and_each_offered_once(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        for number in range(25):
            strike(sandbox, UNANSWERED if number % 2 else UNPROCESSED)
        indexes = [sandbox.publish() for _ in range(30)]
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            assert (trial.status.in_doubt, trial.status.parked) == (0, 0)
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * 30

    async def test_while_it_lasts_the_handler_is_not_called_and_other_requests_are(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
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

    async def test_it_goes_on_after_a_restart(self, sandbox: Sandbox, store: MemoryStore) -> None:
        strike(sandbox, UNPROCESSED)
        index = sandbox.publish()
        for _ in range(3):
            async with sandbox.running(offering_bot(store, settle=timedelta(minutes=5))) as trial:
                await eventually(lambda trial=trial: trial.status.in_doubt)  # type: ignore[misc]  # mypy has no types for it
                await anyio.sleep(30)
        assert sent(sandbox) == 1
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]

    @pytest.mark.parametrize("fault", [UNANSWERED, UNPROCESSED])
    async def test_a_handler_that_does_not_let_it_pass_is_called_again_all_the_same(
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
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert (trial.status.in_doubt, trial.status.handled) == (0, 1)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [str(bid.amount) for bid in bids] == [AMOUNT]

    @pytest.mark.parametrize("fault", ["connect_stall", "stall"])
    async def test_a_handler_that_does_not_wait_for_the_answer_is_called_again_until_there_is_one(
        self, sandbox: Sandbox, store: MemoryStore, fault: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot, bids = new_bot(store, settle=timedelta(0)), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            with anyio.move_on_after(0.5):
                bids.append(await ctx.offer(amount=AMOUNT, currency=840))

        strike(sandbox, fault, times=5 if fault == "connect_stall" else 1)
        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert (trial.status.dead, trial.status.in_doubt) == (0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [str(bid.amount) for bid in bids] == [AMOUNT]
        # Nobody was there any more to be told.
        assert any("was not sent" in line for line in said(caplog)) == (fault == "connect_stall")

    async def test_one_that_drops_its_event_all_the_same_is_done(self, sandbox: Sandbox, store: MemoryStore) -> None:
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


class TestOutages:
    @pytest.mark.parametrize("fault", [UNANSWERED, UNPROCESSED])
    @pytest.mark.parametrize("settle", [timedelta(0), SETTLE])
    async def test_of_everything_park_nothing(
        self, sandbox: Sandbox, store: MemoryStore, fault: str, settle: timedelta
    ) -> None:
        strike(sandbox, fault)
        async with sandbox.running(offering_bot(store, settle=settle)) as trial:
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

    @pytest.mark.parametrize("fault", [UNANSWERED, UNPROCESSED])
    @pytest.mark.parametrize("trouble", ["unavailable_forever", "stall", "html_200", "unauthorized_200"])
    async def test_of_the_bid_listing_alone_park_nothing(
        self, sandbox: Sandbox, store: MemoryStore, fault: str, trouble: str
    ) -> None:
        strike(sandbox, fault)
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            with blind(sandbox, BIDS, trouble):
                index = sandbox.publish()
                await eventually(lambda: trial.status.in_doubt)
                await anyio.sleep(1800)
                assert (trial.status.in_doubt, trial.status.parked) == (1, 0)
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_do_not_make_it_ask_without_a_pause(self, sandbox: Sandbox, store: MemoryStore) -> None:
        strike(sandbox, UNPROCESSED)
        sandbox.publish()
        async with sandbox.running(offering_bot(store, settle=timedelta(0))) as trial:
            await eventually(lambda: sent(sandbox))
            with blind(sandbox, None):  # type: ignore[arg-type]  # everything
                before = len(sandbox.audit_log.calls)
                await anyio.sleep(3600)
                assert len(sandbox.audit_log.calls) - before < 3600
            await trial.idle()

    async def test_of_the_login_park_nothing(self, sandbox: Sandbox, store: MemoryStore) -> None:
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
    """A service that rounds shows a price that may be the offer's, or not: nobody can tell."""

    @pytest.fixture
    def sandbox(self) -> Sandbox:
        return Sandbox(Profile(amount_rounding="whole"))

    async def park(self, bot: Any, trial: Trial, sandbox: Sandbox) -> int:
        index = sandbox.publish()
        doubt = await parked(bot, trial)
        assert doubt.request == index
        return index

    async def test_it_alerts_once_a_run_and_tells_what_it_is_about(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        strike(sandbox, UNANSWERED)
        bot, began = offering_bot(store), datetime.fromtimestamp(sandbox.now(), UTC)
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
        (alert,) = said(caplog, logging.CRITICAL)
        assert f"request {index}" in alert
        async with sandbox.running(offering_bot(store)) as trial:
            await eventually(lambda: trial.status.parked)
        assert len(said(caplog, logging.CRITICAL)) == 2
        assert sent(sandbox) == 1

    async def test_it_is_looked_for_three_times(self, sandbox: Sandbox, store: MemoryStore) -> None:
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

    async def test_a_person_says_that_it_was_taken(self, sandbox: Sandbox, store: MemoryStore) -> None:
        strike(sandbox, UNANSWERED)
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            bids.append(await ctx.offer(amount=AMOUNT, currency=840))

        async with sandbox.running(bot) as trial:
            index = await self.park(bot, trial, sandbox)
            await bot.resolve(index, taken=True)
            assert await bot.doubts() == []
            await trial.idle()
        assert [(bid.index, bid.amount, bid.currency) for bid in bids] == [(index, Decimal(AMOUNT), 840)]
        assert sent(sandbox) == 1

    async def test_a_person_says_that_it_was_not_and_it_is_made_once(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        strike(sandbox, UNANSWERED)
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            index = await self.park(bot, trial, sandbox)
            await bot.resolve(index, taken=False)
            assert await bot.doubts() == []
            await trial.idle()
            assert (trial.status.parked, trial.status.offers["not taken"], trial.status.offers["confirmed"]) == (
                0,
                1,
                1,
            )
        # He was wrong, and said so: the second is his.
        assert len(amounts_on(sandbox, index)) == 2

    @pytest.mark.parametrize("taken", [True, False])
    async def test_a_person_can_do_so_after_a_restart(self, sandbox: Sandbox, store: MemoryStore, taken: bool) -> None:
        strike(sandbox, UNANSWERED)
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            index = await self.park(bot, trial, sandbox)
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            await parked(bot, trial)
            await bot.resolve(index, taken=taken)
            await trial.idle()
        assert sent(sandbox) == (1 if taken else 2)

    async def test_a_person_can_be_quicker_than_the_looking(self, sandbox: Sandbox, store: MemoryStore) -> None:
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
    async def test_what_is_not_in_doubt_cannot_be_resolved(
        self, sandbox: Sandbox, store: MemoryStore, request_of: int, revision: int
    ) -> None:
        strike(sandbox, UNANSWERED)
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            index = await self.park(bot, trial, sandbox)
            with pytest.raises(ValidationError, match="not in doubt"):
                await bot.resolve(index + request_of, taken=True, revision=revision)
            assert trial.status.parked == 1

    @pytest.mark.parametrize("taken", ["no", None, 0, 1, []], ids=repr)
    async def test_what_is_no_answer_decides_nothing(self, sandbox: Sandbox, store: MemoryStore, taken: Any) -> None:
        strike(sandbox, UNANSWERED)
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            index = await self.park(bot, trial, sandbox)
            with pytest.raises(ValidationError, match="taken must be True or False"):
                await bot.resolve(index, taken=taken)
            for request, revision in ((str(index), 0), (index, "0"), (index, False), (float(index), 0), (index, -1)):
                with pytest.raises(ValidationError, match="must be"):
                    await bot.resolve(request, taken=True, revision=revision)  # type: ignore[arg-type]  # on purpose
            assert (trial.status.parked, sent(sandbox)) == (1, 1)

    async def test_it_is_in_doubt_since_it_came_into_doubt(self, sandbox: Sandbox, store: MemoryStore) -> None:
        """Looks and restarts change nothing of that."""
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

    async def test_its_request_alone_waits(self, sandbox: Sandbox, store: MemoryStore) -> None:
        called: list[int] = []
        strike(sandbox, UNANSWERED)
        bot = offering_bot(store, called)
        async with sandbox.running(bot) as trial:
            index = await self.park(bot, trial, sandbox)
            calls = called.count(index)
            other = sandbox.publish()
            await eventually(lambda: amounts_on(sandbox, other))
            await anyio.sleep(6 * 3600)
            assert called.count(index) == calls
            assert (trial.status.dead, trial.status.retried) == (0, 0)


class TestAPersonAndALook:
    """Both may end a doubt in the same moment, and an old look must not end a new doubt."""

    @pytest.fixture
    def rig(self) -> _Rig:
        return _Rig()

    async def test_a_look_from_before_says_nothing_of_the_offer_that_was_made_after_it(self, rig: _Rig) -> None:
        first, second = record(at=1.0), record(at=2.0)
        async with anyio.create_task_group() as tasks:
            rig.resolver.add(first)
            tasks.start_soon(rig.resolver.resolve, first)
            await anyio.sleep(1)
            # A person says that it was not taken, the handler makes it again, and that is in doubt as well.
            await rig.resolver.decide(first, taken=False)
            rig.resolver.add(second)
            tasks.start_soon(rig.resolver.resolve, second)
            await anyio.sleep(1)
            rig.looks[0].set()
            await anyio.sleep(1)
            assert rig.advanced == ["intent"]
            assert rig.resolver.records() == (second,)
            rig.looks[1].set()
        assert rig.advanced == ["intent", "intent"]
        assert rig.resolver.records() == ()

    async def test_a_person_who_speaks_while_a_look_ends_does_not_end_the_bot(self, rig: _Rig) -> None:
        first = record(at=1.0)
        async with anyio.create_task_group() as tasks:
            rig.resolver.add(first)
            tasks.start_soon(rig.resolver.resolve, first)
            await anyio.sleep(1)
            rig.looks[0].set()
            # The look's end is being written down.
            await anyio.sleep(rig.writing / 2)
            with pytest.raises(ValidationError):
                await rig.resolver.decide(first, taken=False)
        assert rig.advanced == ["intent"]

    async def test_a_look_that_ends_while_a_person_speaks_does_not_end_the_bot(self, rig: _Rig) -> None:
        first = record(at=1.0)
        async with anyio.create_task_group() as tasks:
            rig.resolver.add(first)
            tasks.start_soon(rig.resolver.resolve, first)
            await anyio.sleep(1)
            tasks.start_soon(lambda: rig.resolver.decide(first, taken=True))
            await anyio.sleep(rig.writing / 2)
            rig.looks[0].set()
        assert rig.advanced == ["confirmed"]


class TestTheDeliveriesThatWait:
    def rig(self, crowd: int, *, parked: bool) -> InDoubtResolver:
        nothing: Any = None
        doubts = InDoubtResolver(nothing, nothing, Metrics(), settle=SETTLE)
        for request in range(1, crowd + 1):
            doubts.add(attrs.evolve(record(at=0.0), request=request, parked=parked))
        return doubts

    @pytest.mark.parametrize(("crowd", "pause"), [(1, 2), (20, 2), (100, 10), (5000, 60)])
    async def test_ask_less_often_the_more_they_are(self, crowd: int, pause: float) -> None:
        """Ten in a second, whatever their number."""
        assert self.rig(crowd, parked=False).retry_pause(1) == pytest.approx(pause)

    async def test_ask_once_a_minute_where_a_person_has_to_decide(self) -> None:
        assert self.rig(1, parked=True).retry_pause(1) == 60

    async def test_ask_no_more_where_there_is_no_doubt(self) -> None:
        assert self.rig(3, parked=False).retry_pause(4) is None


def record(*, at: float) -> OfferRecord:
    return OfferRecord(request=1, handler="quote", amount=Decimal(AMOUNT), currency=840, state="unknown", at=at)


class _Rig:
    """Doubts whose looks end when told to, each with a proof of absence, and whose writes take a while."""

    writing = 0.5

    def __init__(self) -> None:
        self.looks: list[anyio.Event] = []
        self.advanced: list[str] = []
        exchange: Any = self
        repository: Any = self
        self.resolver = InDoubtResolver(exchange, repository, Metrics(), settle=SETTLE)

    async def find(self, request: int) -> tuple[OfferRecord, ...]:
        return ()

    async def reconcile(self, *_: object, **__: object) -> NotApplied:
        self.looks.append(asked := anyio.Event())
        await asked.wait()
        return NotApplied()

    async def advance(self, record: OfferRecord, state: Any, *, step: str | None = None, **facts: Any) -> OfferRecord:
        assert not self.advancing, "two write about one offer: the store refuses the second, which ends the bot"
        self.advancing = True
        await anyio.sleep(self.writing)
        self.advancing = False
        self.advanced.append(state)
        return record

    async def return_to_handler(self, record: OfferRecord, **facts: Any) -> bool:
        await self.advance(record, "intent", **facts)
        return True

    advancing = False


def test_every_fault_that_is_named_here_is_there() -> None:
    assert {*TAKEN, *NOT_TAKEN} <= FAULTS.keys()
    assert OFFER == "quote/submitoffer"


async def test_an_offer_that_is_doubtful_again_and_again_is_looked_for_ever_more_rarely(
    sandbox: Sandbox, store: MemoryStore
) -> None:
    bot = offering_bot(store, settle=timedelta(seconds=30))
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
