"""Tests of stored rate requests, which equal the decoded ones when they are loaded."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from freight_exchange import wire
from freight_exchange.errors import DecodeError
from freight_exchange.models import RateRequest
from freight_exchange.wire import fields, shapes

REPLIES = Path(__file__).parents[2] / "contract" / "replies"
KEYS = sorted({key for field in shapes.SHIPMENT for key in field.keys} | {"status"})
WORDS = ["Shipping", "AIR freight", "pallet", "Piece", "Available", "Frozen", " ", "", "yes", "maybe", "1", "0", "1.5"]
DATES = ["2025-03-01 00:00:00", "0000-00-00 00:00:00", "2025-03-01T10:00:00.250", "2025-03-01T10:00+02:00", "soon"]
numbers = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
integers = st.integers(-(10**59), 10**59)
scalars = st.none() | st.booleans() | integers | numbers | text | st.sampled_from([*WORDS, *DATES])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8
)
raws = st.fixed_dictionaries(
    {"index": st.integers(0, 2**62) | st.integers(0, 10**6).map(str)},
    optional={key: scalars for key in KEYS if key != "index"},
).flatmap(lambda known: st.dictionaries(text, values, max_size=3).map(lambda unknown: {**unknown, **known}))


def written(raw: object) -> bytes:
    if isinstance(raw, dict):
        return b"{%s}" % b",".join(json.dumps(key).encode() + b":" + written(value) for key, value in raw.items())
    if isinstance(raw, list):
        return b"[%s]" % b",".join(map(written, raw))
    return str(raw).encode() if isinstance(raw, Decimal) else json.dumps(raw).encode()


def decoded(content: bytes) -> RateRequest:
    return wire.decode_one({fields.REQUESTS: {"0": wire.parse(content)}}, wire.REQUESTS)


def digits(value: object) -> object:
    """Convert numbers to text: `Decimal("1.50")` differs from `Decimal("1.5")` here."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict) or hasattr(value, "keys"):
        return {key: digits(item) for key, item in dict(value).items()}  # type: ignore[call-overload]  # a mapping
    return [digits(item) for item in value] if isinstance(value, list | tuple) else (type(value), value)


@given(raws)
@example({"index": 1, "needdate": "soon", "qty": Decimal("1.5"), "hazardous": "maybe", "status": "Frozen"})
@example({"index": 1, "tags": [{"a": [Decimal("1.500"), None, True, {"b": {}}]}, []], "": ""})
def test_recalled_request_equals_the_kept_one(raw: dict[str, Any]) -> None:
    try:
        request = decoded(written(raw))
    except DecodeError:
        return
    back = wire.load_request(wire.dump_request(request))
    assert back == request
    assert hash(back) == hash(request)
    for field in ("type", "status", "packaging"):
        # Words are equal in any case: what was written has to be compared as text.
        assert str(getattr(back, field)) == str(getattr(request, field))
        assert type(getattr(back, field)) is type(getattr(request, field))
    assert wire.dump_request(back) == wire.dump_request(request)


@given(raws)
def test_numbers_keep_their_last_zero(raw: dict[str, Any]) -> None:
    try:
        request = decoded(written(raw))
    except DecodeError:
        return
    back = wire.load_request(wire.dump_request(request))
    assert digits(back.extra) == digits(request.extra)
    for field in ("length", "width", "height", "weight"):
        assert digits(getattr(back, field)) == digits(getattr(request, field))


@pytest.mark.parametrize("number", ["12.50", "0.000", "-0.0", "100", "1e30", "1.5e-29", "0e5", "0e-30", "0e-80", "-0"])
def test_longest_numbers_can_be_kept_and_recalled(number: str) -> None:
    request = decoded(b'{"index":1,"weight":%b,"serial":%b}' % (number.encode(), number.encode()))
    assert wire.load_request(wire.dump_request(request)) == request


@pytest.mark.parametrize("digits", [60, 61, 400, 999])
def test_longest_whole_number_of_an_unknown_field_can_be_kept_and_recalled(digits: int) -> None:
    """Otherwise each scan would fail as long as the record is listed."""
    request = decoded(b'{"index":1,"serial":%b}' % (b"7" * digits))
    assert wire.load_request(wire.dump_request(request)) == request


def test_request_of_a_largest_reply_can_be_kept_and_recalled() -> None:
    """Each of these bytes becomes six in the stored text."""
    request = decoded(b'{"index":1,"notes":"%b"}' % (b"\x01" * 1_700_000))
    assert len(wire.dump_request(request)) > 10_000_000
    assert wire.load_request(wire.dump_request(request)) == request


def test_every_field_has_a_spelling() -> None:
    raw = {
        "index": 9, "refId": "R", "commodityname": "C", "requesttype": "Trucking", "origin": "O", "destination": "D",
        "needdate": "2025-03-01 10:00:00.250000", "notes": "N", "qty": 3, "packaging": "Carton",
        "length": Decimal("1.0"), "width": Decimal("2.00"),
        "height": Decimal("3.000"), "measureUnit": "m", "weight": Decimal("4.0000"),
        "massUnit": "kg", "incoterm": "FOB", "hazardous": True, "status": "Available",
    }  # fmt: skip
    request = decoded(written(raw))
    assert None not in [getattr(request, field.name) for field in attrs.fields(RateRequest)]
    assert request.extra == {}
    assert wire.load_request(wire.dump_request(request)) == request
    assert request.need_date == datetime(2025, 3, 1, 10, 0, 0, 250000)


@pytest.mark.parametrize("date", DATES)
def test_a_date_that_cannot_be_read_stays_as_it_came(date: str) -> None:
    request = decoded(written({"index": 1, "needdate": date}))
    back = wire.load_request(wire.dump_request(request))
    assert (back.need_date, back.extra) == (request.need_date, request.extra)
    assert (back.need_date is None) == (back.extra == {"needdate": date})


@pytest.mark.parametrize("reply", ["submit", "bids"])
def test_a_recalled_bid_is_the_bid_that_was_kept(reply: str) -> None:
    answer = wire.parse((REPLIES / f"{reply}.json").read_bytes())
    bids = [wire.decode_bid(answer)] if reply == "submit" else list(wire.decode_rows(answer, wire.BIDS).records)

    assert bids
    assert [wire.load_bid(wire.dump_bid(bid)) for bid in bids] == bids


def test_a_bid_keeps_the_fee_that_has_no_amount() -> None:
    offer = shapes.OFFER.structure({"offerId": 1, "rates": {"Fuel": None, "Freight": "1.50"}})
    bid = attrs.evolve(shapes.BID.structure({"index": 1, "colour": "red"}), offer=offer)

    back = wire.load_bid(wire.dump_bid(bid))

    assert back == bid
    assert back.offer is not None
    assert back.offer.rates == {"Freight": Decimal("1.50")}
    assert back.offer.extra == {fields.RATES: {"Fuel": None}}
