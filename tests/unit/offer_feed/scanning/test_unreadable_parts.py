"""Tests of requests and offers that cannot be read or distinguished."""

from __future__ import annotations

from decimal import Decimal

import attrs
import pytest
from tests.unit.offer_feed.rig import rig_with

from freight_exchange.errors import DecodeError
from freight_exchange.models import Offer

pytestmark = pytest.mark.virtual_time


async def test_unreadable_offer_is_reported_once_and_not_gone() -> None:
    rig = await rig_with((1, 11), (1, 12))
    del rig.service.requests[1][11]
    rig.service.flaws = (
        DecodeError("text where a number is expected", path="offers.0.offer.0.offerAmount", raw={"index": 1}),
    )
    await rig.scan(4)
    assert rig.event_keys[2:] == [("unreadable", 1, None)]


async def test_offer_without_an_identifier_is_reported_once() -> None:
    rig = await rig_with((1, 11))
    for views in range(3):
        # An undocumented field that changes makes no other event.
        rig.service.requests[1][12] = Offer(amount=Decimal(90), currency=1, extra={"views": views})
        await rig.scan()
    assert rig.event_keys[1:] == [("unreadable", 1, None)]


async def test_request_with_an_unidentified_offer_proves_no_absence() -> None:
    rig = await rig_with((1, 11), (1, 12))
    nameless = attrs.evolve(rig.service.requests[1].pop(11), id=None)
    rig.service.requests[1][13] = nameless
    await rig.scan(4)
    assert rig.event_keys[2:] == [("unreadable", 1, None)]


async def test_two_offers_with_one_identifier_are_reported_and_change_nothing() -> None:
    rig = await rig_with((1, 11))
    other = attrs.evolve(rig.service.requests[1][11], amount=Decimal(90))
    rig.service.requests[1][12] = other
    await rig.scan(4)
    assert rig.event_keys[1:] == [("unreadable", 1, None)]
    # The same offer twice is not a contradiction.
    rig.service.requests[1][12] = rig.service.requests[1][11]
    await rig.scan(2)
    assert len(rig.event_keys) == 2
