"""Tests of the feed of offers under random schedules: no event is missed, invented, repeated, or falsely gone."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from tests.model.offers.checker import FLAWS
from tests.model.offers.summary import count_feed, count_naive

from freight_exchange.offer_feed import serialization
from freight_exchange.offer_feed.core import compare
from freight_exchange.offer_feed.core.scan import OfferScan
from freight_exchange.offer_feed.scanning import journal
from freight_exchange.offer_feed.scanning.confirm_gone import GoneCheck


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_feed_is_exact_under_random_schedules(backend: Literal["asyncio", "trio"]) -> None:
    flaws = count_feed(range(12), backend)
    assert {flaw: flaws[flaw] for flaw in FLAWS} == dict.fromkeys(FLAWS, 0)
    assert flaws["events"] > 60


def test_difference_of_two_listings_is_not() -> None:
    flaws = count_naive(range(50))
    assert flaws["flawed schedules"] > 10


@pytest.mark.long
def test_feed_is_exact_under_many_schedules() -> None:
    assert not count_feed(range(1000, 4000))["flawed schedules"]


async def _believe_every_scan(self: GoneCheck, scan: OfferScan) -> None:
    for index, keys in self._journal.to_look_up().items():
        await self._journal.record_denial(index, keys, self._clock.read())


def test_model_catches_absence_without_a_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GoneCheck, "look_up", _believe_every_scan)
    monkeypatch.setattr(journal, "SCANS_THAT_LACK", 1)
    assert count_feed(range(12))["false gone"]


def test_model_catches_a_field_that_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "FIELDS", ("amount",))
    assert count_feed(range(12))["missed"]


def test_model_catches_events_that_have_no_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_only(known: Any, event: Any) -> Any:
        return stored(known, event).__class__(
            key=f"{event.request}:{event.offer.id}",
            index=event.request,
            kind=event.kind,
            payload=serialization.pack(event),
        )

    stored = journal._stored
    monkeypatch.setattr(journal, "_stored", first_only)
    assert count_feed(range(10))["missed"]
