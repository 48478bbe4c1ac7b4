"""Tests of offers that a replica takes over from one that died during a send."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.rig import AMOUNT, amounts_on, offering_bot

from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time

WAIT = 20.0


class Inherited(MemoryStore):
    """Store with an offer in flight of a dead replica, which may still arrive."""

    def join(self, binding: Any, **options: Any) -> Any:
        self.seat: Any = super().join(binding, **options)
        record = OfferRecord(request=1, state="sending", handler="quote", amount=Decimal(AMOUNT), currency=840)
        self.seat.work.put_effect(record.to_effect(), expected_state=None)
        adoption = attrs.evolve(self.seat.adopt(), wait=WAIT)
        vars(self.seat).update(adopt=lambda: adoption)
        return self.seat

    @property
    def states(self) -> list[str]:
        return [effect.state for effect in self.seat.work.effects_under("offer:")]


async def test_offer_of_an_ended_replica_is_checked_once_it_cannot_arrive_any_more(sandbox: Sandbox) -> None:
    index, store = sandbox.publish(), Inherited()
    async with sandbox.running(offering_bot(store)) as trial:
        await anyio.sleep(WAIT - 1)
        assert (store.states, amounts_on(sandbox, index)) == (["unknown"], [])
        async with sandbox.client() as ended:
            await ended.bids.submit(index, amount=AMOUNT, currency=840)
        await trial.idle()
        assert store.states == ["confirmed"]
    assert amounts_on(sandbox, index) == [AMOUNT]
