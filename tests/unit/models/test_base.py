"""Tests of the common behaviour of values: they are frozen, compare, hash, pickle and print by their fields."""

from __future__ import annotations

import copy
import pickle
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest

from freight_exchange.models import (
    Applied,
    Bid,
    Carrier,
    Company,
    Conflict,
    Contact,
    Currency,
    Listing,
    NotApplied,
    Offer,
    OfferStatus,
    RateRequest,
    RawWrite,
    RequestType,
    Respond,
    Route,
    StillUnknown,
    SubmitOffer,
    UnknownWord,
    UpdateRoute,
    User,
)
from freight_exchange.models._base import Frozen, FrozenMapping, frozen

OFFER = Offer(
    id=7,
    amount=Decimal("1840.50"),
    currency=840,
    status=OfferStatus.SELECTED,
    rates={"Ocean Freight": Decimal(1700), "Chassis Fee": Decimal("140.25")},
)
ROUTE = Route(
    index=9,
    departure=datetime(2025, 3, 1, 8, tzinfo=ZoneInfo("Asia/Hong_Kong")),
    arrival=datetime(2025, 3, 20),
    timezone="Asia/Hong_Kong",
)
VALUES: list[Any] = [
    User(first_name="Ada", company=Company(name="Cargo Co")),
    Company(name="Cargo Co", postal="01234"),
    Contact(name="Ada"),
    Carrier(index=1, name="Line"),
    Currency(index=840, name="Dollar", code="USD"),
    OFFER,
    RateRequest(index=4, type=RequestType.SHIPPING, status=UnknownWord("Frozen"), extra={"a": [1, {"b": 2}]}),
    Listing(index=4, offers=(OFFER,), selected=OFFER, contact=Contact(name="Ada")),
    Bid(index=4, amount=Decimal("1840.50"), currency=840, offer=OFFER),
    ROUTE,
    SubmitOffer(request=4, amount=Decimal(5), currency=840, rates={"Fee": Decimal(5)}, terms="now"),
    Respond(7, approved=True),
    UpdateRoute(ROUTE),
    RawWrite("POST", "quote/new"),
    Applied(ROUTE),
    NotApplied(),
    Conflict(ROUTE),
    StillUnknown((ROUTE,)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_is_frozen_and_survives_copying_and_pickling(value: Frozen) -> None:
    copies: list[Any] = [pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)]
    for copied in (*copies, attrs.evolve(value)):  # type: ignore[misc]  # every value is an attrs class
        assert type(copied) is type(value)
        assert copied == value
        assert hash(copied) == hash(value)
        assert repr(copied) == repr(value)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        value.extra = {}  # type: ignore[attr-defined]  # that it cannot be set is the test
    assert not hasattr(value, "__dict__")


def test_values_of_other_fields_or_types_differ() -> None:
    assert Carrier(index=1) != Carrier(index=1, name="Line")
    assert Applied(ROUTE) != Conflict(ROUTE)


def test_repr_shows_only_fields_with_a_value() -> None:
    assert repr(Carrier(index=1)) == "Carrier(index=1)"
    assert repr(Carrier(index=1, extra={"rank": 2})) == "Carrier(index=1, extra={'rank': 2})"


def test_extra_is_read_only_at_every_level() -> None:
    source = {"a": [1, {"b": 2}]}
    extra = Carrier(index=1, extra=source).extra
    source["a"].append(3)
    assert extra == {"a": (1, {"b": 2})}
    assert isinstance(extra["a"], tuple)
    assert isinstance(extra["a"][1], FrozenMapping)
    with pytest.raises(TypeError):
        extra["c"] = 1  # type: ignore[index]  # that it cannot be set is the test
    assert hash(extra) == hash(frozen({"a": (1, {"b": 2})}))
    assert extra != {"a": 1}
    assert extra != {}
