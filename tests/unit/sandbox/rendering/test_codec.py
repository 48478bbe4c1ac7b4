"""Tests of the exchange's own JSON: numbers are exact in both directions."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_sandbox.codec import Raw, decode, encode
from freight_sandbox.records import Table

NUMBERS = st.integers() | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.text() | NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
def test_encoded_values_decode_to_the_same(value: Any) -> None:
    assert decode(encode(value)) == value


@given(NUMBERS)
def test_numbers_keep_their_digits(value: int | Decimal) -> None:
    assert encode([value]) == f"[{value}]".encode()
    json.loads(encode([value]))


def test_raw_text_is_written_unchanged() -> None:
    assert encode({"a": [Raw("NaN"), Raw("1e999")]}) == b'{"a":[NaN,1e999]}'
    with pytest.raises(TypeError, match="no JSON"):
        encode(object())


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 20)), max_size=12),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_recent_rows_equal_those_of_a_full_scan(changes: list[tuple[int, int]], at: int, since: int) -> None:
    table: Table[tuple[int, int, int]] = Table()
    for number, (index, time) in enumerate(changes):
        table.put(index, time, (index, time, number))
    found = {row for row in table.recent(at, since) if row[1] >= since}
    seen = {row for index in table.indexes() if (row := table.seen(index, at)) is not None}
    assert found == {row for row in seen if row[1] >= since}
