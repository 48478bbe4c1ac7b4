"""Tests of values and records as text and JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange import Listing, Offer
from freight_exchange.cli.render.record import escape_json, format_value, print_details, print_json, to_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (Decimal("1E+3"), "1000"),
        (date(2027, 3, 1), "2027-03-01"),
        (datetime(2027, 3, 1, 17), "2027-03-01 17:00"),
        (datetime(2027, 3, 1, 17, tzinfo=UTC), "2027-03-01 17:00 UTC"),
        ("a\x9bb", "a\\x9bb"),
    ],
)
def test_value_is_formatted_for_people(value: object, text: str) -> None:
    assert format_value(value) == text


def test_details_leave_out_empty_fields(capsys: pytest.CaptureFixture[str]) -> None:
    print_details([("name", "Ti\x1bles"), ("weight", None), ("hazardous", False), ("notes", "")])
    assert capsys.readouterr().out == "name       Ti\\x1bles\nhazardous  no\n"


def test_nested_record_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    listing = Listing(
        index=4,
        need_date=datetime(2027, 3, 1),
        offers=(Offer(id=7, amount=Decimal("1840.50"), rates={"Ocean": Decimal("1700.00")}),),
        extra={"urgency": "high"},
    )
    print_json(listing)
    line = capsys.readouterr().out
    assert '"amount":"1840.50",' in line
    printed = json.loads(line)
    assert printed["need_date"] == "2027-03-01T00:00:00"
    assert printed["offers"][0]["rates"] == {"Ocean": "1700.00"}
    assert printed["extra"] == {"urgency": "high"}
    assert printed["contact"] is None
    assert to_json(listing)["offers"][0]["id"] == 7


@given(TEXTS, st.booleans())
def test_escaped_json_is_printable_and_equal(text: str, ascii_only: bool) -> None:
    escaped = escape_json(json.dumps({"text": text}, ensure_ascii=False), ascii_only=ascii_only)
    assert escaped.isprintable()
    assert escaped.isascii() or not ascii_only
    assert json.loads(escaped) == {"text": text}
