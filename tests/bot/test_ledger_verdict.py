"""Tests of the verdict on an attempt, by the error that ended its handler."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from freight_exchange.bot.outcomes import IN_DOUBT, Drop, RetryLater, backoff, decide
from freight_exchange.errors import (
    AlreadyApprovedError,
    AlreadyOfferedError,
    AuthenticationError,
    FencedError,
    LoginRejectedError,
    OfferChangedError,
    OfferInDoubtError,
    OfferRejectedError,
    RateLimitedError,
    ServerError,
    StoreAwayError,
    TransportError,
    ValidationError,
)


def throttled(seconds: float | None) -> RateLimitedError:
    return RateLimitedError("too many calls", retry_after=seconds)


def held_login() -> AuthenticationError:
    error = AuthenticationError("not now")
    error.retry_after = 30.0
    return error


FIRST, LAST = {"attempts": 1, "retries": 2}, {"attempts": 3, "retries": 2}
DOUBT = OfferInDoubtError("perhaps")

VERDICTS: dict[str, tuple[Exception | None, dict[str, Any], tuple[str, str, bool]]] = {
    # The error of the handler and the circumstances; ending, state, and whether the attempt counts.
    "no error": (None, FIRST, ("done", "done", True)),
    "drop": (Drop("too far"), FIRST, ("dropped", "done", True)),
    "later": (RetryLater(60), LAST, ("later", "ready", False)),
    "failure": (ValueError(), FIRST, ("failed", "ready", True)),
    "last failure": (ValueError(), LAST, ("dead", "dead", True)),
    "invalid argument": (ValidationError("no", field="amount"), LAST, ("dead", "dead", True)),
    "other bid": (AlreadyOfferedError(), FIRST, ("dropped", "done", True)),
    "other approval": (AlreadyApprovedError(), FIRST, ("dropped", "done", True)),
    "other terms": (OfferChangedError(), FIRST, ("dropped", "done", True)),
    "refusal": (OfferRejectedError(), FIRST, ("dead", "dead", True)),
    "offer on a closed request": (OfferRejectedError(request_closed=True), FIRST, ("dropped", "done", True)),
    "doubt": (DOUBT, LAST, ("doubt", "ready", False)),
    "doubt that was caught": (None, {**FIRST, "is_open": True}, ("doubt", "ready", False)),
    "doubt behind another error": (ValueError(), {**LAST, "is_open": True}, ("doubt", "ready", False)),
    "doubt that was postponed": (RetryLater(60), {**FIRST, "is_open": True}, ("doubt", "ready", False)),
    "doubt that was dropped": (Drop(), {**FIRST, "is_open": True}, ("dropped", "done", True)),
    "lost seat": (FencedError(), LAST, ("released", "ready", False)),
    "database away": (StoreAwayError(), LAST, ("released", "ready", False)),
    "rejected login": (LoginRejectedError(), LAST, ("released", "ready", False)),
    "login that waits": (held_login(), FIRST, ("transient", "ready", False)),
    "throttled": (throttled(7.0), FIRST, ("transient", "ready", False)),
    "network": (TransportError("gone"), FIRST, ("failed", "ready", True)),
    "network for long": (TransportError("gone"), LAST, ("transient", "ready", False)),
    "service down for long": (ServerError("down"), LAST, ("transient", "ready", False)),
    "service that has recovered": (ServerError("down"), {**LAST, "has_recovered": True}, ("dead", "dead", True)),
    "group of transient errors": (
        ExceptionGroup("", [TransportError("gone"), ServerError("down")]), LAST, ("transient", "ready", False),
    ),
    "group with a doubt": (ExceptionGroup("", [ValueError(), DOUBT]), LAST, ("doubt", "ready", False)),
    "group of different errors": (ExceptionGroup("", [ValueError(), TypeError()]), LAST, ("dead", "dead", True)),
}  # fmt: skip


@pytest.mark.parametrize(("error", "circumstances", "expected"), VERDICTS.values(), ids=VERDICTS)
def test_error_decides(error: Exception | None, circumstances: dict[str, Any], expected: tuple[str, str, bool]) -> None:
    verdict = decide(error, random=Random(0), **circumstances)
    assert (verdict.ending, verdict.state, not verdict.refund) == expected


@pytest.mark.parametrize(
    ("error", "circumstances", "delay"),
    [
        (RetryLater(0), FIRST, 1.0),
        (RetryLater(3600), FIRST, 3600.0),
        (RetryLater(60), {**FIRST, "is_open": True}, 60.0),
        (throttled(7.0), FIRST, 7.0),
        (throttled(None), FIRST, 15.0),
        (throttled(1e9), FIRST, 3600.0),
        (held_login(), FIRST, 30.0),
        (TransportError("gone"), {**LAST, "outage": 10.0}, 15.0),
        (TransportError("gone"), {**LAST, "outage": 800.0}, 100.0),
        (TransportError("gone"), {**LAST, "outage": 1e6}, 300.0),
    ],
    ids=str,
)
def test_delay_follows_the_error(error: Exception, circumstances: dict[str, Any], delay: float) -> None:
    assert decide(error, random=Random(0), **circumstances).delay == delay


def test_backoff_doubles_up_to_five_minutes_with_jitter_down_to_half() -> None:
    for attempts, longest in enumerate([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300], start=1):
        found = [backoff(attempts, Random(seed)) for seed in range(50)]
        assert longest / 2 <= min(found) < 0.7 * longest
        assert 0.8 * longest < max(found) <= longest
    assert backoff(10**6, Random(0)) <= 300


def test_stored_error_is_a_text_of_bounded_length() -> None:
    long = decide(ValueError("x" * 5000), attempts=1, retries=0, random=Random(0)).error
    assert long is not None
    assert long.startswith("ValueError: xxx")
    assert len(long) < 1100
    assert decide(DOUBT, attempts=1, retries=0, random=Random(0)).error == IN_DOUBT
