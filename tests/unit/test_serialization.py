"""Tests of records as dictionaries and JSON, and back; and of records in pydantic."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, TypeVar, Union, get_args, get_origin
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic import ValidationError as InputError

import freight_exchange
from freight_exchange import (
    Bid,
    Carrier,
    Gap,
    Listing,
    Offer,
    Page,
    RateRequest,
    RateRequestDraft,
    RequestEvent,
    RequestType,
    Route,
    RouteDraft,
    UnknownWord,
    Unreadable,
    ValidationError,
    from_dict,
    from_json,
    to_dict,
    to_json,
)
from freight_exchange.quotes import ComparedOffer, Comparison
from freight_exchange.tariff import NoQuote, Quote

ROUNDABOUT = (
    "Applied", "Bid", "BidSelected", "BotStatus", "Carrier", "Company", "Conflict", "Contact", "Currency", "DeadLetter",
    "Doubt", "Explanation", "FeedStatus", "Gap", "Listing", "NotApplied", "Offer", "OfferEvent",
    "OfferFeedStatus", "Page", "RateRequest",
    "RateRequestDraft", "RequestEvent", "Route", "RouteDraft", "StillUnknown", "Unreadable", "User",
)  # fmt: skip
"""Every class of the package's top level whose objects `to_dict` converts."""

SERIALIZABLE: dict[str, Any] = {
    **{name: getattr(freight_exchange, name) for name in ROUNDABOUT},
    **{cls.__name__: cls for cls in (ComparedOffer, Comparison, NoQuote, Quote)},
}
"""Every class whose objects `to_dict` converts, by its name."""

SERVICE_RECORDS = (
    "Bid",
    "Carrier",
    "Company",
    "Contact",
    "Currency",
    "Listing",
    "Offer",
    "RateRequest",
    "Route",
    "User",
)
_WALL_TIMES = st.datetimes(datetime(1950, 1, 1), datetime(2100, 1, 1))
_ZONES = st.sampled_from(["Asia/Hong_Kong", "Europe/Berlin", "America/Los_Angeles", "Asia/Kathmandu"])
_NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30)
_POSITIVE = st.decimals(min_value="0.001", max_value=10**6, places=3)
_WORDS = st.text(max_size=8)
_NAMES = _WORDS.filter(lambda text: bool(text.strip()))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _WORDS | _NUMBERS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["$numberDecimal", "a", "b"]), inner, max_size=2)
    ),
    max_leaves=4,
)
_SCALARS: dict[object, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    Decimal: _NUMBERS,
    float: st.floats(allow_nan=False, allow_infinity=False),
    int: st.integers(-(2**63), 2**63),
    object: _JSON,
    str: _WORDS,
    timedelta: st.timedeltas(timedelta(0), timedelta(days=9000)),
    type(None): st.none(),
    UnknownWord: _WORDS.map(UnknownWord),
}


