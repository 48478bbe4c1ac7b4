"""Tests of replies to offers that another replica has taken over in the meantime."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.rig import OFFER, amounts_on, eventually, messages, offering_bot

from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.errors import FencedError, StoreAwayError
from freight_exchange.models import Bid, Offer
from freight_exchange.store import MemoryStore
from freight_exchange.store.work import Delivery
from freight_exchange.testing import Fault, Sandbox
from freight_sandbox.wire import Reply

pytestmark = pytest.mark.virtual_time


class TakenOver(MemoryStore):
    """Store in which another replica takes an offer over as soon as it was sent.

    Args:
        change: Derives the stored offer from the one being sent.
        error: Raised by the writes of the first replica from then on, twice.
    """

    def __init__(self, change: Callable[[OfferRecord], OfferRecord], error: Exception) -> None:
        super().__init__()
        self._change = change
        self._errors = [error] * 2
        self.is_taken_over = False
        self.seat: Any

    def join(self, binding: Any, **options: Any) -> Any:
        self.seat = super().join(binding, **options)
        return _Proxy(self.seat, work=_Proxy(self.seat.work, put_effect=self._put_effect))

    def _put_effect(self, effect: Any, **options: Any) -> bool:
        if self.is_taken_over and self._errors:
            raise self._errors.pop()
        return bool(self.seat.work.put_effect(effect, **options))

    def visit(self, point: str) -> None:
        if point == "after send" and not self.is_taken_over:
            self.is_taken_over = True
            (record,) = self.offers()
            self.seat.work.put_effect(self._change(record).to_effect(), expected_state=record.state)

    def offers(self) -> list[OfferRecord]:
        return [OfferRecord.from_effect(effect) for effect in self.seat.work.effects_under("offer:")]


class _Proxy:
    def __init__(self, target: Any, **replaced: Any) -> None:
        self._target = target
        vars(self).update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)


async def run(
    sandbox: Sandbox, store: TakenOver, until: Callable[[], object], called: list[int] | None = None
) -> OfferRecord:
    """Run a bot until a condition holds, and return its stored offer."""
    bot = offering_bot(store, called)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bot.serve, exchange=sandbox.client(), failpoints=store.visit))
        await eventually(lambda: store.is_taken_over)
        await eventually(until)
        (record,) = store.offers()
        bot.stop()
    return record


FENCED = FencedError("the lease was over")


def adopted(record: OfferRecord) -> OfferRecord:
    return attrs.evolve(record, state="unknown", at=record.at + 1, unknown_since=record.at)


def sent_again(record: OfferRecord) -> OfferRecord:
    """Send it a second time after a person's decision, which resets the count of sends."""
    return attrs.evolve(record, at=record.at + 60)


def refuse(good: Reply, now: float, random: Random) -> Reply:
    return attrs.evolve(good, status=400, body=b'{"message": "Offers are closed for today."}')


