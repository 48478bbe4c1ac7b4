"""Fuzz test of the decoder: any bytes give a value or raise `DecodeError`."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freight_exchange import wire
from freight_exchange.errors import DecodeError
from freight_exchange.wire import fields as names

KINDS: list[wire.Kind[Any]] = [
    wire.REQUESTS,
    wire.OFFERS,
    wire.BIDS,
    wire.ROUTES,
    wire.CARRIERS,
    wire.CURRENCIES,
]
NAMES = [value for name, value in vars(names).items() if name.isupper()]
KEYS = sorted(
    {"0", "1", "-1", "01", "x", "1" * 30, "access_token", "expires_on", "user", "bid", "message", "Unauthorized"}
    | {key for value in NAMES if isinstance(value, tuple) for key in value}
    | {value for value in NAMES if isinstance(value, str)}
)
WORDS = ["", "0", "1", "4.0", "1e30", "1e999", "NaN", "2025-03-01 00:00:00", "0000-00-00 00:00:00", "selected", "UTC"]
scalars = st.none() | st.booleans() | st.integers() | st.decimals() | st.text(max_size=5) | st.sampled_from(WORDS)
wire_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=8),
    max_leaves=30,
)


def written(value: object) -> bytes:
    return json.dumps(value, default=str).encode()


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_parsed_or_refused(content: bytes) -> None:
    with contextlib.suppress(DecodeError):
        wire.parse(content)


@given(wire_values)
def test_any_json_is_decoded_or_refused(value: object) -> None:
    data = wire.parse(written(value))
    for read in (wire.decode_bid, wire.decode_login, wire.decode_written_route):
        with contextlib.suppress(DecodeError):
            read(data)
    wire.find_rejection(data)
    wire.is_unauthorized(data, success=True)
    wire.is_unauthorized(data, success=False)
    text = wire.find_sentence(data)
    assert text is None or 0 < len(text) <= 300


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.collection)
@settings(max_examples=30)
@given(value=wire_values)
def test_any_collection_is_decoded_or_refused(kind: wire.Kind[Any], value: object) -> None:
    data = wire.parse(written(value))
    for reply in (data, {kind.collection: data}, {kind.collection: [data]}):
        with contextlib.suppress(DecodeError):
            found = wire.decode_rows(reply, kind)
            for record in found.records:
                assert type(record) is kind.model
                hash(record)
                repr(record)


fields = st.dictionaries(st.sampled_from(KEYS), scalars | wire_values, max_size=12)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.collection)
@settings(max_examples=25)
@given(raws=st.lists(fields, max_size=4))
def test_a_good_record_survives_any_company(kind: wire.Kind[Any], raws: list[dict[str, Any]]) -> None:
    data: Any = wire.parse(written({kind.collection: [*raws, {"index": 4}]}))
    found = wire.decode_rows(data, kind)
    assert found.records[-1].index == 4
    assert len(found.records) + len(found.broken) == len(raws) + 1
