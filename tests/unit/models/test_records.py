"""Records: frozen, comparable, picklable, with exact arithmetic and a short repr."""

from __future__ import annotations

import copy
import pickle
from datetime import datetime
from decimal import Decimal, localcontext
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.models import (
    Bid,
    Carrier,
    Company,
    Contact,
    Currency,
    Listing,
    Offer,
    OfferStatus,
    RateRequest,
    RequestType,
    Route,
    UnknownWord,
    User,
)
from freight_exchange.models._base import FrozenMapping, Record, frozen

OFFER = Offer(
    id=7,
    amount=Decimal("1840.50"),
    currency=840,
    status=OfferStatus.SELECTED,
    rates={"Ocean Freight": Decimal(1700), "Chassis Fee": Decimal("140.25")},
)
RECORDS: list[Record] = [
    User(first_name="Ada", company=Company(name="Cargo Co")),
    Company(name="Cargo Co", postal="01234"),
    Contact(name="Ada"),
    Carrier(index=1, name="Line"),
    Currency(index=840, name="Dollar", code="USD"),
    OFFER,
    RateRequest(index=4, type=RequestType.SHIPPING, status=UnknownWord("Frozen"), extra={"a": [1, {"b": 2}]}),
    Listing(index=4, offers=(OFFER,), selected=OFFER, contact=Contact(name="Ada")),
    Bid(index=4, amount=Decimal("1840.50"), currency=840, offer=OFFER),
    Route(
        index=9,
        departure=datetime(2025, 3, 1, 8, tzinfo=ZoneInfo("Asia/Hong_Kong")),
        arrival=datetime(2025, 3, 20),
        timezone="Asia/Hong_Kong",
    ),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_is_a_value(record: Record) -> None:
    for twin in (
        pickle.loads(pickle.dumps(record)),
        copy.copy(record),
        copy.deepcopy(record),
        attrs.evolve(record),  # type: ignore[misc]  # every record is an attrs class
    ):
        assert type(twin) is type(record)
        assert twin == record
        assert hash(twin) == hash(record)
        assert repr(twin) == repr(record)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        record.extra = {}  # type: ignore[attr-defined]  # that it cannot be set is the test
    assert not hasattr(record, "__dict__")


def test_repr_says_only_what_is_there() -> None:
    assert repr(Carrier(index=1)) == "Carrier(index=1)"
    assert repr(Carrier(index=1, extra={"rank": 2})) == "Carrier(index=1, extra={'rank': 2})"


def test_extra_is_read_only_all_the_way_down() -> None:
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


measures = st.decimals(min_value=0, max_value=10**20, allow_nan=False, allow_infinity=False, places=30)


@given(st.integers(1, 10**15), measures, measures, measures)
def test_volume_is_exact(quantity: int, length: Decimal, width: Decimal, height: Decimal) -> None:
    with localcontext() as context:
        context.prec = 400
        expected = quantity * length * width * height
    assert RateRequest(index=1, quantity=quantity, length=length, width=width, height=height).volume == expected


def test_volume_needs_every_part() -> None:
    one = Decimal(1)
    request = RateRequest(index=1, quantity=1, length=one, width=one, height=one)
    assert request.volume == 1
    assert attrs.evolve(request, quantity=None).volume is None
    assert attrs.evolve(request, length=None).volume is None
    assert attrs.evolve(request, width=None).volume is None
    assert attrs.evolve(request, height=None).volume is None


def test_rates_total_and_difference() -> None:
    assert OFFER.rates_total == Decimal("1840.25")
    assert OFFER.difference == Decimal("0.25")
    assert Offer(amount=Decimal(5)).rates_total is None
    assert Offer(amount=Decimal(5)).difference is None
    assert Offer(amount=Decimal(5), rates={}).difference is None
    assert Offer(rates={"Fee": Decimal(1)}).difference is None
    discounted = Offer(amount=Decimal(90), rates={"Fee": Decimal(100), "Discount": Decimal(-10)})
    assert discounted.difference == 0


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**25), max_value=10**25, places=25)))
def test_rates_total_is_exact(fees: list[Decimal]) -> None:
    offer = Offer(amount=Decimal(0), rates={str(place): fee for place, fee in enumerate(fees)})
    with localcontext() as context:
        context.prec = 400
        expected = sum(fees, Decimal(0))
    assert offer.rates_total == (expected if fees else None)


def test_rates_are_read_only() -> None:
    rates = {"Fee": Decimal(1)}
    offer = Offer(rates=rates)
    rates["Fee"] = Decimal(2)
    assert offer.rates == {"Fee": Decimal(1)}
