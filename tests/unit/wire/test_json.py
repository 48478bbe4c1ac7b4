"""Tests of JSON: exact numbers, bounds, a single error, and no secret in a traceback's frames."""

from __future__ import annotations

import json
import traceback
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.errors import DecodeError, ValidationError
from freight_exchange.wire import dump, parse
from freight_exchange.wire.json import decoded

CANARY = "canary-5f1c"


def test_numbers_are_exact() -> None:
    parsed = parse(b'{"a": 1840.50, "b": 0.1, "c": 1e3, "d": 12345678901234567890, "e": -0.00}')
    assert repr(parsed) == (
        "{'a': Decimal('1840.50'), 'b': Decimal('0.1'), 'c': Decimal('1E+3'),"
        " 'd': 12345678901234567890, 'e': Decimal('-0.00')}"
    )


@given(st.decimals(min_value=-(10**25), max_value=10**25, places=25))
def test_decimals_survive_the_round_trip(value: Decimal) -> None:
    read = parse(dump([value]))
    assert read == [value]
    assert dump(read) == dump([value])


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b" \n", id="blank"),
        pytest.param(b"\xef\xbb\xbf", id="only a byte-order mark"),
        pytest.param(b"<html></html>", id="HTML"),
        pytest.param(b"{} x", id="trailing garbage"),
        pytest.param(b'{"a": 1', id="truncated"),
        pytest.param(b"[" * 65 + b"]" * 65, id="65 levels"),
        pytest.param(b'{"a":' * 65 + b"1" + b"}" * 65, id="65 levels of objects"),
        pytest.param(b"[" + b"[]," * 1000 + b"[" * 64 + b"]" * 65, id="65 levels after a thousand flat ones"),
        pytest.param(b"[" * 100_000, id="100,000 levels, unclosed"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="100,000 levels"),
        pytest.param(b'["' + b"x" * 10_000_000 + b'"]', id="more than 10 MB"),
        pytest.param('["é"]'.encode("utf-16"), id="UTF-16"),
    ],
)
def test_unreadable_value_is_a_decode_error(content: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        parse(content)
    assert caught.value.path == "$"
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "number",
    [
        pytest.param("NaN", id="NaN"),
        pytest.param("Infinity", id="Infinity"),
        pytest.param("-Infinity", id="-Infinity"),
        pytest.param("1e999", id="1e999"),
        pytest.param("1e31", id="1e31"),
        pytest.param("1e-31", id="1e-31"),
        pytest.param("0e999999999", id="a zero with a huge exponent"),
        pytest.param("0." + "1" * 5000, id="5,000 decimal places"),
        pytest.param("9" * 5000, id="5,000 digits"),
        pytest.param("9" * 1001, id="1,001 digits"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 250, 499, 500, 501, 999])
def test_number_beyond_bounds_stays_text_at_any_place(number: str, before: int) -> None:
    blank = " " * before
    assert parse(f'{blank}{{"a": {number}, "b": 1.50, "c": 7}}'.encode()) == {"a": number, "b": Decimal("1.50"), "c": 7}


@pytest.mark.parametrize("before", [0, 1, 250, 499, 500, 501, 999])
def test_integer_of_a_thousand_digits_is_one_at_any_place(before: int) -> None:
    assert parse(f"{' ' * before}[{'9' * 1000}]".encode()) == [10**1000 - 1]


@pytest.mark.parametrize("content", [b"[" * 64 + b"]" * 64, b"[" + b"[]," * 1000 + b"[" * 63 + b"]" * 64])
def test_64_levels_are_read(content: bytes) -> None:
    assert parse(content) == json.loads(content)


@pytest.mark.parametrize("content", [b"[1e30]", b"[1e-30]", b'["' + b"9" * 5000 + b'"]'])
def test_value_within_bounds_is_read(content: bytes) -> None:
    assert parse(content) == json.loads(content, parse_float=Decimal)


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse(b'\xef\xbb\xbf{"a": "\xc3\xa9"}') == {"a": "é"}


def test_bytes_that_are_not_utf8_are_windows_1252() -> None:
    assert parse('["é", "€ 5"]'.encode("cp1252")) == ["é", "€ 5"]
    assert decoded("é€".encode("cp1252")) == decoded("\ufeffé€".encode()) == "é€"


def test_a_stray_byte_does_not_garble_the_page() -> None:
    content = '["Göteborg", "'.encode() + b'G\xf6teborg", "\x80 5", "\x81", 12.50]'
    assert parse(content) == ["Göteborg", "Göteborg", "€ 5", "\ufffd", Decimal("12.50")]


@pytest.mark.parametrize("rows", [1, 1000])
def test_a_line_break_in_a_string_spoils_no_page(rows: int) -> None:
    row = '{"notes": "first\nsecond\tthird\x00", "volume": 1.50}'
    assert (
        parse(f"[{','.join([row] * rows)}]".encode())
        == [{"notes": "first\nsecond\tthird\x00", "volume": Decimal("1.50")}] * rows
    )


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (rb'["\ud800"]', ["\ufffd"]),
        (rb'["a\uDC00b"]', ["a\ufffdb"]),
        (rb'["\ud83d\ude00"]', ["😀"]),
        (rb'{"\udfff": {"a": ["\udfff", 1, null]}}', {"\ufffd": {"a": ["\ufffd", 1, None]}}),
        (rb'["\ud55c"]', ["\ud55c"]),
        (rb'["\\ud800"]', ["\\ud800"]),
    ],
)
def test_lone_surrogates_are_replaced(content: bytes, value: object) -> None:
    assert parse(content) == value


def test_the_last_of_duplicate_keys_wins() -> None:
    assert parse(b'{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.parametrize(
    "content",
    [f'{{"t": "{CANARY}"'.encode(), f'{{"t": "{CANARY}", "n": nothing}}'.encode(), f'"{CANARY}\xff'.encode("latin-1")],
)
def test_no_frame_of_the_error_holds_the_content(content: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        parse(content)
    error: BaseException = caught.value
    # The first frame is this test's own.
    frames = list(traceback.walk_tb(error.__traceback__))[1:]
    assert frames
    for frame, _ in frames:
        assert CANARY not in repr(frame.f_locals)
    assert CANARY not in repr(vars(error))


def test_dump_is_strict_and_compact() -> None:
    body = {"a": Decimal("1840.50"), "b": [1, True, None, 'é"\n', 0.1], "c": Decimal("1E+3"), "d": {}, "e": ()}
    assert dump(body) == '{"a":1840.50,"b":[1,true,null,"é\\"\\n",0.1],"c":1000,"d":{},"e":[]}'.encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@given(json_values)
def test_json_value_survives_round_trip(value: object) -> None:
    assert parse(dump(value)) == json.loads(dump(value)) == value


def deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def test_sent_json_may_nest_as_deep_as_read_json() -> None:
    assert parse(dump(deep(64))) == deep(64)
    with pytest.raises(ValidationError):
        dump(deep(65))
    with pytest.raises(DecodeError):
        parse(b"[" * 65 + b"]" * 65)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("-Infinity"),
        Decimal("1e999999"),
        10**5000,
        "\ud800",
        {"\ud800": 1},
        {1: 2},
        {"a": object()},
        b"bytes",
        {1, 2},
        deep(1000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_that_json_lacks_is_refused(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        dump(value)
    assert caught.value.field == "body"
