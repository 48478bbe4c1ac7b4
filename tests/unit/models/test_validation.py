"""Tests of the checks of arguments."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.errors import ValidationError
from freight_exchange.models import BidsType, OffersType, SearchType, validation


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (Decimal("1840.50"), "1840.50"),
        (1840, "1840"),
        ("1840.50", "1840.50"),
        (" 1840.5 ", "1840.5"),
        (1840.1, "1840.1"),
        (0.1, "0.1"),
        ("1.5e3", "1.5E+3"),
    ],
)
def test_amounts_are_exact(value: object, exact: str) -> None:
    assert str(validation.amount(value, "amount")) == exact


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        0,
        -1,
        "0",
        "-0.01",
        Decimal(0),
        math.nan,
        math.inf,
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        "NaN",
        "",
        "1,840.50",
        "1_000",
        "٣",
        "0x10",
        "1e31",
        "1e999999999",
        "1e-31",
        Decimal("1E+999999"),
        10**5000,
        "9" * 100,
        None,
        b"5",
        [5],
        5j,
    ],
    ids=lambda value: f"{type(value).__name__} {str(value)[:12] if not isinstance(value, int) else ''}",
)
def test_other_values_are_no_amounts(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        validation.amount(value, "amount")
    assert caught.value.field == "amount"
    assert len(str(caught.value)) < 200


@given(st.decimals(min_value=Decimal("1e-20"), max_value=10**20, places=20))
def test_amounts_keep_every_digit(value: Decimal) -> None:
    assert validation.amount(value, "amount").as_tuple() == value.as_tuple()
    assert validation.amount(str(value), "amount").as_tuple() == value.as_tuple()


@given(st.floats(min_value=1e-20, max_value=1e20))
def test_float_is_read_through_its_repr(value: float) -> None:
    assert validation.amount(value, "amount") == Decimal(repr(value))


def test_rates_may_be_zero_or_negative() -> None:
    rates = validation.rates({"Ocean Freight": "1700", "Free": 0, "Discount": -10.5})
    assert rates == {"Ocean Freight": Decimal(1700), "Free": Decimal(0), "Discount": Decimal("-10.5")}
    assert validation.rates({}) == {}


@pytest.mark.parametrize(
    "value",
    [
        {"": 1},
        {" ": 1},
        {3: 1},
        {"Fee": True},
        {"Fee": math.nan},
        {"Fee": "Infinity"},
        {"Fee": "much"},
        {"Fee": None},
        {"\ud800": 1},
        [("Fee", 1)],
        "Fee",
        None,
    ],
)
def test_other_values_are_no_rates(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        validation.rates(value)
    assert caught.value.field == "rates"


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "4", None, Decimal(4), 2**63])
def test_other_values_are_no_identifiers_and_counts(value: object) -> None:
    for check in (validation.identifier, validation.count):
        with pytest.raises(ValidationError) as caught:
            check(value, "request")
        assert caught.value.field == "request"


def test_identifiers_and_counts_are_positive_integers() -> None:
    assert validation.identifier(4, "request") == 4
    assert validation.count(100, "page_size") == 100


@pytest.mark.parametrize(
    ("since", "seconds"),
    [
        (None, 432_000),
        (timedelta(days=5), 432_000),
        (timedelta(microseconds=1), 1),
        (timedelta(seconds=1), 1),
        (timedelta(seconds=1, microseconds=1), 2),
    ],
)
def test_window_is_rounded_up_to_seconds(since: timedelta | None, seconds: int) -> None:
    assert validation.window_seconds(since) == seconds


@pytest.mark.parametrize("since", [timedelta(0), timedelta(seconds=-1), timedelta(days=5, microseconds=1), 3600, "1h"])
def test_window_must_be_one_that_the_service_lists(since: object) -> None:
    with pytest.raises(ValidationError) as caught:
        validation.window_seconds(since)  # type: ignore[arg-type]  # that it is refused is the test
    assert caught.value.field == "since"


def test_enum_member_is_given_itself_or_by_its_word() -> None:
    assert validation.enum_member(SearchType.ACCEPT, SearchType, "type") is SearchType.ACCEPT
    assert validation.enum_member("ACCEPT", SearchType, "type") is SearchType.ACCEPT
    assert validation.enum_member("sel", OffersType, "type") is OffersType.SELECTED


@pytest.mark.parametrize("value", ["selected", "", None, 3, BidsType.SELECTED])
def test_enum_member_is_of_the_enum(value: object) -> None:
    with pytest.raises(ValidationError, match="'all', 'offers', 'sel', 'nsel'") as caught:
        validation.enum_member(value, OffersType, "type")
    assert caught.value.field == "type"


@pytest.mark.parametrize("value", ["", " ", None, 3, "half \ud800"])
def test_text_must_not_be_blank_and_must_be_utf_8(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        validation.text(value, "notes")
    assert caught.value.field == "notes"
    assert validation.text("", "notes", allow_empty=True) == ""


@pytest.mark.parametrize("value", ["FO", "FOBX", "F0B", "ÄBC", "", None])
def test_incoterm_is_three_letters(value: object) -> None:
    with pytest.raises(ValidationError, match="must be three letters"):
        validation.incoterm(value)
    assert validation.incoterm("fob") == "FOB"


@pytest.mark.parametrize("value", [2, -1, 0.5, "yes", None])
def test_boolean_is_true_false_one_or_zero(value: object) -> None:
    with pytest.raises(ValidationError, match="must be True or False"):
        validation.boolean(value, "hazardous")
    assert [validation.boolean(value, "hazardous") for value in (True, False, 1, 0)] == [True, False, True, False]


@pytest.mark.parametrize("value", ["2025-03-01", date(2025, 3, 1), None, datetime(2025, 3, 1, tzinfo=UTC)])
def test_naive_datetime_has_no_zone(value: object) -> None:
    with pytest.raises(ValidationError, match=r"must be a datetime|must have no zone"):
        validation.naive_datetime(value, "arrival")
