"""What a handler raises to say what is to become of its delivery."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from freight_exchange import Drop, RetryLater, ValidationError


class TestRetryLater:
    @pytest.mark.parametrize(
        ("delay", "seconds"),
        [
            (timedelta(minutes=5), 300.0),
            (timedelta(milliseconds=1), 0.001),
            (timedelta(0), 0.0),
            (0, 0.0),
            (7, 7.0),
            (0.25, 0.25),
            (timedelta(days=365), 31_536_000.0),
        ],
    )
    def test_waits_for_a_timedelta_or_seconds(self, delay: Any, seconds: float) -> None:
        assert RetryLater(delay).delay == seconds
        assert type(RetryLater(delay).delay) is float

    def test_waits_for_a_minute_unless_told(self) -> None:
        assert RetryLater().delay == 60.0
        assert RetryLater().reason == ""

    @pytest.mark.parametrize("delay", [True, False, None, "5", Decimal(5), [5]], ids=repr)
    def test_refuses_what_is_no_duration(self, delay: Any) -> None:
        with pytest.raises(ValidationError, match=r"^delay must be a timedelta or seconds, not a ") as caught:
            RetryLater(delay)
        assert type(delay).__name__ in str(caught.value)
        assert caught.value.field == "delay"

    @pytest.mark.parametrize(
        "delay",
        [-1, -0.001, timedelta(seconds=-1), math.nan, math.inf, -math.inf, 1e300, timedelta.max, 10**400],
        ids=lambda delay: repr(delay)[:20],
    )
    def test_refuses_a_duration_that_cannot_be_right(self, delay: Any) -> None:
        with pytest.raises(ValidationError, match=r"^delay must be") as caught:
            RetryLater(delay)
        assert caught.value.field == "delay"

    def test_says_why_or_else_when(self) -> None:
        assert str(RetryLater(90, "no tariff yet")) == "no tariff yet"
        assert str(RetryLater(90)) == "again in 90 s"
        assert str(RetryLater(0.5)) == "again in 0.5 s"

    @pytest.mark.parametrize("twin", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
    def test_survives_copying_and_pickling(self, twin: Any) -> None:
        again = twin(RetryLater(timedelta(seconds=3), "why"))
        assert type(again) is RetryLater
        assert (again.delay, again.reason) == (3.0, "why")


class TestDrop:
    def test_says_why(self) -> None:
        assert (Drop("too far").reason, str(Drop("too far"))) == ("too far", "too far")
        assert (Drop().reason, str(Drop())) == ("", "")

    def test_survives_pickling(self) -> None:
        again = pickle.loads(pickle.dumps(Drop("why")))
        assert (type(again), again.reason) == (Drop, "why")


@pytest.mark.parametrize("kind", [RetryLater, Drop])
def test_neither_is_an_error_of_the_package(kind: type[Exception]) -> None:
    """A handler that catches `FreightExchangeError` around its calls lets both pass."""
    assert kind.__mro__[1] is Exception
