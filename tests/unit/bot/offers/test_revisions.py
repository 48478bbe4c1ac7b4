"""Tests of revisions, which are deliberate further prices on a request."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.rig import (
    AMOUNT,
    UNANSWERED,
    UNPROCESSED,
    amounts_on,
    eventually,
    messages,
    new_bot,
    run_until_idle,
    strike,
)

from freight_exchange import RetryLater
from freight_exchange.bot.metrics.metrics import Metrics
from freight_exchange.bot.offers.in_doubt import InDoubtResolver
from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.errors import OfferRejectedError
from freight_exchange.models import Bid, NotApplied
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Cargo, Profile, Sandbox

pytestmark = pytest.mark.virtual_time
NO_CURRENCY = 99
D = Decimal(AMOUNT)


class TestOtherPrice:
    async def test_each_revision_is_sent_once(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            for revision, price in enumerate((AMOUNT, "1700", "1600")):
                bids.append(await ctx.offer(amount=price, currency=840, revision=revision))
                bids.append(await ctx.offer(amount=price, currency=840, revision=revision))

        index = sandbox.publish()
        await run_until_idle(sandbox, bot)
        assert amounts_on(sandbox, index) == [AMOUNT, "1700", "1600"]
        assert [str(bid.amount) for bid in bids[::2]] == [str(bid.amount) for bid in bids[1::2]]

    @pytest.mark.parametrize(("fault", "price"), [(UNANSWERED, AMOUNT), (UNANSWERED, "1700"), (UNPROCESSED, "1700")])
    async def test_revision_in_doubt_is_distinguished_from_first_offer(
        self, sandbox: Sandbox, store: MemoryStore, fault: str, price: str
    ) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840)
            await ctx.offer(amount=price, currency=840, revision=1)

        strike(sandbox, fault, skip=1)
        index = sandbox.publish()
        status = await run_until_idle(sandbox, bot)
        assert status.parked == 0
        assert amounts_on(sandbox, index) == [AMOUNT, price]


class TestOlderRevision:
    async def test_is_not_sent_after_newer_one(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The older price would replace the newer one."""
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
        assert any("revision 1" in line for line in messages(caplog))

    async def test_is_sent_after_refused_newer_one(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            with pytest.raises(OfferRejectedError):
                await ctx.offer(amount="1700", currency=NO_CURRENCY, revision=1)
            await ctx.offer(amount=AMOUNT, currency=840)

        index = sandbox.publish()
        await run_until_idle(sandbox, bot)
        assert amounts_on(sandbox, index) == [AMOUNT]


class TestConcurrentRevisions:
    @pytest.mark.parametrize("late", [0, 4])
    @pytest.mark.parametrize("second", [AMOUNT, "1700"])
    @pytest.mark.parametrize("faults", [(UNANSWERED, UNANSWERED), (UNPROCESSED, UNANSWERED), (UNPROCESSED, None)])
    async def test_second_waits_for_result_of_first(
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

    async def test_second_waits_for_offer_being_sent(self, sandbox: Sandbox, store: MemoryStore) -> None:
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

    async def test_doubts_of_older_store_are_distinguished(self, sandbox: Sandbox, store: MemoryStore) -> None:
        """Earlier versions sent the second offer at once."""
        records: Any = _Kept([attrs.evolve(_record(0), state="confirmed", bid=Bid(index=4, amount=D, currency=840))])
        baselines: list[list[Bid]] = []

        class Exchange:
            async def reconcile(self, write: Any, *, settle: timedelta, baseline: list[Bid]) -> NotApplied:
                baselines.append(baseline)
                return NotApplied()

        exchange: Any = Exchange()
        doubts = InDoubtResolver(exchange, records, Metrics(), settle=timedelta(0))
        doubtful = _record(1)
        doubts.add(doubtful)
        await doubts.resolve(doubtful)
        assert baselines == [[Bid(index=4, amount=D, currency=840)]]


def _record(revision: int) -> OfferRecord:
    return OfferRecord(request=4, revision=revision, handler="quote", amount=D, currency=840, state="unknown", at=0.0)


class _Kept:
    """Repository with fixed records."""

    def __init__(self, records: list[OfferRecord]) -> None:
        self._records = records

    async def find(self, request: int) -> list[OfferRecord]:
        return self._records

    async def advance(self, record: OfferRecord, state: Any, *, step: str | None = None, **facts: Any) -> OfferRecord:
        return attrs.evolve(record, state=state, **facts)

    async def return_to_handler(self, record: OfferRecord, **facts: Any) -> bool:
        return True
