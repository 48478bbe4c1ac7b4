"""Tests of two replicas on one store, and a person who resolves an offer that one of them is checking."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import anyio
import attrs
import pytest
from tests.unit.bot.rig import AMOUNT, UNANSWERED, UNPROCESSED, amounts_on, eventually, strike
from tests.unit.store.rows import BINDING, LEASE

from freight_exchange import AlreadyOfferedError, FreightExchange, OfferInDoubtError, StoreError
from freight_exchange.bot.metrics.metrics import Metrics
from freight_exchange.bot.offers.initial_bid_check import RestoreState
from freight_exchange.bot.offers.ledger import OfferLedger
from freight_exchange.bot.offers.record import OfferRecord, manual_changes
from freight_exchange.bot.unit_of_work import UnitOfWork
from freight_exchange.feed.feed import Feed
from freight_exchange.store import MemoryStore
from freight_exchange.store.seat import Adoption
from freight_exchange.store.work import WorkStore
from freight_exchange.testing import Profile, Sandbox

pytestmark = pytest.mark.virtual_time

T = TypeVar("T")

SETTLE = timedelta(seconds=10)
LATE = 9.0
"""Seconds until the service lists an offer, which `SETTLE` allows for."""
OTHERS = 990


class Replicas:
    """Ledgers of two replicas on one store, with an offer in doubt at the first one."""

    def __init__(self, sandbox: Sandbox, exchange: FreightExchange, tasks: Any) -> None:
        self.sandbox, self.exchange = sandbox, exchange
        self.work: WorkStore = MemoryStore().open(BINDING, lease=LEASE)
        self.first, self.second = (self._ledger(exchange, tasks) for _ in range(2))
        self.draft = OfferRecord(
            request=sandbox.publish(), handler="quote", event=1, amount=Decimal(AMOUNT), currency=840
        )

    def _ledger(self, exchange: FreightExchange, tasks: Any) -> OfferLedger:
        feed = SimpleNamespace(time=anyio.current_time)
        access = SimpleNamespace(inline=True, state=lambda: self.work, run=self._run)
        unit_of_work = UnitOfWork(cast("Feed", feed), lambda _: None, cast("Any", access))
        return OfferLedger(exchange, unit_of_work, tasks, Metrics(), handlers=("quote",), settle=SETTLE)

    async def _run(self, work: Callable[[], T]) -> T:
        return work()

    async def offer(self, ledger: OfferLedger, fault: str) -> None:
        strike(self.sandbox, fault)
        with pytest.raises(OfferInDoubtError):
            await ledger.offer(self.draft, event=None, allow_existing=True, check=lambda: None)

    def decide(self, *, taken: bool) -> None:
        """Resolve the offer as a person does while the replicas run."""
        known = self.record
        changes = manual_changes(known, taken=taken)
        changed = attrs.evolve(known, at=anyio.current_time(), **changes)
        assert self.work.put_effect(changed.to_effect(), expected_state=known.state)

    @property
    def record(self) -> OfferRecord:
        effect = self.work.effect(self.draft.key)
        assert effect is not None
        return OfferRecord.from_effect(effect)


@asynccontextmanager
async def replicas() -> AsyncIterator[Replicas]:
    sandbox = Sandbox(Profile(late_visibility=LATE))
    async with sandbox.client() as exchange, anyio.create_task_group() as tasks:
        await exchange.login()
        both = Replicas(sandbox, exchange, tasks)
        await anyio.sleep(LATE)
        yield both
        tasks.cancel_scope.cancel()


async def test_result_of_a_check_does_not_resolve_the_newer_doubt_of_another_replica(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The check began before the second send, so it proves nothing about that."""
    async with replicas() as both:
        await both.offer(both.first, UNPROCESSED)
        await anyio.sleep(SETTLE.total_seconds() / 2)
        both.decide(taken=False)
        await both.offer(both.second, UNANSWERED)
        newer = both.record
        await eventually(lambda: "is no longer checked" in caplog.text)
        assert both.record == newer
        await eventually(lambda: both.record.state == "confirmed")
        assert amounts_on(both.sandbox, both.draft.request) == [AMOUNT]


async def test_person_who_resolves_an_offer_that_was_resolved_elsewhere_ends_no_bot() -> None:
    async with replicas() as both:
        await both.offer(both.first, UNPROCESSED)
        both.decide(taken=False)
        decided = both.record
        with pytest.raises(StoreError, match="a person or another replica has changed the offer on request 1"):
            await both.first.resolve(both.draft.request, 0, taken=True)
        assert both.record == decided


async def test_decision_that_was_not_recorded_allows_no_offer_beside_another_bid() -> None:
    """A bid that a later read finds stops the offer that its handler may repeat."""
    async with replicas() as both:
        await both.first.start(Adoption(), cast("RestoreState", SimpleNamespace(is_restored=False)))
        await both.offer(both.first, UNPROCESSED)
        both.decide(taken=False)
        with pytest.raises(StoreError, match="has changed the offer"):
            await both.first.resolve(both.draft.request, 0, taken=False)
        both.sandbox.exchange.offer(both.sandbox.forwarder, both.draft.request, both.sandbox.now(), amount=OTHERS)
        await anyio.sleep(LATE)
        assert [bid.index for bid in await both.exchange._own_bids()] == [both.draft.request]
        with pytest.raises(AlreadyOfferedError):
            await both.first.offer(both.draft, event=None, allow_existing=False, check=lambda: None)
        assert amounts_on(both.sandbox, both.draft.request) == [str(OTHERS)]
