"""Strategies for records of every kind, derived from the annotations of their fields."""

from __future__ import annotations

import types
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, TypeVar, Union, get_args, get_origin
from zoneinfo import ZoneInfo

import attrs
from hypothesis import strategies as st

import freight_exchange
from freight_exchange import Bid, Carrier, RateRequest, RateRequestDraft, Route, RouteDraft, UnknownWord
from freight_exchange.models._base import Record
from freight_exchange.quotes import ComparedOffer, Comparison
from freight_exchange.tariff import NoQuote, Quote

__all__ = ["ROUNDABOUT", "SERIALIZABLE", "record"]

ROUNDABOUT = (
    "Applied", "Bid", "BidSelected", "BotStatus", "Carrier", "Company", "Conflict", "Contact", "Currency", "DeadLetter",
    "Doubt", "Explanation", "FeedStatus", "Gap", "Listing", "NotApplied", "Offer", "OfferEvent",
    "OfferFeedStatus", "Page", "RateRequest",
    "RateRequestDraft", "RequestEvent", "Route", "RouteDraft", "SchemaChanged", "StillUnknown", "Unreadable", "User",
)  # fmt: skip
"""Every class of the package's top level whose objects `to_dict` converts."""

SERIALIZABLE: dict[str, Any] = {
    **{name: getattr(freight_exchange, name) for name in ROUNDABOUT},
    **{cls.__name__: cls for cls in (ComparedOffer, Comparison, NoQuote, Quote)},
}
"""Every class whose objects `to_dict` converts, by its name."""

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
    is_service_time = issubclass(cls, Record)
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
