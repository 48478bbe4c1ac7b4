"""Tests of keys that repeat in one object: no record is lost, and lost parts of a record are reported."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange import wire
from freight_exchange.wire.repeated_keys import RepeatedKeys

PAD = json.dumps("-" * 5000)


@pytest.mark.parametrize("pad", ['""', PAD], ids=["short", "long"])
@pytest.mark.parametrize("colon", [":", ": ", " : "])
def test_a_collection_whose_numbers_repeat_keeps_every_record(pad: str, colon: str) -> None:
    rows = ",".join(f'"{key}"{colon}{{"index"{colon}{index}}}' for key, index in [(1, 4), (0, 5), (0, 6), (1, 7)])
    found = wire.decode_rows(
        wire.parse(f'{{"pad"{colon}{pad},"raterequests"{colon}{{{rows}}}}}'.encode()), wire.REQUESTS
    )
    assert [record.index for record in found.records] == [5, 6, 4, 7]
    assert [flaw.message for flaw in found.flaws] == [
        "the key '0' repeats: all of its records are read",
        "the key '1' repeats: all of its records are read",
    ]


@pytest.mark.parametrize("pad", ['""', PAD], ids=["short", "long"])
def test_last_value_of_a_repeated_field_counts_and_is_reported(pad: str) -> None:
    row = '{"index": 4, "weight": 1, "weight": 2.50}'
    found = wire.decode_rows(wire.parse(f'{{"pad":{pad},"raterequests":[{row},{row}]}}'.encode()), wire.REQUESTS)
    assert [record.weight for record in found.records] == [Decimal("2.50")] * 2
    assert [flaw.message for flaw in found.flaws] == ["the key 'weight' repeats: only its last value is read"]
    assert found.failure is None


def test_a_collection_that_comes_twice_may_lack_records() -> None:
    found = wire.decode_rows(wire.parse(b'{"bids": {"0": {"index": 1}}, "bids": {"0": {"index": 2}}}'), wire.BIDS)
    assert [record.index for record in found.records] == [2]
    assert found.failure is not None


@pytest.mark.parametrize(
    "body", [b'{"bids": [{"notes": "\\"a\\": 1, {[\\": "}]}', b'{"bids" : [{"index" :1}]}', b"[]", b"7"]
)
def test_text_that_looks_like_a_key_is_none(body: bytes) -> None:
    value = wire.parse(body)
    assert value == json.loads(body)
    assert not isinstance(value, RepeatedKeys)


KEYS = st.sampled_from(["a", "b", "0", "1", 'c"', "{", "\u00e9"])


@given(
    st.recursive(
        st.integers(0, 9) | st.text('":{}[],a', max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(KEYS, inner), max_size=4).map(dict),
        max_leaves=12,
    )
)
def test_values_without_repeats_are_as_they_were(value: object) -> None:
    parsed = wire.parse(json.dumps({"value": value}).encode())
    assert parsed == {"value": value}
    assert type(parsed) is dict
