"""Offers are made once for each request and revision, whoever asks, how often, and however the asking ends."""

from __future__ import annotations

import logging
from datetime import timedelta
from decimal import Decimal
from random import Random
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
    said,
    sent,
    strike,
)

from freight_exchange import RetryLater
from freight_exchange.bot.metrics import Metrics
from freight_exchange.bot.offers.in_doubt import InDoubtResolver
from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.errors import ConfigurationError, OfferRejectedError, ValidationError
from freight_exchange.models import Bid, NotApplied
from freight_exchange.sandbox.model.messages import Reply
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Cargo, Fault, Profile, Sandbox

pytestmark = pytest.mark.virtual_time

NO_CURRENCY = 99
D = Decimal(AMOUNT)
NOT_SENT = "not_found_page"


class TestAskedAgain:
    async def test_in_one_call_it_gives_the_first_bid_again(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            bids.extend([await ctx.offer(amount=AMOUNT, currency=840) for _ in range(3)])

        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [(bid.index, bid.amount) for bid in bids] == [(index, Decimal(AMOUNT))] * 3

    async def test_by_two_handlers_it_is_one_offer_and_both_have_the_bid(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        bot, bids = new_bot(store), dict[str, Bid]()

        @bot.on_new
        async def first(request: Any, ctx: Any) -> None:
            bids["first"] = await ctx.offer(amount=AMOUNT, currency=840)

        @bot.on_new
        async def second(request: Any, ctx: Any) -> None:
            bids["second"] = await ctx.offer(amount=AMOUNT, currency=840)

        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert bids["first"].amount == bids["second"].amount == Decimal(AMOUNT)

    async def test_by_the_child_tasks_of_a_handler_at_the_same_time_it_is_one_offer(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            async def ask() -> None:
                bids.append(await ctx.offer(amount=AMOUNT, currency=840))

            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(ask)

        strike(sandbox, "slow", seconds=3.0)
        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert trial.status.retried == 0
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [bid.amount for bid in bids] == [Decimal(AMOUNT)] * 10

    async def test_by_child_tasks_in_doubt_it_is_one_offer_and_no_failure(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new(retries=0)
        async def quote(request: Any, ctx: Any) -> None:
            async def ask() -> None:
                bids.append(await ctx.offer(amount=AMOUNT, currency=840))

            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(ask)

        strike(sandbox, UNANSWERED)
        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert trial.status.dead == 0
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [bid.amount for bid in bids] == [Decimal(AMOUNT)] * 3

    async def test_after_a_restart_the_bid_is_the_same(self, sandbox: Sandbox, store: MemoryStore) -> None:
        index = sandbox.publish()
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_updated
        async def quote(request: Any, ctx: Any) -> None:
            bids.append(await ctx.offer(amount=AMOUNT, currency=840))

        sandbox.exchange.update(index, sandbox.now(), Cargo(quantity=77))
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [(bid.index, bid.amount, bid.offer is not None) for bid in bids] == [(index, Decimal(AMOUNT), True)]

    async def test_every_request_has_an_offer_of_its_own(self, sandbox: Sandbox, store: MemoryStore) -> None:
        indexes = [sandbox.publish() for _ in range(30)]
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            assert trial.status.offers == {"confirmed": 30}
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * 30


class TestAnotherPrice:
    async def test_after_the_offer_was_taken_it_is_logged_and_not_sent(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            bids.append(await ctx.offer(amount=AMOUNT, currency=840))
            bids.append(await ctx.offer(amount=1900, currency=840))

        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [bid.amount for bid in bids] == [Decimal(AMOUNT)] * 2
        assert any("another price" in line and AMOUNT in line for line in said(caplog))

    @pytest.mark.parametrize("terms", [{"currency": 978}, {"currency": 840, "terms": "14 days"}])
    async def test_other_terms_are_another_offer_and_are_not_sent_either(
        self, sandbox: Sandbox, store: MemoryStore, terms: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840)
            await ctx.offer(amount=AMOUNT, **terms)

        sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert sent(sandbox) == 1
        assert any("another price" in line for line in said(caplog))

    async def test_the_same_price_written_otherwise_is_the_same(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount="1840.50", currency=840)
            await ctx.offer(amount=1840.5, currency=840)

        sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert sent(sandbox) == 1
        assert said(caplog) == []

    async def test_while_the_first_is_on_its_way_it_is_waited_for_and_not_sent(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot, bids, calls = new_bot(store), list[Bid](), list[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            calls.append(request.index)
            with anyio.move_on_after(1):
                await ctx.offer(amount=AMOUNT, currency=840)
            bids.append(await ctx.offer(amount=1900, currency=840))

        strike(sandbox, "slow", seconds=3.0)
        async with sandbox.running(bot) as trial:
            await trial.idle()
            index = sandbox.publish()
            await trial.idle()
            assert calls == [index]
            assert trial.status.dead == trial.status.retried == trial.status.in_doubt == 0
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [str(bid.amount) for bid in bids] == [AMOUNT]
        assert any("another price" in line for line in said(caplog))

    @pytest.mark.parametrize(("fault", "stands"), [(UNANSWERED, [AMOUNT]), (UNPROCESSED, ["1900"])])
    async def test_while_the_first_is_in_doubt_it_is_not_sent_before_that_is_known(
        self, sandbox: Sandbox, store: MemoryStore, fault: str, stands: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        bot, prices = new_bot(store), iter([AMOUNT])

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=next(prices, "1900"), currency=840)

        @bot.on_new
        async def second(request: Any, ctx: Any) -> None:
            await ctx.offer(amount="1900", currency=840)

        strike(sandbox, fault)
        async with sandbox.running(bot) as trial:
            await trial.idle()
            index = sandbox.publish()
            await trial.idle()
        assert amounts_on(sandbox, index) == stands
        assert any("another price" in line for line in said(caplog))

    async def test_as_long_as_nothing_was_sent_it_replaces_the_first(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot, prices = new_bot(store), iter(["1700", "1800"])

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=next(prices), currency=840)

        strike(sandbox, NOT_SENT)
        async with sandbox.running(bot) as trial:
            await trial.idle()
            index = sandbox.publish()
            await trial.idle()
        assert amounts_on(sandbox, index) == ["1800"]
        assert not any("another price" in line for line in said(caplog))

    async def test_a_revision_is_a_second_offer_and_each_is_made_once(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            for revision, price in enumerate((AMOUNT, "1700", "1600")):
                bids.append(await ctx.offer(amount=price, currency=840, revision=revision))
                bids.append(await ctx.offer(amount=price, currency=840, revision=revision))

        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT, "1700", "1600"]
        assert [str(bid.amount) for bid in bids[::2]] == [str(bid.amount) for bid in bids[1::2]]

    @pytest.mark.parametrize(("fault", "price"), [(UNANSWERED, AMOUNT), (UNANSWERED, "1700"), (UNPROCESSED, "1700")])
    async def test_a_revision_in_doubt_is_told_from_the_first_offer(
        self, sandbox: Sandbox, store: MemoryStore, fault: str, price: str
    ) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840)
            await ctx.offer(amount=price, currency=840, revision=1)

        strike(sandbox, fault, skip=1)
        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert trial.status.parked == 0
        assert amounts_on(sandbox, index) == [AMOUNT, price]


class TestSupersededPrices:
    async def test_a_first_price_that_comes_after_the_second_is_not_sent(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The request that is quoted first is the old one, and the shipper would take the old price for the new."""
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            if not bids:
                raise RetryLater(300)
            bids.append(await ctx.offer(amount=request.quantity, currency=840))

        @bot.on_updated
        async def follow(request: Any, ctx: Any) -> None:
            bids.append(await ctx.offer(amount=request.quantity, currency=840, revision=1))

        index = sandbox.publish(Cargo(quantity=10))
        async with sandbox.running(bot) as trial:
            await anyio.sleep(60)
            sandbox.exchange.update(index, sandbox.now(), Cargo(quantity=1000))
            await trial.idle()
            assert (trial.status.handled, trial.status.dead) == (2, 0)
        assert amounts_on(sandbox, index) == ["1000"]
        assert [str(bid.amount) for bid in bids] == ["1000", "1000"]
        assert any("revision 1" in line for line in said(caplog))

    async def test_it_is_sent_where_the_second_was_refused(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            with pytest.raises(OfferRejectedError):
                await ctx.offer(amount="1700", currency=NO_CURRENCY, revision=1)
            await ctx.offer(amount=AMOUNT, currency=840)

        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]


class TestTwoPricesAtATime:
    @pytest.mark.parametrize("late", [0, 4])
    @pytest.mark.parametrize("second", [AMOUNT, "1700"])
    @pytest.mark.parametrize("faults", [(UNANSWERED, UNANSWERED), (UNPROCESSED, UNANSWERED), (UNPROCESSED, None)])
    async def test_the_second_waits_until_the_first_is_known(
        self, store: MemoryStore, late: float, second: str, faults: tuple[str, str | None]
    ) -> None:
        sandbox, bot, bids = Sandbox(Profile(late_visibility=late)), new_bot(store), dict[int, Bid]()

        for revision, price in enumerate((AMOUNT, second)):

            @bot.on_new(id=str(revision))
            async def quote(request: Any, ctx: Any, revision: int = revision, price: str = price) -> None:
                bids[revision] = await ctx.offer(amount=price, currency=840, revision=revision)

        for fault in faults:
            if fault is not None:
                strike(sandbox, fault)
        async with sandbox.running(bot) as trial:
            index = sandbox.publish()
            await eventually(lambda: trial.status.handled == 2)
            assert (trial.status.parked, trial.status.dead, trial.status.retried) == (0, 0, 0)
        assert sorted(amounts_on(sandbox, index)) == sorted([AMOUNT, second])
        assert [str(bids[revision].amount) for revision in (0, 1)] == [AMOUNT, second]

    async def test_one_that_is_on_its_way_is_waited_for(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            with anyio.move_on_after(1):
                bids.append(await ctx.offer(amount=AMOUNT, currency=840))
            bids.append(await ctx.offer(amount="1700", currency=840, revision=1))

        strike(sandbox, "slow", seconds=4.0)
        async with sandbox.running(bot) as trial:
            await trial.idle()
            index = sandbox.publish()
            await trial.idle()
            assert "doubtful" not in trial.status.offers
        assert amounts_on(sandbox, index) == [AMOUNT, "1700"]
        assert [str(bid.amount) for bid in bids] == ["1700", AMOUNT, "1700"]

    async def test_both_in_doubt_in_an_older_store_are_told_apart_by_what_is_known(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        """A version before this one sent the second at once."""
        records: Any = _Kept([attrs.evolve(_record(0), state="confirmed", bid=Bid(index=4, amount=D, currency=840))])
        asked: list[list[Bid]] = []

        class Exchange:
            async def reconcile(self, write: Any, *, settle: timedelta, baseline: list[Bid]) -> NotApplied:
                asked.append(baseline)
                return NotApplied()

        exchange: Any = Exchange()
        doubts = InDoubtResolver(exchange, records, Metrics(), settle=timedelta(0))
        doubtful = _record(1)
        doubts.add(doubtful)
        await doubts.resolve(doubtful)
        assert asked == [[Bid(index=4, amount=D, currency=840)]]


class TestRefused:
    @pytest.mark.parametrize("status", [400, 413, 422])
    async def test_a_page_of_a_gateway_is_no_refusal(self, sandbox: Sandbox, store: MemoryStore, status: int) -> None:
        def page(good: Reply, now: float, random: Random) -> Reply:
            return attrs.evolve(good, status=status, body=b"<html>Request blocked by the firewall</html>")

        sandbox.strike(Fault(name="page", path=OFFER, processed=False, times=2, mutate=page))
        index = sandbox.publish()
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            assert (trial.status.dead, trial.status.parked) == (0, 0)
            assert trial.status.offers["doubtful"] == 2
        assert amounts_on(sandbox, index) == [AMOUNT]

    @pytest.mark.parametrize("taken", [True, False])
    async def test_a_person_may_undo_it(self, sandbox: Sandbox, store: MemoryStore, taken: bool) -> None:
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

    async def test_it_is_dead_at_once_and_asking_again_sends_nothing(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
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

    async def test_after_a_restart_too(self, sandbox: Sandbox, store: MemoryStore) -> None:
        async def refused_once() -> None:
            bot = new_bot(store)

            @bot.on_new
            async def quote(request: Any, ctx: Any) -> None:
                await ctx.offer(amount=AMOUNT, currency=NO_CURRENCY)

            async with sandbox.running(bot) as trial:
                await trial.idle()
                (dead,) = await bot.dead_letters()
                await bot.replay(dead.event, dead.handler)

        sandbox.publish()
        await refused_once()
        await refused_once()
        assert sent(sandbox) == 1

    async def test_another_price_is_refused_with_it_but_a_revision_is_sent(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            with pytest.raises(OfferRejectedError):
                await ctx.offer(amount=AMOUNT, currency=NO_CURRENCY)
            with pytest.raises(OfferRejectedError):
                await ctx.offer(amount=AMOUNT, currency=840)
            await ctx.offer(amount=AMOUNT, currency=840, revision=1)

        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert trial.status.dead == 0
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert sent(sandbox) == 2


class TestNotSent:
    @pytest.mark.parametrize("fault", ["refused", "dns", "connect_stall", NOT_SENT])
    async def test_what_cannot_have_arrived_is_simply_made_again(
        self, sandbox: Sandbox, store: MemoryStore, fault: str
    ) -> None:
        index, called = sandbox.publish(), list[int]()
        strike(sandbox, fault, times=5)
        async with sandbox.running(offering_bot(store, called)) as trial:
            await trial.idle()
            assert trial.status.offers == {"confirmed": 1}
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert len(called) >= 2

    async def test_an_hour_without_the_service_costs_no_attempts(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, called = new_bot(store), list[int]()

        @bot.on_new(retries=2)
        async def quote(request: Any, ctx: Any) -> None:
            await anyio.sleep(45)
            called.append(ctx.attempt)
            await ctx.offer(amount=AMOUNT, currency=840)

        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await eventually(lambda: trial.status.in_flight)
            strike(sandbox, "refused", path=None, times=None)
            await anyio.sleep(3600)
            assert not trial.status.live
            sandbox.exchange.faults.clear()
            await trial.idle()
            assert trial.status.dead == 0
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert len(called) > 3

    async def test_a_login_that_is_rejected_sends_nothing(self, sandbox: Sandbox, store: MemoryStore) -> None:
        called: list[int] = []
        async with sandbox.running(offering_bot(store, called)) as trial:
            await trial.idle()
            strike(sandbox, "login_message_401", path="login", times=3)
            sandbox.exchange.expire_tokens()
            index = sandbox.publish()
            await eventually(lambda: amounts_on(sandbox, index))
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_a_gateways_answer_to_a_login_is_no_refusal_of_the_offer(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
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


class TestCutOff:
    @pytest.mark.parametrize("fault", [None, UNANSWERED, UNPROCESSED, "server_error_after_commit", "stall"])
    async def test_a_handler_that_is_out_of_time_does_not_stop_its_offer(
        self, sandbox: Sandbox, store: MemoryStore, fault: str | None
    ) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new(timeout=1)
        async def quote(request: Any, ctx: Any) -> None:
            bids.append(await ctx.offer(amount=AMOUNT, currency=840))

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

    @pytest.mark.parametrize("patience", [0, 0.5, 2, 30])
    async def test_a_drain_records_what_came_of_an_offer_or_looks_for_it_afterwards(
        self, sandbox: Sandbox, store: MemoryStore, patience: float
    ) -> None:
        strike(sandbox, "slow", seconds=1.0)
        index = sandbox.publish()
        bot = offering_bot(store, drain=timedelta(seconds=patience))
        async with sandbox.running(bot):
            await eventually(lambda: sent(sandbox))
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            await anyio.sleep(60)
            assert trial.status.parked == trial.status.in_doubt == 0
            assert trial.status.handled == (0 if patience >= 2 else 1)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert sent(sandbox) == 1

    async def test_a_drain_waits_for_an_offer_whose_handler_is_gone(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store, settle=timedelta(0))

        @bot.on_new(timeout=1)
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840)

        strike(sandbox, "slow", seconds=4.0)
        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await eventually(lambda: sent(sandbox) and not trial.status.in_flight)
        assert trial.status.offers == {"confirmed": 1}
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_one_who_waits_for_his_turn_and_leaves_takes_nobody_elses(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            async def ask(patience: float) -> None:
                with anyio.move_on_after(patience):
                    bids.append(await ctx.offer(amount=AMOUNT, currency=840))

            async with anyio.create_task_group() as tasks:
                for patience in (9, 1, 2, 9, 1, 9):
                    tasks.start_soon(ask, patience)

        strike(sandbox, "slow", seconds=4.0)
        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert len(bids) == 3


class TestWhatIsAskedFor:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"amount": 0},
            {"amount": True},
            {"amount": "nan"},
            {"currency": "XXX"},
            {"revision": -1},
            {"revision": True},
            {"revision": "1"},
            {"allow_existing": 1},
            {"rates": {"": 1}},
        ],
        ids=str,
    )
    async def test_what_cannot_be_right_is_refused_and_leaves_no_trace(
        self, sandbox: Sandbox, store: MemoryStore, wrong: dict[str, Any]
    ) -> None:
        bot, refused = new_bot(store), list[str]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            asked: dict[str, Any] = {"amount": AMOUNT, "currency": 840, **wrong}
            try:
                await ctx.offer(**asked)
            except ValidationError as error:
                refused.append(str(error))
            await ctx.offer(amount=AMOUNT, currency=840)

        async with sandbox.running(bot) as trial:
            await trial.idle()
            index = sandbox.publish()
            await trial.idle()
        assert len(refused) == 1
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_everything_that_was_asked_for_is_sent(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store)
        fees = {"Ocean Freight": Decimal("1700.25"), "Chassis Fee": Decimal("140.25")}

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency="USD", rates=fees, terms="valid 14 days, ü")

        # Sent only after it went through the store, twice.
        strike(sandbox, NOT_SENT)
        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
        ((offer, *_),) = sandbox.audit_log.offers_on(index)
        assert (str(offer.amount), offer.terms) == (AMOUNT, "valid 14 days, ü")
        assert {name: str(fee) for name, fee in offer.rates.items()} == {
            "Ocean Freight": "1700.25",
            "Chassis Fee": "140.25",
        }

    async def test_an_event_that_is_about_no_request_has_nothing_to_offer_on(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        bot, errors = new_bot(store), list[Exception]()

        @bot.on_gap
        async def gap(gap: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=AMOUNT, currency=840)
            except ConfigurationError as error:
                errors.append(error)

        async with sandbox.running(bot) as trial:
            await trial.idle()
        await anyio.sleep(timedelta(days=9).total_seconds())
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert len(errors) == 1
        assert "no request" in str(errors[0])


async def test_an_offer_waits_for_the_own_bids_and_costs_its_handler_no_attempts(
    sandbox: Sandbox, store: MemoryStore
) -> None:
    # Two hours in which the bids cannot be listed, and everything else goes well.
    bot = new_bot(store)

    @bot.on_new(retries=2, timeout=60)
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=840)

    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        with blind(sandbox, BIDS):
            await anyio.sleep(7200)
            assert sent(sandbox) == 0
            assert trial.status.dead == 0
        await trial.idle()
    assert amounts_on(sandbox, index) == [AMOUNT]


async def test_nor_does_it_where_the_handler_has_little_time(sandbox: Sandbox, store: MemoryStore) -> None:
    bot = new_bot(store)

    @bot.on_new(retries=2, timeout=3)
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=840)

    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        with blind(sandbox, BIDS):
            await anyio.sleep(1800)
            assert (trial.status.dead, trial.status.retried, sent(sandbox)) == (0, 0, 0)
        await trial.idle()
    assert amounts_on(sandbox, index) == [AMOUNT]


async def test_no_offer_asks_for_a_listing(sandbox: Sandbox, store: MemoryStore) -> None:
    async with sandbox.running(offering_bot(store)) as trial:
        await trial.idle()
        await anyio.sleep(SETTLE.total_seconds())
        listings = len(sandbox.audit_log.calls_to("GET", BIDS))
        for _ in range(20):
            sandbox.publish()
        await trial.idle()
    assert len(sandbox.audit_log.calls_to("POST", OFFER)) == 20
    assert len(sandbox.audit_log.calls_to("GET", BIDS)) == listings


async def test_what_an_offer_comes_to_is_counted_and_logged(
    sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    index = sandbox.publish()
    with caplog.at_level(logging.INFO, "freight_exchange.bot"):
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            assert trial.status.offers == {"confirmed": 1}
    (line,) = [line for line in said(caplog, logging.INFO) if "was taken" in line]
    assert f"request {index}" in line
    assert AMOUNT in line


def _record(revision: int) -> OfferRecord:
    return OfferRecord(request=4, revision=revision, handler="quote", amount=D, currency=840, state="unknown", at=0.0)


class _Kept:
    """Entries that are only looked at."""

    def __init__(self, records: list[OfferRecord]) -> None:
        self._records = records

    async def find(self, request: int) -> list[OfferRecord]:
        return self._records

    async def advance(self, record: OfferRecord, state: Any, *, step: str | None = None, **facts: Any) -> OfferRecord:
        return attrs.evolve(record, state=state, **facts)

    async def return_to_handler(self, record: OfferRecord, **facts: Any) -> bool:
        return True
