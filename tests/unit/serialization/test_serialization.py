"""Tests of converting records to dictionaries and JSON, and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.serialization.strategies import ROUNDABOUT, SERIALIZABLE, record

import freight_exchange
from freight_exchange import (
    Bid,
    Gap,
    Listing,
    Offer,
    RateRequest,
    RequestEvent,
    RequestType,
    UnknownWord,
    Unreadable,
    ValidationError,
    from_dict,
    from_json,
    to_dict,
    to_json,
)
from freight_exchange.models._base import Frozen, Serializable


@pytest.mark.parametrize("name", SERIALIZABLE)
@settings(max_examples=10)
@given(data=st.data())
def test_record_survives_the_way_to_json_and_back(name: str, data: st.DataObject) -> None:
    cls = SERIALIZABLE[name]
    original = data.draw(record(cls))
    converted = to_dict(original)
    assert from_dict(converted) == original
    restored = from_dict(json.loads(json.dumps(converted, allow_nan=False)), cls)
    assert restored == original
    if isinstance(original, Frozen):
        assert hash(restored) == hash(original)
    assert json.loads(to_json(original)) == converted
    assert _types(converted) <= {bool, dict, float, int, list, str, type(None)}


def _types(value: object) -> set[type]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {type(value)}.union(*map(_types, inner))


def test_every_public_class_of_values_is_converted() -> None:
    public = {name: getattr(freight_exchange, name) for name in freight_exchange.__all__}
    serializable = {
        name for name, value in public.items() if isinstance(value, type) and issubclass(value, Serializable)
    }
    # Options of a client are not records.
    assert serializable - {"RetryPolicy", "Timeouts"} == set(ROUNDABOUT)


def test_values_are_those_of_json() -> None:
    offer = Offer(id=31, amount=Decimal("1840.50"), rates={"Fuel": Decimal("1E+2")}, extra={"x": Decimal("0.10")})
    listing = Listing(index=4, type=RequestType.AIR_FREIGHT, need_date=datetime(2027, 3, 1, 12), offers=(offer,))
    converted = to_dict(listing)
    assert converted["object"] == "listing"
    assert type(converted["type"]) is str
    assert converted["need_date"] == "2027-03-01T12:00:00"
    assert converted["offers"] == [
        {
            "object": "offer",
            "id": 31,
            "amount": "1840.50",
            "currency": None,
            "status": None,
            "terms": None,
            "rates": {"Fuel": "1E+2"},
            "extra": {"x": {"$numberDecimal": "0.10"}},
        }
    ]


def test_event_names_its_class_beside_its_kind() -> None:
    now = datetime(2027, 3, 1, tzinfo=UTC)
    event = RequestEvent(kind="new", request=RateRequest(index=4), observed_between=(None, now))
    assert to_dict(event) | {"request": None} == {
        "object": "request_event",
        "kind": "new",
        "request": None,
        "previous": None,
        "changed": [],
        "returned": False,
        "observed_between": [None, "2027-03-01T00:00:00+00:00"],
    }
    assert from_json(to_json(Gap(since=now, until=now)), Gap).since == now


def test_unknown_fields_and_raw_records_keep_their_numbers() -> None:
    raw = {"a": [Decimal("1.0"), {"$numberDecimal": "1.0"}, {"$numberDecimal": {"b": None}}]}
    broken = Unreadable(index=None, raw=raw, error="index: missing", observed=datetime(2027, 3, 1, tzinfo=UTC))
    assert from_json(to_json(broken), Unreadable).raw == raw
    request = RateRequest(index=4, extra=raw)
    assert str(from_json(to_json(request), RateRequest).extra) == str(request.extra)


def test_keys_of_later_versions_are_ignored() -> None:
    assert from_dict({"object": "rate_request", "index": 4, "colour": "red"}) == RateRequest(index=4)


def test_class_takes_the_place_of_its_name() -> None:
    assert from_dict({"index": 4, "amount": Decimal("1.5"), "currency": None}, Bid).amount == Decimal("1.5")
    assert from_dict({"index": 4, "status": "Not A Word"}, Bid).status == UnknownWord("Not A Word")


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "object"),
        ([], "object"),
        ({"object": "order"}, "object"),
        ({"object": "bid"}, "index"),
        ({"object": "bid", "index": "4"}, "index"),
        ({"object": "bid", "index": True}, "index"),
        ({"object": "bid", "index": 4, "amount": 1.5}, "amount"),
        ({"object": "bid", "index": 4, "amount": "much"}, "amount"),
        ({"object": "bid", "index": 4, "hazardous": "yes"}, "hazardous"),
        ({"object": "bid", "index": 4, "need_date": "soon"}, "need_date"),
        ({"object": "bid", "index": 4, "type": 5}, "type"),
        ({"object": "bid", "index": 4, "offer": {"object": "bid"}}, "offer"),
        ({"object": "listing", "index": 4, "offers": [{}, {"id": "x"}]}, "offers[1].id"),
        ({"object": "page", "records": [{"index": 4}], "number": 0, "page_size": 1}, "records[0]"),
    ],
    ids=str,
)
def test_wrong_value_is_refused_by_its_path(data: Any, field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        from_dict(data)
    assert caught.value.field == field


def test_other_objects_and_texts_are_refused() -> None:
    @attrs.frozen
    class Stranger(Serializable):
        index: int

    with pytest.raises(ValidationError, match="record of this package"):
        to_dict(Stranger(4))
    with pytest.raises(ValidationError, match="record of this package"):
        from_dict({"index": 4}, Stranger)
    with pytest.raises(ValidationError, match="JSON"):
        from_json("{")
