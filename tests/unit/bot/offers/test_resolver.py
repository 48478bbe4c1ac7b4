"""Tests of concurrent checks and decisions, and of a cancelled `resolve`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.rig import (
    AMOUNT,
    SETTLE,
)

from freight_exchange.bot.metrics.metrics import Metrics
from freight_exchange.bot.offers.in_doubt import InDoubtResolver
from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.errors import ValidationError
from freight_exchange.models import NotApplied

pytestmark = pytest.mark.virtual_time


class TestConcurrentDecisions:
    """A check and a person may end a doubt at the same time; an old check must not end a new doubt."""

    @pytest.fixture
    def rig(self) -> _Rig:
        return _Rig()

    async def test_old_check_resolves_no_new_doubt(self, rig: _Rig) -> None:
        first, second = record(at=1.0), record(at=2.0)
        async with anyio.create_task_group() as tasks:
            rig.resolver.add(first)
            tasks.start_soon(rig.resolver.resolve, first)
            await anyio.sleep(1)
            # A person decides that it was not taken, the handler sends it again, and that is in doubt as well.
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

    async def test_decision_during_check_raises(self, rig: _Rig) -> None:
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

    async def test_offer_that_may_still_arrive_is_not_decided_to_be_absent(self, rig: _Rig) -> None:
        first = record(at=1.0)
        async with anyio.create_task_group() as tasks:
            rig.resolver.add(first)
            tasks.start_soon(rig.resolver.resolve, first, 20.0)
            await anyio.sleep(5)
            with pytest.raises(ValidationError, match="may still arrive for 15 s"):
                await rig.resolver.decide(first, taken=False)
            assert rig.resolver.records() == (first,)
            await rig.resolver.decide(first, taken=True)
            tasks.cancel_scope.cancel()
        assert rig.advanced == ["confirmed"]

    async def test_check_during_decision_is_ignored(self, rig: _Rig) -> None:
        first = record(at=1.0)
        async with anyio.create_task_group() as tasks:
            rig.resolver.add(first)
            tasks.start_soon(rig.resolver.resolve, first)
            await anyio.sleep(1)
            tasks.start_soon(lambda: rig.resolver.decide(first, taken=True))
            await anyio.sleep(rig.writing / 2)
            rig.looks[0].set()
        assert rig.advanced == ["confirmed"]


class TestRetryPause:
    def rig(self, crowd: int, *, parked: bool) -> InDoubtResolver:
        nothing: Any = None
        doubts = InDoubtResolver(nothing, nothing, Metrics(), settle=SETTLE)
        for request in range(1, crowd + 1):
            doubts.add(attrs.evolve(record(at=0.0), request=request, parked=parked))
        return doubts

    @pytest.mark.parametrize(("crowd", "pause"), [(1, 2), (20, 2), (100, 10), (5000, 60)])
    async def test_grows_with_number_of_doubts(self, crowd: int, pause: float) -> None:
        """Ten retries a second are allowed for any number of doubts."""
        assert self.rig(crowd, parked=False).retry_pause(1) == pytest.approx(pause)

    async def test_is_a_minute_for_parked_offer(self) -> None:
        assert self.rig(1, parked=True).retry_pause(1) == 60

    async def test_is_none_without_doubt(self) -> None:
        assert self.rig(3, parked=False).retry_pause(4) is None


def record(*, at: float) -> OfferRecord:
    return OfferRecord(request=1, handler="quote", amount=Decimal(AMOUNT), currency=840, state="unknown", at=at)


class _Rig:
    """Resolver whose checks return a proof of absence on request, and whose writes take time."""

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
        self.looks.append(look := anyio.Event())
        await look.wait()
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
