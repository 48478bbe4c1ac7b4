"""Tests of msgspec as the decoder of long replies: it gives the same values, and the same refusals."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from freight_exchange.errors import DecodeError
from freight_exchange.wire import dump, parse
from freight_exchange.wire import json as wire_json

PADDING = b'"%s"' % (b"-" * 5000)
ODD = [
    b"NaN",
    b"-Infinity",
    b"1e400",
    b"1e-400",
    b"0." + b"1" * 61,
    b"1" * 600,
    b"-" + b"9" * 5000,
    b"18446744073709551616",
    b"-9223372036854775809",
    b"-0",
    b"-0.0",
    b"1E5",
    b"01",
    b"1.",
    b"+1",
    b"[1,]",
    b'{"a":1,"a":2}',
    b'{"a":1,"b":2,"a":3}',
    b"{1:2}",
    b'"\\ud800"',
    b'"\\ud83d\\ude00"',
    b'"\\ud83d\xef\xbf\xbd"',
    b'"\x01"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"\\x"',
    b"tru",
    b"[" * 70 + b"]" * 70,
    b"[" * 100_000 + b"]" * 100_000,
    b"/* a comment */ 1",
    b"1\x00",
    b"\x0c1",
]

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.decimals(-(10**20), 10**20, places=9)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab\u00e9", max_size=3), inner, max_size=4),
    max_leaves=20,
)


def outcome(content: bytes) -> str:
    """Return the result of parsing, with the types of its numbers."""
    try:
        return repr(parse(content))
    except DecodeError as error:
        refused = error
    assert refused.__cause__ is refused.__context__ is None
    return f"refused: {refused.message}"


def both(content: bytes) -> tuple[str, str]:
    """Return the outcomes with and without msgspec."""
    assert wire_json._quick() is not None, "msgspec is not installed: this would compare nothing"
    quick = outcome(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire_json, "_quick", lambda: None)
        return quick, outcome(content)


@given(VALUES)
def test_values_are_the_same(value: object) -> None:
    quick, slow = both(b"[%s,%s]" % (dump(value), PADDING))
    assert quick == slow
    assert not quick.startswith("refused")


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd[:24]))
def test_odd_values_are_read_as_by_the_slow_parser(odd: bytes) -> None:
    quick, slow = both(b"[%s,%s,1.50]" % (PADDING, odd))
    assert quick == slow


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(VALUES, st.integers(0, 200), st.binary(max_size=3), st.integers(0, 3))
@example({"a": Decimal("1.5")}, 5, b"", 1)
def test_broken_json_is_refused_as_by_the_slow_parser(value: object, place: int, put: bytes, gone: int) -> None:
    whole = dump(value)
    place = min(place, len(whole))
    quick, slow = both(b"[%s,%s]" % (PADDING, whole[:place] + put + whole[place + gone :]))
    assert quick == slow


@pytest.fixture
def unasked() -> Iterator[None]:
    wire_json._quick.cache_clear()
    yield
    wire_json._quick.cache_clear()


def test_long_replies_are_read_without_msgspec(unasked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)
    assert outcome(b"[%s,1.50]" % PADDING).endswith("Decimal('1.50')]")
    assert wire_json._quick() is None


def test_msgspec_is_imported_only_for_long_replies(unasked: None) -> None:
    assert outcome(b"[1.50]") == "[Decimal('1.50')]"
    assert wire_json._quick.cache_info().currsize == 0
    assert outcome(b"[%s]" % PADDING).startswith("['---")
    assert wire_json._quick.cache_info().currsize == 1