async def test_reply_is_recorded_while_nothing_else_is_known(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    index, store = sandbox.publish(), TakenOver(adopted, FENCED)
    record = await run(sandbox, store, lambda: store.offers()[0].state == "confirmed")
    assert record.bid is not None
    assert len(amounts_on(sandbox, index)) == 1
    assert "the offer on request 1 was answered after another replica had taken it over; the reply is recorded" in (
        caplog.text
    )


async def test_reply_stops_an_offer_that_counts_as_absent(sandbox: Sandbox) -> None:
    index = sandbox.publish()
    store = TakenOver(lambda record: attrs.evolve(record, state="intent", at=record.at + 60, resends=1), FENCED)
    await run(sandbox, store, lambda: store.offers()[0].state == "confirmed")
    assert len(amounts_on(sandbox, index)) == 1


async def test_reply_to_an_offer_that_is_sent_again_is_an_alarm(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.publish()
    store = TakenOver(sent_again, FENCED)
    record = await run(sandbox, store, lambda: messages(caplog, logging.CRITICAL))
    assert record.state == "sending"
    assert "so late that it counted as absent and was sent again" in caplog.text


async def test_refusal_of_an_offer_that_is_sent_again_is_not_that_of_the_later_one(sandbox: Sandbox) -> None:
    sandbox.publish()
    sandbox.strike(Fault(name="closed", path=OFFER, processed=False, mutate=refuse))
    store, called = TakenOver(sent_again, FENCED), list[int]()
    record = await run(sandbox, store, lambda: len(called) > 1, called)
    assert (record.state, record.refusal) == ("sending", None)


@pytest.mark.parametrize(
    ("other_offer", "is_alarm"),
    [
        pytest.param(lambda offer: Offer(id=offer + 1), True, id="another bid"),
        pytest.param(lambda offer: Offer(id=offer), False, id="the same bid"),
        pytest.param(lambda offer: None, False, id="perhaps the same, from a listing"),
    ],
)
async def test_reply_to_an_offer_that_was_taken_meanwhile_is_an_alarm_if_its_bid_is_another(
    sandbox: Sandbox,
    caplog: pytest.LogCaptureFixture,
    other_offer: Callable[[int], Offer | None],
    is_alarm: bool,
) -> None:
    index = sandbox.publish()

    def taken(record: OfferRecord) -> OfferRecord:
        (made,) = sandbox.audit_log.offers
        bid = Bid(index=index, offer=other_offer(made.offer.index))
        return attrs.evolve(record, state="confirmed", at=record.at + 60, bid=bid)

    store, called = TakenOver(taken, FENCED), list[int]()
    record = await run(sandbox, store, lambda: len(called) > 1, called)
    assert record.state == "confirmed"
    assert bool(messages(caplog, logging.CRITICAL)) is is_alarm


class Restored(TakenOver):
    """Store that loses an offer as soon as it was sent, as one that is restored from a backup."""

    def join(self, binding: Any, **options: Any) -> Any:
        proxy = super().join(binding, **options)
        proxy.work.effects_under = lambda prefix: [] if self.is_taken_over else self.seat.work.effects_under(prefix)
        proxy.work.amend_effect = lambda effect, *, replaces: False
        return proxy


async def test_reply_to_an_offer_that_the_store_has_lost_is_no_alarm(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not sent again, since its bid is found before another offer is made."""
    sandbox.publish()
    store = Restored(lambda record: record, FENCED)
    await run(sandbox, store, lambda: "but the store no longer has it, because a backup was restored" in caplog.text)
    assert not messages(caplog, logging.CRITICAL)


async def test_reply_is_recorded_once_the_store_is_back(sandbox: Sandbox) -> None:
    index, store = sandbox.publish(), TakenOver(lambda record: record, StoreAwayError("the database is away"))
    await run(sandbox, store, lambda: store.offers()[0].state == "confirmed")
    assert len(amounts_on(sandbox, index)) == 1


class BetweenTwoWrites(MemoryStore):
    """Store with an offer in flight of a dead replica, whose reply arrives during the adoption."""

    def join(self, binding: Any, **options: Any) -> Any:
        self.seat: Any = super().join(binding, **options)
        record = OfferRecord(request=1, state="sending", handler="quote", amount=Decimal(1), currency=840)
        self.seat.work.put_effect(record.to_effect(), expected_state=None)
        return self.seat

    def visit(self, point: str) -> None:
        # Behind the adoption, and before the offer is marked as in doubt.
        if point == "before recover":
            (effect,) = self.seat.work.effects_under("offer:")
            self.seat.work.put_effect(attrs.evolve(effect, state="confirmed"), expected_state="sending")


async def test_reply_that_comes_during_an_adoption_ends_no_bot(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    store = BetweenTwoWrites()
    bot = offering_bot(store)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bot.serve, exchange=sandbox.client(), failpoints=store.visit))
        await eventually(lambda: bot.status().state == "running")
        assert [effect.state for effect in store.seat.work.effects_under("offer:")] == ["confirmed"]
        bot.stop()
    assert "the offer on request 1 is no longer checked" in caplog.text


class Unacknowledged(TakenOver):
    """Store that loses its connection once, between the commit of a reply and its acknowledgement.

    Args:
        method: Method of the work that commits the reply.
        change: Derives the offer that is stored before the reply from the one being sent.
    """

    def __init__(self, method: str, change: Callable[[OfferRecord], OfferRecord]) -> None:
        super().__init__(change, FENCED)
        self._errors.clear()
        self._method = method
        self.is_cut = False
        self.settled: Sequence[Delivery] = ()

    def join(self, binding: Any, **options: Any) -> Any:
        proxy = super().join(binding, **options)
        setattr(proxy.work, self._method, self._write)
        return proxy

    def _write(self, effect: Any, **options: Any) -> bool:
        is_written = bool(getattr(self.seat.work, self._method)(effect, **options))
        if effect.state in ("confirmed", "rejected") and is_written and not self.is_cut:
            self.is_cut = True
            raise StoreAwayError("the database is away")
        return is_written

    def has_settled(self) -> bool:
        """Return whether a delivery has ended, after keeping it."""
        self.settled = [*self.seat.work.deliveries(state="done"), *self.seat.work.deliveries(state="dead")]
        return bool(self.settled)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        pytest.param("put_effect", lambda record: record, id="recorded in time"),
        pytest.param("amend_effect", adopted, id="recorded late"),
    ],
)
@pytest.mark.parametrize("is_refused", [False, True])
async def test_reply_whose_commit_was_not_acknowledged_is_that_of_the_handler(
    sandbox: Sandbox, method: str, change: Callable[[OfferRecord], OfferRecord], is_refused: bool
) -> None:
    sandbox.publish()
    if is_refused:
        sandbox.strike(Fault(name="closed", path=OFFER, processed=False, mutate=refuse))
    store, called = Unacknowledged(method, change), list[int]()
    record = await run(sandbox, store, store.has_settled, called)
    assert store.is_cut
    assert (record.state, called) == ("rejected" if is_refused else "confirmed", [1])
    (delivery,) = store.settled
    assert (delivery.state, delivery.attempts) == ("dead" if is_refused else "done", 1)
    assert is_refused == (delivery.error or "").startswith("OfferRejectedError: the offer on request 1 was refused")