def _of_type(kind: Any, times: st.SearchStrategy[datetime]) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is datetime:
        return times
    if kind in _SCALARS:
        return _SCALARS[kind]
    if isinstance(kind, TypeVar):
        # Whole records have tests of their own.
        return st.builds(RateRequest, index=_SCALARS[int]) | st.builds(Bid, index=_SCALARS[int], amount=_NUMBERS)
    if origin in (Union, types.UnionType):
        return st.one_of([_of_type(argument, times) for argument in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[-1] is not ...:
        return st.tuples(*[_of_type(argument, times) for argument in arguments])
    if origin is tuple:
        return st.lists(_of_type(arguments[0], times), max_size=2).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(_WORDS, _of_type(arguments[1], times), max_size=2)
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    return record(kind)


def record(cls: Any) -> st.SearchStrategy[Any]:
    """Return the strategy of a class."""
    if cls in (Route, RouteDraft):
        return _ZONES.flatmap(lambda zone: _route(cls, zone))
    if cls is RateRequestDraft:
        return _fields(
            cls, _WALL_TIMES, {str: _NAMES, int: st.integers(1, 99), Decimal: _POSITIVE}, incoterm=st.just("FOB")
        )
    # The service's times have no zone; the times of events and states are UTC.
    is_service_time = cls.__name__ in SERVICE_RECORDS
    return _fields(cls, _WALL_TIMES if is_service_time else _WALL_TIMES.map(lambda time: time.replace(tzinfo=UTC)))


def _fields(
    cls: Any,
    times: st.SearchStrategy[datetime],
    scalars: Mapping[Any, st.SearchStrategy[Any]] | None = None,
    **others: Any,
) -> st.SearchStrategy[Any]:
    known = scalars or {}
    values = {
        field.alias: known[field.type] if field.type in known else _of_type(field.type, times)
        for field in attrs.fields(attrs.resolve_types(cls))
    }
    return st.builds(cls, **(values | others))


def _route(cls: Any, zone: str) -> st.SearchStrategy[Any]:
    # With both readings of an ambiguous time, and times that a clock change skips.
    aware = st.builds(lambda time, fold: time.replace(tzinfo=ZoneInfo(zone), fold=fold), _WALL_TIMES, st.integers(0, 1))
    times: dict[str, Any] = {"departure": aware, "cy_cutoff": aware, "cfs_cutoff": aware}
    if cls is RouteDraft:
        times |= {"carrier": st.integers(1, 99) | record(Carrier).filter(lambda carrier: carrier.index > 0)}
        return _fields(cls, _WALL_TIMES, {str: _NAMES}, timezone=st.just(zone), **times)
    return _fields(cls, _WALL_TIMES, timezone=st.just(zone), **times)


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
    if name in SERVICE_RECORDS:
        assert hash(restored) == hash(original)
    assert json.loads(to_json(original)) == converted
    assert _types(converted) <= {bool, dict, float, int, list, str, type(None)}


def _types(value: object) -> set[type]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {type(value)}.union(*map(_types, inner))


def test_every_public_class_of_values_is_converted() -> None:
    public = {name: getattr(freight_exchange, name) for name in freight_exchange.__all__}
    values = {name for name, value in public.items() if isinstance(value, type) and attrs.has(value)}
    # Options, filters, messages and paginators are no records.
    others = {"OfferFilter", "Paginator", "Request", "RequestFilter", "Response", "RetryPolicy", "Timeouts"}
    assert values - others == {*ROUNDABOUT}


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
            "request": None,
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
    class Stranger:
        index: int

    with pytest.raises(ValidationError, match="record of this package"):
        to_dict(Stranger(4))  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="record of this package"):
        from_dict({"index": 4}, Stranger)  # type: ignore[type-var]
    with pytest.raises(ValidationError, match="JSON"):
        from_json("{")


# pydantic

BID = Bid(index=4, amount=Decimal("1840.50"), offer=Offer(id=31, rates={"Fuel": Decimal(100)}))


@pytest.mark.parametrize(
    ("kind", "value"), [(Bid, BID), (list[Bid], [BID]), (Page[Bid], Page((BID,), 0, 100))], ids=str
)
def test_adapter_takes_and_gives_records(kind: Any, value: object) -> None:
    adapter = TypeAdapter(kind)
    assert adapter.validate_python(value) == value
    assert adapter.validate_json(adapter.dump_json(value)) == value
    assert adapter.validate_python(adapter.dump_python(value)) == value


def test_dictionary_is_that_of_to_dict() -> None:
    assert TypeAdapter(Bid).dump_python(BID) == to_dict(BID)


@pytest.mark.parametrize("value", [{"index": "4"}, {"object": "rate_request", "index": 4}, RateRequest(index=4), 5])
def test_wrong_input_is_an_error_of_pydantic(value: object) -> None:
    with pytest.raises(InputError):
        TypeAdapter(Bid).validate_python(value)


@pytest.mark.parametrize("name", SERIALIZABLE)
def test_every_kind_has_a_schema(name: str) -> None:
    schema = TypeAdapter(SERIALIZABLE[name]).json_schema()
    assert schema["title"] == name
    assert "object" in schema["required"]


def test_schema_describes_fields() -> None:
    schema = TypeAdapter(Bid).json_schema()
    assert schema["required"] == ["object", "index"]
    assert schema["properties"]["amount"] == {"anyOf": [{"type": "string", "format": "decimal"}, {"type": "null"}]}
    assert schema["properties"]["packaging"]["anyOf"][0] == {"enum": ["pallet", "carton", "piece"]}
    assert schema["properties"]["offer"]["anyOf"][0]["properties"]["rates"]["anyOf"][0] == {
        "type": "object",
        "additionalProperties": {"type": "string", "format": "decimal"},
    }
