"""Tests of the parser of `Retry-After`."""

from __future__ import annotations

import math
import time
from email.utils import formatdate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from freight_exchange.transport.rules.retry_after import format_seconds, retry_after

WALL = 784_111_777.0
"""Sun, 06 Nov 1994 08:49:37 GMT."""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        (" 120 ", 120.0),
        ("007", 7.0),
        ("1.5", 1.5),
        ("5.", 5.0),
        ("1000000000000", 1e9),
        ("9" * 500, 1e9),
        ("9" * 100_000, 1e9),
    ],
)
def test_number_is_seconds(text: str, seconds: float) -> None:
    assert retry_after(text, wall=WALL) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60),
        ("Sun Nov  6 08:50:37 1994", 60),
        ("Sun, 06 Nov 1994 09:50:37 +0100", 60),
        ("06 Nov 1994 08:50:37 -0000", 60),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Sun, 06 Nov 1994 08:49:36 GMT", 0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 1e9),
    ],
)
def test_dates_in_every_form_of_http(text: str, seconds: float) -> None:
    assert retry_after(text, wall=WALL) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-5",
        "+5",
        "soon",
        "nan",
        "inf",
        "1e3",
        "0x10",
        "1_000",
        "1,5",
        "1.5.2",
        ".5",
        "٣",
        "²",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 99999 08:49:37 GMT",
        "Sun, 06 Nov 99999999999999999999 08:49:37 GMT",
        "1994-11-06T08:49:37Z",
        "Sun, 06 Nov 1994 08:49:37 +99999999999",
        "x" * 100_000,
        ", " * 50_000,
    ],
    ids=lambda text: text[:40],
)
def test_unreadable_header_is_none(text: str) -> None:
    assert retry_after(text, wall=WALL) is None


def test_no_header_is_none() -> None:
    assert retry_after(None, wall=WALL) is None


@given(
    st.text()
    | st.text("0123456789.-+eE :,GMTSunovJa", max_size=40)
    | st.from_regex(r"\A[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} -?\d{1,6} \d\d:\d\d:\d\d( [+-]?\w{1,12})?\Z")
)
@example("0 0 0 0 0")
@example("Sun, 06 Nov 1994 08:49:37 -9999")
@example("Mon, 01 Jan 0001 00:00:00 +2359")
def test_parser_never_raises_and_is_never_negative(text: str) -> None:
    seconds = retry_after(text, wall=WALL)
    assert seconds is None or (math.isfinite(seconds) and 0 <= seconds <= 1e9)


@given(st.integers(0, 4_000_000_000), st.floats(0, 4e9))
def test_date_becomes_the_seconds_until_then(moment: int, wall: float) -> None:
    expected = min(max(0.0, moment - wall), 1e9)
    assert retry_after(formatdate(moment, usegmt=True), wall=wall) == pytest.approx(expected)
    assert retry_after(time.asctime(time.gmtime(moment)), wall=wall) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.5, "0.5 s"),
        (7.0, "7 s"),
        (9.96, "10 s"),
        (59.6, "60 s"),
        (3600.0, "3600 s"),
        (86_400.0, "86400 s"),
        (86_401.0, "more than a day"),
        (1e9, "more than a day"),
    ],
)
def test_seconds_are_written_in_plain_digits(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
