"""Retry policy: the table of decisions, and the bounds of the backoff."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange import errors
from freight_exchange.bot.delivery.retry_policy import Decision, backoff, decide
from freight_exchange.bot.handler import Handler
from freight_exchange.bot.outcomes import IN_DOUBT, INTERRUPTED, Drop, RetryLater
from freight_exchange.store.protocol import ConflictError, StoreRefusedError
from freight_exchange.store.work import Delivery


async def quote(request: Any, ctx: Any) -> None: ...


def handler(retries: int) -> Handler:
    return Handler(id="quote", function=quote, filters={}, retries=retries, timeout=300.0, from_start=False)


def delivery(attempts: int, error: str | None = None) -> Delivery:
    return Delivery(
        event=1, handler="quote", index=4, kind="new", payload=b"", attempts=attempts, state="claimed",
        not_before=0.0, error=error,
    )  # fmt: skip


def decision_for(
    error: Exception | None, *, attempts: int = 1, retries: int = 8, has_recovered: bool = True
) -> Decision:
    return decide(delivery(attempts), handler(retries), error, has_recovered=has_recovered, random=Random(0))


DONE = Decision(ending="done", state="done")


def dropped(error: str) -> Decision:
    return Decision(ending="dropped", state="done", error=error)


def later(delay: float, error: str | None = None) -> Decision:
    return Decision(ending="later", state="ready", delay=delay, error=error, refund_attempt=True)


def dead(error: str) -> Decision:
    return Decision(ending="dead", state="dead", error=error)


def released(error: str) -> Decision:
    return Decision(ending="released", state="ready", delay=15.0, error=error, refund_attempt=True)


def held_back(error: str, delay: float = 15.0) -> Decision:
    return Decision(ending="transient", state="ready", delay=delay, error=error, refund_attempt=True)


DOUBT = Decision(ending="doubt", state="ready", delay=2.0, error="its offer is in doubt", refund_attempt=True)
SEAT_LOST = Decision(ending="released", state="ready", delay=1.0, refund_attempt=True)
# Decision for each result of a handler, on every attempt, with or without other deliveries that succeed.
ALWAYS: list[tuple[Exception | None, Decision]] = [
    (None, DONE),
    (Drop(), dropped("Drop")),
    (Drop("too far"), dropped("Drop: too far")),
    (errors.AlreadyOfferedError("by a person", request=4), dropped("AlreadyOfferedError: by a person")),
    (errors.AlreadyApprovedError("another", request=4), dropped("AlreadyApprovedError: another")),
    (errors.OfferChangedError("dearer", request=4), dropped("OfferChangedError: dearer")),
    (RetryLater(), later(60.0)),
    (RetryLater(timedelta(minutes=5), "no tariff"), later(300.0, "no tariff")),
    (RetryLater(0), later(1.0)),
    (RetryLater(0.5, "soon"), later(1.0, "soon")),
    (RetryLater(1.5), later(1.5)),
    (RetryLater(timedelta(days=30)), later(2_592_000.0)),
    (errors.OfferInDoubtError("perhaps", request=4), DOUBT),
    (errors.OfferRejectedError("no such currency"), dead("OfferRejectedError: no such currency")),
    (errors.RateLimitedError("slower"), held_back("RateLimitedError: slower")),
    (errors.RateLimitedError("slower", retry_after=0.0), held_back("RateLimitedError: slower")),
    (errors.RateLimitedError("slower", retry_after=0.5), held_back("RateLimitedError: slower", 1.0)),
    (errors.RateLimitedError("slower", retry_after=90.0), held_back("RateLimitedError: slower", 90.0)),
    (errors.RateLimitedError("slower", retry_after=1e9), held_back("RateLimitedError: slower", 3600.0)),
    (errors.LoginRejectedError("wrong password"), released("LoginRejectedError: wrong password")),
    # The replica lost its seat: the handler has not failed, and must not become a dead letter.
    (errors.StoreAwayError("cut"), SEAT_LOST),
    (errors.FencedError("taken over"), SEAT_LOST),
    (ConflictError("a deadlock"), SEAT_LOST),
    (ExceptionGroup("two", [errors.StoreAwayError("cut"), errors.StoreAwayError("cut")]), SEAT_LOST),
    # Perhaps only the handler's statement was refused, and the replica keeps its seat.
    (StoreRefusedError("no right"), held_back("StoreRefusedError: no right", 15.0)),
]
# Outages of the service pass; no delivery dies while all deliveries fail.
OUTAGES: list[Exception] = [
    errors.TransportError("refused"),
    errors.DeadlineExceededError("60 s"),
    errors.ServerError("down"),
    errors.AuthenticationError("not yours"),
    errors.BadRequestError("a gateway's answer to a login", path="login"),
    errors.DecodeError("a gateway's page in place of a token", request_path="login"),
]
# Failures of the handler, even during an outage. A subclass of an error of an outage would count as an outage.
FAILURES: list[Exception] = [
    ValueError("no tariff"),
    TimeoutError(),
    KeyError("Oslo"),
    OSError("the database is away"),
    ConnectionError("so is the tariff service"),
    errors.BadRequestError("malformed"),
    errors.NotFoundError("gone"),
    errors.DecodeError("what is this"),
    errors.ValidationError("amount must be greater than zero", field="amount"),
    errors.ConfigurationError("not entered"),
    errors.FeedProtocolError("?"),
    errors.StoreError("full"),
    errors.OutcomeUnknownError("a write of the handler's own"),
    errors.FreightExchangeError("any other"),
    ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
    ExceptionGroup("two", [Drop("a"), RetryLater(5)]),
]


def ids(value: object) -> str:
    return "" if isinstance(value, Decision) else type(value).__name__


@pytest.mark.parametrize(("error", "expected"), ALWAYS, ids=ids)
@pytest.mark.parametrize("attempts", [1, 2, 100])
@pytest.mark.parametrize("retries", [0, 8])
@pytest.mark.parametrize("has_recovered", [True, False])
def test_decision_follows_from_error_and_attempts(
    error: Exception | None, expected: Decision, attempts: int, retries: int, has_recovered: bool
) -> None:
    assert decision_for(error, attempts=attempts, retries=retries, has_recovered=has_recovered) == expected


@pytest.mark.parametrize("error", [*OUTAGES, *FAILURES], ids=ids)
@pytest.mark.parametrize(
    ("attempts", "retries", "ending"),
    [
        (1, 0, "dead"), (2, 0, "dead"),
        (1, 1, "failed"), (2, 1, "dead"), (3, 1, "dead"),
        (1, 8, "failed"), (8, 8, "failed"), (9, 8, "dead"), (10, 8, "dead"),
    ],
)  # fmt: skip
def test_failure_is_retried_as_configured(error: Exception, attempts: int, retries: int, ending: str) -> None:
    found = decision_for(error, attempts=attempts, retries=retries)
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, ExceptionGroup):
        assert (found.error or "").startswith(f"{text}: "), "and what is in it"
        text = found.error or ""
    if ending == "dead":
        assert found == dead(text)
    else:
        assert found == Decision(ending="failed", state="ready", delay=found.delay, error=text)
        assert found.delay == backoff(attempts, Random(0))


@pytest.mark.parametrize("error", OUTAGES, ids=ids)
@pytest.mark.parametrize(("attempts", "retries"), [(1, 0), (2, 1), (9, 8), (100, 8)])
def test_transient_error_kills_nothing_during_outage(error: Exception, attempts: int, retries: int) -> None:
    expected = held_back(f"{type(error).__name__}: {error}")
    assert decision_for(error, attempts=attempts, retries=retries, has_recovered=False) == expected


@pytest.mark.parametrize("error", OUTAGES, ids=ids)
@pytest.mark.parametrize("attempts", [1, 8])
def test_transient_error_is_a_failure_before_last_attempt(error: Exception, attempts: int) -> None:
    assert decision_for(error, attempts=attempts, has_recovered=False) == decision_for(
        error, attempts=attempts, has_recovered=True
    )
    assert decision_for(error, attempts=attempts, has_recovered=False).ending == "failed"


@pytest.mark.parametrize("error", FAILURES, ids=ids)
@pytest.mark.parametrize("attempts", [1, 8, 9, 100])
def test_own_failure_counts_during_outage(error: Exception, attempts: int) -> None:
    found = decision_for(error, attempts=attempts, has_recovered=False)
    assert found == decision_for(error, attempts=attempts, has_recovered=True)
    assert found.state == ("dead" if attempts > 8 else "ready")


@pytest.mark.parametrize(("error", "expected"), ALWAYS[1:], ids=ids)
@pytest.mark.parametrize("layers", [1, 3])
def test_wrapped_error_is_unwrapped(error: Exception, expected: Decision, layers: int) -> None:
    for _ in range(layers):
        error = ExceptionGroup("unhandled errors in a TaskGroup", [error])
    assert decision_for(error) == expected


def group(*inner: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("unhandled errors in a TaskGroup", [*inner])


DOUBTFUL = errors.OfferInDoubtError("perhaps", request=4)
# What the tasks of a handler's own group ended by, and what that comes to.
TOGETHER: list[tuple[ExceptionGroup[Exception], Decision]] = [
    (group(Drop("a"), Drop("b")), dropped("Drop: a")),
    (group(errors.AlreadyOfferedError("a"), errors.AlreadyOfferedError("b")), dropped("AlreadyOfferedError: a")),
    (group(errors.OfferRejectedError("a"), errors.OfferRejectedError("b")), dead("OfferRejectedError: a")),
    (group(DOUBTFUL, DOUBTFUL), DOUBT),
    (group(DOUBTFUL, group(DOUBTFUL), group(group(DOUBTFUL))), DOUBT),
    (group(errors.ServerError("down"), DOUBTFUL), DOUBT),
    (group(ValueError("a"), group(KeyError("b"), DOUBTFUL)), DOUBT),
    (group(errors.OfferRejectedError("a"), DOUBTFUL), DOUBT),
    (group(Drop("a"), DOUBTFUL), DOUBT),
]


@pytest.mark.parametrize(
    ("outage", "delay"), [(0.0, 15.0), (120.0, 15.0), (400.0, 50.0), (1600.0, 200.0), (1e6, 300.0)]
)
def test_delay_grows_with_outage(outage: float, delay: float) -> None:
    error = errors.ServerError("down")
    found = decide(delivery(9), handler(8), error, has_recovered=False, random=Random(0), outage=outage)
    assert found == held_back("ServerError: down", delay)


@pytest.mark.parametrize(("error", "expected"), TOGETHER)
@pytest.mark.parametrize("attempts", [1, 9])
@pytest.mark.parametrize("has_recovered", [True, False])
def test_equal_errors_are_one_and_doubt_comes_first(
    error: ExceptionGroup[Exception], expected: Decision, attempts: int, has_recovered: bool
) -> None:
    assert decision_for(error, attempts=attempts, has_recovered=has_recovered) == expected


def test_transient_errors_of_two_types_are_transient() -> None:
    """Tasks of one handler can fail in different ways during one outage."""
    both = group(errors.TransportError("refused"), errors.ServerError("down"))
    assert decision_for(both, attempts=9, has_recovered=False).ending == "transient"


def test_stored_error_of_group_names_its_errors() -> None:
    kept = decision_for(group(ValueError("no tariff"), group(KeyError("Oslo"))), attempts=9).error
    assert kept is not None
    assert kept.endswith(": ValueError: no tariff; KeyError: 'Oslo'")


def test_stored_error_is_truncated() -> None:
    kept = decision_for(ValueError("x" * 10**6), attempts=9).error
    assert kept is not None
    assert kept.startswith("ValueError: xxx")
    assert len(kept) < 1100


@pytest.mark.parametrize("error", [RetryLater(5, "x" * 10**6), Drop("x" * 10**6)], ids=ids)
def test_stored_reason_is_truncated(error: Exception) -> None:
    kept = decision_for(error).error
    assert kept is not None
    assert len(kept) < 1100


def test_tables_have_each_error() -> None:
    """A new error class needs a row in a table."""
    public = {kind for name in errors.__all__ if issubclass(kind := getattr(errors, name), Exception)}
    judged = {type(error) for error, _ in ALWAYS} | {type(error) for error in (*OUTAGES, *FAILURES)}
    assert public - judged == {errors.APIStatusError, errors.HeldError}, "a base, and what is raised before handlers"


def test_reserved_errors_are_unique() -> None:
    assert len({IN_DOUBT, INTERRUPTED}) == 2
    assert decision_for(errors.OfferInDoubtError("perhaps")).error == IN_DOUBT
    text = [decision_for(error).error for error in (*OUTAGES, *FAILURES)]
    assert not {IN_DOUBT, INTERRUPTED} & {*text}


def test_retry_is_never_immediate() -> None:
    """An immediate retry would be claimed in a loop."""
    everything = [*(error for error, _ in ALWAYS), *OUTAGES, *FAILURES]
    for has_recovered in (True, False):
        for error in everything:
            found = decision_for(error, has_recovered=has_recovered)
            assert (found.delay >= 0.5) == (found.state == "ready"), error


class TestBackoff:
    @pytest.mark.parametrize(
        ("attempts", "longest"),
        [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 16.0), (8, 128.0), (9, 256.0), (10, 300.0), (11, 300.0)],
    )
    def test_doubles_up_to_five_minutes(self, attempts: int, longest: float) -> None:
        drawn = [backoff(attempts, Random(seed)) for seed in range(400)]
        assert longest / 2 <= min(drawn) < longest * 0.52
        assert longest * 0.98 < max(drawn) <= longest

    @given(st.integers(1, 10**9), st.randoms())
    def test_is_bounded(self, attempts: int, random: Random) -> None:
        assert 0.5 <= backoff(attempts, random) <= 300.0

    @given(st.integers(1, 10**6), st.integers(0, 2**32))
    def test_never_gets_shorter(self, attempts: int, seed: int) -> None:
        assert backoff(attempts, Random(seed)) <= backoff(attempts + 1, Random(seed))


LEFT: list[tuple[Exception | None, Exception, Decision]] = [
    (None, DOUBTFUL, DOUBT),
    (TimeoutError(), DOUBTFUL, DOUBT),
    (RuntimeError("quoting failed"), DOUBTFUL, DOUBT),
    (errors.OfferRejectedError("the other price"), DOUBTFUL, DOUBT),
    (errors.AlreadyOfferedError("by a person", request=4), DOUBTFUL, DOUBT),
    (group(ValueError("a"), KeyError("b")), DOUBTFUL, DOUBT),
    (Drop("too far"), DOUBTFUL, dropped("Drop: too far")),
    (group(Drop("too far")), DOUBTFUL, dropped("Drop: too far")),
    (RetryLater(timedelta(minutes=5)), DOUBTFUL, attrs.evolve(DOUBT, delay=300.0)),
    (RetryLater(1), DOUBTFUL, DOUBT),
    (None, RetryLater(10, "the bids"), later(10.0, "the bids")),
    (RuntimeError("quoting failed"), RetryLater(10, "the bids"), later(10.0, "the bids")),
    (RetryLater(300, "no tariff"), RetryLater(10, "the bids"), later(300.0, "no tariff")),
    (RetryLater(300, "no tariff"), errors.DeadlineExceededError("not sent"), later(300.0, "no tariff")),
    (None, errors.DeadlineExceededError("not sent"), held_back("DeadlineExceededError: not sent")),
    (TimeoutError(), errors.DeadlineExceededError("not sent"), held_back("DeadlineExceededError: not sent")),
]


@pytest.mark.parametrize(("error", "offer_error", "expected"), LEFT)
@pytest.mark.parametrize("retries", [0, 8])
def test_error_of_unawaited_offer_decides(
    error: Exception | None, offer_error: Exception, expected: Decision, retries: int
) -> None:
    found = decide(delivery(9), handler(retries), error, offer_error=offer_error, has_recovered=False, random=Random(0))
    assert found == expected


@pytest.mark.parametrize(("earlier", "kept"), [(INTERRUPTED, None), ("OSError: down", "not yet"), (None, "not yet")])
def test_retry_later_keeps_suspicion(earlier: str | None, kept: str | None) -> None:
    """No error is stored, so the earlier one stays."""
    decision = decide(delivery(1, earlier), handler(8), RetryLater(5, "not yet"), has_recovered=True, random=Random(0))
    assert decision == later(5.0, kept)
