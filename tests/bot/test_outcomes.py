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


class Mute(Exception):
    def __str__(self) -> str:
        return str(self.args[5])


class Blank(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]  # an invalid result that the bot must tolerate


# Reasons that a handler gives, and the texts that are stored of them.
REASONS: list[tuple[object, str]] = [
    ("no tariff", "no tariff"), ("", ""), (None, "None"), (7, "7"), ({"a": 1}, "{'a': 1}"),
    (TimeoutError("no tariff"), "TimeoutError: no tariff"), (TimeoutError(), "TimeoutError"),
    (Mute("x"), "Mute"), (Blank("x"), "Blank"), ("half a pair: \ud800", "half a pair: \\ud800"),
    (ValueError("\udcff.csv"), "ValueError: \\udcff.csv"), (ValueError("a\0b"), "ValueError: a\\x00b"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "kept"), REASONS, ids=lambda value: ascii(value)[:20])
def test_any_reason_becomes_storable_text(reason: object, kept: str) -> None:
    assert (Drop(reason).reason, RetryLater(5, reason).reason) == (kept, kept)
    assert (str(Drop(reason)), str(RetryLater(5, reason))) == (kept, kept or "again in 5 s")
    kept.encode()


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [(timedelta(minutes=5), 300.0), (timedelta(0), 0.0), (0, 0.0), (7, 7.0), (0.25, 0.25), (timedelta(365), 31_536e3)],
)
def test_delay_is_timedelta_or_seconds(delay: Any, seconds: float) -> None:
    later = RetryLater(delay)
    assert (later.delay, type(later.delay)) == (seconds, float)


@pytest.mark.parametrize(
    "delay",
    [True, False, None, "5", Decimal(5), [5], -1, -0.001, timedelta(-1), math.nan, math.inf, 1e300, timedelta.max,
     10**400],
    ids=lambda delay: repr(delay)[:20],
)  # fmt: skip
def test_other_delay_raises(delay: Any) -> None:
    with pytest.raises(ValidationError, match=r"^delay must be a time") as caught:
        RetryLater(delay)
    assert caught.value.field == "delay"


def test_defaults() -> None:
    class NotYet(RetryLater):
        def __init__(self) -> None:
            pass

    for later in (RetryLater(), NotYet()):
        assert (later.delay, later.reason, str(later)) == (60.0, "", "again in 60 s")
    assert (Drop().reason, str(Drop())) == ("", "")


@pytest.mark.parametrize("twin", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_copies_and_pickles(twin: Any) -> None:
    later, drop = twin(RetryLater(timedelta(seconds=3), "why")), twin(Drop("why"))
    assert (type(later), later.delay, later.reason) == (RetryLater, 3.0, "why")
    assert (type(drop), drop.reason) == (Drop, "why")


@pytest.mark.parametrize("kind", [RetryLater, Drop])
def test_neither_is_a_package_error(kind: type[Exception]) -> None:
    """A handler may catch `FreightExchangeError` around its calls."""
    assert kind.__mro__[1] is Exception
