"""Tests of options: a wrong value raises at once, and the error names the field."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.errors import ConfigurationError
from freight_exchange.options import ADDRESSES, RetryPolicy, Timeouts, seconds

NO_DURATIONS: list[Any] = [
    0,
    -1,
    0.0,
    -0.5,
    math.nan,
    math.inf,
    -math.inf,
    timedelta(0),
    timedelta(seconds=-1),
    10**400,
    -(10**400),
    True,
    False,
    None,
    "5",
    Decimal(5),
    [5],
]


@pytest.mark.parametrize(
    ("value", "exact"),
    [(5, 5.0), (0.25, 0.25), (timedelta(minutes=2), 120.0), (timedelta(milliseconds=50), 0.05), (1e300, 1e300)],
)
def test_a_duration_is_seconds_or_a_timedelta(value: Any, exact: float) -> None:
    assert seconds(value, "deadline") == exact
    assert type(seconds(value, "deadline")) is float
    assert Timeouts(read=value).read == exact
    assert RetryPolicy(cap=value).cap == exact


@pytest.mark.parametrize("value", NO_DURATIONS, ids=lambda value: repr(value)[:20])
def test_anything_else_names_the_field(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^deadline must be") as caught:
        seconds(value, "deadline")
    assert len(str(caught.value)) < 120
    for field in ("connect", "read", "write"):
        with pytest.raises(ConfigurationError, match=rf"^Timeouts\.{field} must be"):
            Timeouts(**{field: value})
    for field in ("base", "cap"):
        with pytest.raises(ConfigurationError, match=rf"^RetryPolicy\.{field} must be"):
            RetryPolicy(**{field: value})


@pytest.mark.parametrize("value", [-1, 1.5, True, False, "3", None, math.nan])
@pytest.mark.parametrize(("field", "least"), [("attempts", 1), ("budget", 0)])
def test_counts_are_integers(field: str, least: int, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^RetryPolicy\.{field} must be an integer of at least {least}"):
        RetryPolicy(**{field: value})


@pytest.mark.parametrize("value", ["no", "", 0, 1, None])
def test_trust_is_true_or_false(value: Any) -> None:
    """Any text is true, so a text that means distrust would count as trust."""
    with pytest.raises(ConfigurationError, match=r"^RetryPolicy\.trust_refusals must be True or False"):
        RetryPolicy(trust_refusals=value)


def test_retry_policy_allows_one_attempt_and_no_budget() -> None:
    assert RetryPolicy(attempts=1, budget=0) == RetryPolicy(budget=0, attempts=1)
    with pytest.raises(ConfigurationError, match="attempts"):
        RetryPolicy(attempts=0)


def test_defaults_are_the_documented_ones() -> None:
    assert attrs.asdict(Timeouts()) == {"connect": 5, "read": 30, "write": 10}
    assert attrs.asdict(RetryPolicy()) == {
        "attempts": 3,
        "base": 0.05,
        "cap": 20,
        "budget": 500,
        "trust_refusals": True,
    }
    assert {operation: known[0] for operation, known in ADDRESSES.items()} == {
        "publish": "quote/submitrequest",
        "approve": "quote/approveoffer",
        "submit": "quote/submitoffer",
        "get_offer": "quote/offer",
    }


@pytest.mark.parametrize("option", [Timeouts(), RetryPolicy()])
def test_options_are_frozen_and_by_keyword(option: Any) -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        option.read = option.cap = 1
    with pytest.raises(TypeError):
        type(option)(1)


@given(st.floats() | st.integers() | st.timedeltas() | st.booleans() | st.text() | st.none())
def test_any_value_is_a_positive_finite_number_or_refused(value: Any) -> None:
    try:
        number = seconds(value, "deadline")
    except ConfigurationError:
        return
    assert math.isfinite(number)
    assert number > 0
