"""Tests of records as CSV."""

from __future__ import annotations

import csv
from datetime import datetime
from decimal import Decimal

import pytest

from freight_exchange import Bid, Contact, Listing, Offer, RateRequest, to_dict
from freight_exchange.cli.render.csv_rows import csv_columns, print_csv_header, print_csv_row

BID = Bid(
    index=4,
    commodity="Tiles, glazed",
    need_date=datetime(2027, 3, 1),
    hazardous=False,
    weight=Decimal("-12.50"),
    notes="=HYPERLINK(1)",
    offer=Offer(id=31, amount=Decimal("1840.50"), rates={"Fuel": Decimal(100)}),
    extra={"urgency": "high"},
)


def test_fields_of_nested_records_have_columns_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    columns = csv_columns(Bid)
    print_csv_header(columns)
    print_csv_row(columns, to_dict(BID))
    (row,) = csv.DictReader(capsys.readouterr().out.splitlines())
    assert list(row) == columns
    assert (row["index"], row["commodity"], row["need_date"]) == ("4", "Tiles, glazed", "2027-03-01T00:00:00")
    assert (row["hazardous"], row["weight"], row["origin"]) == ("false", "-12.50", "")
    assert (row["offer.amount"], row["offer.rates"], row["contact.name"]) == ("1840.50", '{"Fuel": "100"}', "")
    assert row["extra"] == '{"urgency": "high"}'


def test_text_never_becomes_a_formula(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["=1+1", "+1 555", "-cmd", "@SUM(A1)", "\t=1+1", "-5", "plain", "a\x1bb"]
    for text in texts:
        print_csv_row(["notes"], {"notes": text})
    expected = ["'=1+1", "'+1 555", "'-cmd", "'@SUM(A1)", "' =1+1", "-5", "plain", "a\\x1bb"]
    assert capsys.readouterr().out.splitlines() == expected
    # A column may be named by the service too.
    print_csv_header(texts)
    assert capsys.readouterr().out.splitlines() == [",".join(expected)]


def test_columns_can_be_excluded_and_prefixed() -> None:
    assert csv_columns(Contact, prefix="contact.") == ["contact.name", "contact.email", "contact.extra"]
    assert "offers" not in csv_columns(Listing, exclude=("offers",))
    assert csv_columns(RateRequest)[:2] == ["index", "ref_id"]
