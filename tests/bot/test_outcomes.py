"""Exceptions that handlers raise."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from freight_exchange import Drop, RetryLater, ValidationError
from freight_exchange.bot.outcomes import describe


class Mute(Exception):
    def __str__(self) -> str:
        return str(self.args[5])


class Blank(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]  # an invalid result that the bot must tolerate


# Reasons that a handler gives, and the texts that are stored of them.
REASONS: list[tuple[object, str]] = [
    ("no tariff", "no tariff"),
    ("", ""),
    (TimeoutError("no tariff"), "TimeoutError: no tariff"),
    (TimeoutError(), "TimeoutError"),
    (Mute("x"), "Mute"),
    (Blank("x"), "Blank"),
    (None, "None"),
    (7, "7"),
    ({"a": 1}, "{'a': 1}"),
    ("half a pair: \ud800", "half a pair: \\ud800"),
    (ValueError("\udcff.csv"), "ValueError: \\udcff.csv"),
    (ValueError("a\0b"), "ValueError: a\\x00b"),
]


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
    def test_delay_is_timedelta_or_seconds(self, delay: Any, seconds: float) -> None:
        assert RetryLater(delay).delay == seconds
        assert type(RetryLater(delay).delay) is float

    def test_default_delay_is_a_minute(self) -> None:
        assert RetryLater().delay == 60.0
        assert RetryLater().reason == ""

    @pytest.mark.parametrize("delay", [True, False, None, "5", Decimal(5), [5]], ids=repr)
    def test_other_delay_raises(self, delay: Any) -> None:
        with pytest.raises(ValidationError, match=r"^delay must be a timedelta or seconds, not a ") as caught:
            RetryLater(delay)
        assert type(delay).__name__ in str(caught.value)
        assert caught.value.field == "delay"

    @pytest.mark.parametrize(
        "delay",
        [-1, -0.001, timedelta(seconds=-1), math.nan, math.inf, -math.inf, 1e300, timedelta.max, 10**400],
        ids=lambda delay: repr(delay)[:20],
    )
    def test_invalid_delay_raises(self, delay: Any) -> None:
        with pytest.raises(ValidationError, match=r"^delay must be") as caught:
            RetryLater(delay)
        assert caught.value.field == "delay"

    def test_text(self) -> None:
        assert str(RetryLater(90, "no tariff yet")) == "no tariff yet"
        assert str(RetryLater(90)) == "again in 90 s"
        assert str(RetryLater(0.5)) == "again in 0.5 s"

    @pytest.mark.parametrize("twin", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
    def test_copies_and_pickles(self, twin: Any) -> None:
        again = twin(RetryLater(timedelta(seconds=3), "why"))
        assert type(again) is RetryLater
        assert (again.delay, again.reason) == (3.0, "why")


class TestDrop:
    def test_text(self) -> None:
        assert (Drop("too far").reason, str(Drop("too far"))) == ("too far", "too far")
        assert (Drop().reason, str(Drop())) == ("", "")

    def test_pickles(self) -> None:
        again = pickle.loads(pickle.dumps(Drop("why")))
        assert (type(again), again.reason) == (Drop, "why")


@pytest.mark.parametrize(("reason", "kept"), REASONS, ids=lambda value: ascii(value)[:20])
def test_any_reason_becomes_storable_text(reason: object, kept: str) -> None:
    assert describe(reason) == kept
    assert (Drop(reason).reason, RetryLater(5, reason).reason) == (kept, kept)
    assert (str(Drop(reason)), str(RetryLater(5, reason))) == (kept, kept or "again in 5 s")
    kept.encode()


def test_subclass_has_defaults() -> None:
    class NotYet(RetryLater):
        def __init__(self) -> None:
            pass

    assert (NotYet().delay, NotYet().reason, str(NotYet())) == (60.0, "", "again in 60 s")


@pytest.mark.parametrize("kind", [RetryLater, Drop])
def test_neither_is_a_package_error(kind: type[Exception]) -> None:
    """A handler may catch `FreightExchangeError` around its calls."""
    assert kind.__mro__[1] is Exception
