"""Tests of the ledger of answers with other replicas, and after a replica that died while it sent an answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import anyio
import attrs
import pytest
from tests.unit.bot.rig import SETTLE
from tests.unit.store.rows import BINDING, LEASE

from freight_exchange import FreightExchange, FreightExchangeError, OfferInDoubtError, RetryLater, ValidationError
from freight_exchange.bot.answers.ledger import AnswerLedger
from freight_exchange.bot.answers.record import AnswerRecord
from freight_exchange.bot.metrics.metrics import Metrics
from freight_exchange.bot.offers.initial_bid_check import RestoreState
from freight_exchange.bot.unit_of_work import UnitOfWork
from freight_exchange.feed.feed import Feed
from freight_exchange.platform import clock
from freight_exchange.store import MemoryStore
from freight_exchange.store.seat import Adoption
from freight_exchange.store.work import SEND_WINDOW, WorkStore
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time

T = TypeVar("T")


class Replica:
    """Ledger of answers on a store and an exchange, for a request with an offer."""

    def __init__(self, sandbox: Sandbox, exchange: FreightExchange, tasks: Any, offer: int) -> None:
        self.sandbox = sandbox
        self.work: WorkStore = MemoryStore().open(BINDING, lease=LEASE)
        self.reached: Callable[[str], None] = lambda _: None
        feed = SimpleNamespace(time=anyio.current_time)
        access = SimpleNamespace(inline=True, state=lambda: self.work, run=self._run)
        unit_of_work = UnitOfWork(cast("Feed", feed), lambda point: self.reached(point), cast("Any", access))
        self.ledger = AnswerLedger(exchange, unit_of_work, tasks, Metrics(), settle=SETTLE)
        self.approval = AnswerRecord(request=1, offer=offer, approved=True, handler="award", event=1)

    async def _run(self, work: Callable[[], T]) -> T:
        return work()

    async def approve(self) -> object:
        return await self.ledger.answer(self.approval, seen=None, check=lambda: None)

    def record(self, state: Any) -> AnswerRecord:
        """Write the approval into the store, as another replica does."""
        record = attrs.evolve(self.approval, state=state)
        self.work.put_effect(record.to_effect(), expected_state=self.state)
        return record

    @property
    def state(self) -> str | None:
        effect = self.work.effect(self.approval.key)
        return None if effect is None else effect.state

    @property
    def sent(self) -> int:
        return len(self.sandbox.audit_log.calls_to("POST", "quote/approveoffer"))

    @property
    def calls(self) -> int:
        return len(self.sandbox.audit_log.calls)


@asynccontextmanager
async def running() -> AsyncIterator[Replica]:
    sandbox = Sandbox()
    request = sandbox.publish()
    async with sandbox.client() as forwarder:
        bid = await forwarder.bids.submit(request, amount=900, currency="USD")
    assert bid.offer is not None
    assert bid.offer.id is not None
    async with sandbox.client(sandbox.shipper) as exchange, anyio.create_task_group() as tasks:
        await exchange.login()
        yield Replica(sandbox, exchange, tasks, bid.offer.id)
        tasks.cancel_scope.cancel()


async def test_answer_that_another_replica_is_sending_is_left_to_it() -> None:
    async with running() as replica:
        replica.record("sending")
        calls = replica.calls
        with pytest.raises(OfferInDoubtError):
            await replica.approve()
        assert (replica.state, replica.calls) == ("sending", calls)


async def test_answer_of_an_ended_replica_is_checked_once_it_cannot_arrive_any_more() -> None:
    async with running() as replica:
        record = replica.record("sending")
        await replica.ledger.adopt(Adoption(effects=(record.to_effect(),), wait=20.0))
        calls = replica.calls
        await anyio.sleep(19)
        with pytest.raises(OfferInDoubtError):
            await replica.approve()
        with pytest.raises(ValidationError, match="may still arrive for 1 s"):
            await replica.ledger.resolve(record.request, record.offer, taken=False)
        assert (replica.state, replica.calls) == ("unknown", calls)
        await anyio.sleep(1 + 2 * SETTLE.total_seconds())
        assert replica.state == "intent"
        await replica.approve()
        assert (replica.state, replica.sent) == ("confirmed", 1)


async def test_no_answer_is_given_before_the_service_shows_those_that_a_restored_store_lacks() -> None:
    async with running() as replica:
        restore_state = SimpleNamespace(is_restored=True)
        await replica.ledger.start(Adoption(wait=20.0), cast("RestoreState", restore_state))
        calls = replica.calls
        await anyio.sleep(19)
        with pytest.raises(RetryLater, match="the store was restored"):
            await replica.approve()
        assert (replica.state, replica.calls) == (None, calls)
        await anyio.sleep(1 + SETTLE.total_seconds())
        await replica.approve()
        assert (replica.state, replica.sent) == ("confirmed", 1)


async def test_answer_that_is_confirmed_during_its_adoption_is_not_checked() -> None:
    async with running() as replica:
        adoption = Adoption(effects=(replica.record("sending").to_effect(),), wait=20.0)
        replica.record("confirmed")
        calls = replica.calls
        await replica.ledger.adopt(adoption)
        await anyio.sleep(30)
        assert (replica.state, replica.calls) == ("confirmed", calls)


async def test_late_answer_of_an_ended_replica_is_found() -> None:
    async with running() as replica:
        record = replica.record("sending")
        await replica.ledger.adopt(Adoption(effects=(record.to_effect(),), wait=20.0))
        await anyio.sleep(19)
        async with replica.sandbox.client(replica.sandbox.shipper) as other:
            await other.offers.approve(record.offer)
        await anyio.sleep(5)
        await replica.approve()
        assert (replica.state, replica.sent) == ("confirmed", 1)


async def test_answer_is_not_sent_once_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as replica:

        def freeze(point: str) -> None:
            if point == "before send":
                later = clock.boot_time() + SEND_WINDOW + 1
                monkeypatch.setattr(clock, "boot_time", lambda: later)

        replica.reached = freeze
        with pytest.raises(FreightExchangeError) as raised:
            await replica.approve()
        assert not raised.value.may_have_taken_effect
        assert (replica.state, replica.sent) == ("intent", 0)


@pytest.mark.parametrize("point", ["before intent", "before sending"])
async def test_answer_that_another_replica_begins_at_the_same_time_is_in_doubt(point: str) -> None:
    async with running() as replica:

        def overtake(reached: str) -> None:
            if reached == point:
                replica.record("sending")

        replica.reached = overtake
        with pytest.raises(OfferInDoubtError):
            await replica.approve()
        assert (replica.state, replica.sent) == ("sending", 0)


async def test_look_does_not_resolve_the_newer_doubt_of_another_replica() -> None:
    """A person has resolved the first doubt, and the answer was sent again: the look-up proves nothing about it."""
    async with running() as replica:
        adopted = replica.record("unknown")
        await replica.ledger.adopt(Adoption(effects=(adopted.to_effect(),)))
        newer = attrs.evolve(adopted, at=anyio.current_time() + 1)
        replica.work.put_effect(newer.to_effect(), expected_state="unknown")
        await anyio.sleep(2 * SETTLE.total_seconds())
        assert replica.work.effect(newer.key) == newer.to_effect()


async def test_reply_to_an_answer_that_is_sent_again_is_not_that_of_the_later_one() -> None:
    async with running() as replica:

        def send_again(point: str) -> None:
            if point == "after send":
                effect = replica.work.effect(replica.approval.key)
                assert effect is not None
                replica.work.put_effect(attrs.evolve(effect, at=effect.at + 1), expected_state="sending")

        replica.reached = send_again
        with pytest.raises(OfferInDoubtError):
            await replica.approve()
        assert replica.state == "sending"


def test_what_a_newer_version_has_stored_is_ignored() -> None:
    """During a deploy, newer replicas write to the same tables."""
    record = AnswerRecord(request=1, offer=7, approved=True, handler="award", event=1)
    effect = record.to_effect()
    newer = json.dumps({**json.loads(effect.payload), "invented_later": 1}).encode()
    assert AnswerRecord.from_effect(attrs.evolve(effect, payload=newer)) == record
