"""Tests of the retry matrix and its back-off in tenacity's roles."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity import RetryCallState

from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    DecodeError,
    FreightExchangeError,
    NotFoundError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from freight_exchange.hooks import Hooks
from freight_exchange.options import RetryPolicy, Timeouts
from freight_exchange.transport.message import CallContext, Request, RequestKind
from freight_exchange.transport.middleware.outcome import FailedAttemptError
from freight_exchange.transport.middleware.retry import RetryBudget, RetryRules
from freight_exchange.transport.rules.retry_matrix import MATRIX as RULES
from freight_exchange.transport.rules.retry_matrix import Cause, RetryRule, cost_of

READ, LOGIN, WRITE = RequestKind.READ, RequestKind.LOGIN, RequestKind.WRITE


@dataclass(frozen=True)
class Row:
    """Failure, and its consequence for reads, logins and writes: again, once, raise or unknown."""

    name: str
    error: FreightExchangeError
    read: str
    login: str
    write: str
    retry_after: float | None = None


def status(code: int, kind: type[APIStatusError] = APIStatusError) -> APIStatusError:
    return kind("no", status=code)


MATRIX = [
    Row("no connection, proven", TransportError(unsent=True), "again", "again", "again"),
    Row("bad certificate", TransportError(unsent=True, permanent=True), "raise", "raise", "raise"),
    Row("broke after the start", TransportError(), "again", "once", "unknown"),
    Row("cannot be sent, perhaps half", TransportError(permanent=True), "raise", "raise", "unknown"),
    Row("401", status(401, AuthenticationError), "raise", "raise", "raise"),
    Row("Unauthorized at 200", status(200, AuthenticationError), "raise", "raise", "raise"),
    Row("400", status(400, BadRequestError), "raise", "raise", "raise"),
    Row("403", status(403), "raise", "raise", "raise"),
    Row("404", status(404, NotFoundError), "raise", "raise", "raise"),
    Row("405", status(405), "raise", "raise", "raise"),
    Row("409", status(409), "raise", "raise", "raise"),
    Row("413", status(413, BadRequestError), "raise", "raise", "raise"),
    Row("422", status(422, BadRequestError), "raise", "raise", "raise"),
    Row("408", status(408), "again", "once", "unknown"),
    Row("429, 7 s", status(429, RateLimitedError), "again", "once", "once", retry_after=7),
    Row("429, 120 s", status(429, RateLimitedError), "again", "once", "once", retry_after=120),
    Row("429, blindly", status(429, RateLimitedError), "again", "raise", "raise"),
    Row("429, 121 s", status(429, RateLimitedError), "raise", "raise", "raise", retry_after=121),
    Row("429, 10^9 s", status(429, RateLimitedError), "raise", "raise", "raise", retry_after=1e9),
    Row("503, 7 s", status(503, ServerError), "again", "once", "unknown", retry_after=7),
    Row("503, blindly", status(503, ServerError), "again", "once", "unknown"),
    Row("500", status(500, ServerError), "again", "once", "unknown"),
    Row("502", status(502, ServerError), "again", "once", "unknown"),
    Row("504", status(504, ServerError), "again", "once", "unknown"),
    Row("599", status(599, ServerError), "again", "once", "unknown"),
    Row("301", status(301), "raise", "raise", "unknown"),
    Row("304", status(304), "raise", "raise", "unknown"),
    Row("307", status(307), "raise", "raise", "unknown"),
    Row("not as in the document", DecodeError("html", status=200), "once", "raise", "unknown"),
]
CELLS = [
    pytest.param(row, kind, expected, id=f"{row.name}-{kind.value}")
    for row in MATRIX
    for kind, expected in ((READ, row.read), (LOGIN, row.login), (WRITE, row.write))
]


@dataclass(frozen=True)
class Again:
    delay: float
    cost: int
    once: bool


class GiveUp:
    pass


class Unknown:
    pass


def decide(
    error: FreightExchangeError,
    kind: RequestKind,
    *,
    policy: RetryPolicy | None = None,
    attempt: int = 1,
    spent: bool = False,
    retry_after: float | None = None,
    remaining: float = 1000.0,
    chance: float = 0.5,
) -> Again | GiveUp | Unknown:
    """Return the decision of the retry strategies, in tenacity's order, after attempt number `attempt`."""
    error = copy.copy(error)
    if isinstance(error, RateLimitedError | ServerError):
        error.retry_after = retry_after
    context = CallContext(retries=policy or RetryPolicy(attempts=9))
    request = Request(method="POST", path="p", kind=kind, timeouts=Timeouts(), ends_at=remaining, context=context)
    rules = RetryRules(request, RetryBudget(500), Hooks(), lambda: chance, now=lambda: 0.0)
    retrying = rules.retrying()
    state = RetryCallState(retrying, None, (), {})
    if spent:
        rules.extra_attempt_used = True
    state.attempt_number = attempt
    state.set_exception((FailedAttemptError, FailedAttemptError(error), None))
    if not retrying.retry(state):
        return Unknown() if rules.rule is RetryRule.UNKNOWN else GiveUp()
    state.upcoming_sleep = retrying.wait(state)
    if retrying.stop(state):
        return GiveUp()
    return Again(state.upcoming_sleep, cost_of(rules.cause), rules.rule is RetryRule.ONCE)


TABLE = {
    Cause.UNSENT: "RETRY RETRY RETRY",
    Cause.PERMANENT: "RAISE RAISE RAISE",
    Cause.INTERRUPTED: "RETRY ONCE UNKNOWN",
    Cause.REFUSED: "RAISE RAISE RAISE",
    Cause.TIMED_OUT: "RETRY ONCE UNKNOWN",
    Cause.THROTTLED: "RETRY ONCE ONCE",
    Cause.THROTTLED_BLINDLY: "RETRY RAISE RAISE",
    Cause.THROTTLED_LONG: "RAISE RAISE RAISE",
    Cause.UNAVAILABLE: "RETRY ONCE UNKNOWN",
    Cause.BROKEN: "RETRY ONCE UNKNOWN",
    Cause.REDIRECTED: "RAISE RAISE UNKNOWN",
    Cause.MALFORMED: "ONCE RAISE UNKNOWN",
}


@pytest.mark.parametrize("cause", list(Cause), ids=lambda cause: cause.name)
def test_matrix_equals_its_document(cause: Cause) -> None:
    """The table alone must decide, even where another rule leads to the same decision."""
    assert {kind: rule.name for kind, rule in RULES[cause].items()} == dict(
        zip((READ, LOGIN, WRITE), TABLE[cause].split(), strict=True)
    )


@pytest.mark.parametrize(("row", "kind", "expected"), CELLS)
def test_cells_of_the_matrix_decide(row: Row, kind: RequestKind, expected: str) -> None:
    decision = decide(row.error, kind, retry_after=row.retry_after)
    assert isinstance(decision, {"again": Again, "once": Again, "raise": GiveUp, "unknown": Unknown}[expected])
    if isinstance(decision, Again):
        assert decision.once is (expected == "once")


@pytest.mark.parametrize(("row", "kind", "expected"), CELLS)
def test_extra_attempt_is_given_once(row: Row, kind: RequestKind, expected: str) -> None:
    decision = decide(row.error, kind, retry_after=row.retry_after, attempt=2, spent=True)
    assert isinstance(decision, {"again": Again, "once": GiveUp, "raise": GiveUp, "unknown": Unknown}[expected])


@pytest.mark.parametrize(("row", "kind", "expected"), CELLS)
def test_single_attempt_is_not_repeated_and_a_write_stays_unknown(row: Row, kind: RequestKind, expected: str) -> None:
    decision = decide(row.error, kind, retry_after=row.retry_after, policy=RetryPolicy(attempts=1))
    assert isinstance(decision, Unknown if expected == "unknown" else GiveUp)


@pytest.mark.parametrize("attempt", [1, 2, 3, 4])
def test_attempts_are_all_attempts(attempt: int) -> None:
    decision = decide(TransportError(), READ, policy=RetryPolicy(attempts=3), attempt=attempt)
    assert isinstance(decision, Again if attempt < 3 else GiveUp)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(AuthenticationError("", status=401), id="401"),
        pytest.param(AuthenticationError("", status=403), id="Unauthorized at 403"),
        pytest.param(AuthenticationError("", status=200), id="Unauthorized at 200"),
        pytest.param(RateLimitedError("", status=429), id="429"),
    ],
)
@pytest.mark.parametrize("retry_after", [None, 1.0, 500.0])
def test_refusals_prove_nothing_where_they_are_not_trusted(error: APIStatusError, retry_after: float | None) -> None:
    distrust = RetryPolicy(trust_refusals=False)
    assert isinstance(decide(error, WRITE, policy=distrust, retry_after=retry_after), Unknown)
    assert not isinstance(decide(error, READ, policy=distrust, retry_after=retry_after), Unknown)
    assert not isinstance(decide(error, WRITE, retry_after=retry_after), Unknown)


def test_refusal_of_a_wrong_request_is_believed_despite_distrust() -> None:
    assert isinstance(decide(status(400, BadRequestError), WRITE, policy=RetryPolicy(trust_refusals=False)), GiveUp)


class TestWaits:
    @pytest.mark.parametrize(
        ("attempt", "chance", "delay"),
        [(1, 0.0, 0.0), (1, 1.0, 0.05), (2, 1.0, 0.1), (3, 0.5, 0.1), (8, 1.0, 6.4)],
    )
    def test_full_jitter_doubles(self, attempt: int, chance: float, delay: float) -> None:
        decision = decide(TransportError(), READ, attempt=attempt, chance=chance)
        assert isinstance(decision, Again)
        assert decision.delay == pytest.approx(delay)

    def test_no_back_off_is_longer_than_the_cap(self) -> None:
        policy = RetryPolicy(attempts=100, cap=3)
        for error in (TransportError(), RateLimitedError("", status=429)):
            decision = decide(error, READ, policy=policy, attempt=60, chance=1.0)
            assert isinstance(decision, Again)
            assert decision.delay == 3

    @pytest.mark.parametrize(("attempt", "chance", "delay"), [(1, 0.0, 1.0), (1, 1.0, 2.0), (2, 1.0, 3.0)])
    def test_throttling_without_a_time_backs_off_a_second_at_least(
        self, attempt: int, chance: float, delay: float
    ) -> None:
        decision = decide(RateLimitedError("", status=429), READ, attempt=attempt, chance=chance)
        assert isinstance(decision, Again)
        assert decision.delay == pytest.approx(delay)

    @pytest.mark.parametrize(
        ("retry_after", "chance", "delay"),
        [(0.0, 1.0, 0.0), (7.0, 0.0, 7.0), (7.0, 1.0, 7.7), (120.0, 1.0, 121.0), (0.25, 0.5, 0.2625)],
    )
    @pytest.mark.parametrize("error", [RateLimitedError("", status=429), ServerError("", status=503)], ids=str)
    def test_never_earlier_than_asked(
        self, error: FreightExchangeError, retry_after: float, chance: float, delay: float
    ) -> None:
        decision = decide(error, READ, retry_after=retry_after, chance=chance)
        assert isinstance(decision, Again)
        assert decision.delay == pytest.approx(delay)

    @pytest.mark.parametrize(
        ("error", "retry_after"),
        [
            pytest.param(RateLimitedError("", status=429), 10.0, id="429"),
            pytest.param(ServerError("", status=503), 10.0, id="503"),
            pytest.param(ServerError("", status=503), 121.0, id="503 beyond any wait"),
        ],
    )
    def test_wait_beyond_the_deadline_is_not_begun(self, error: FreightExchangeError, retry_after: float) -> None:
        assert isinstance(decide(error, READ, retry_after=retry_after, remaining=10.0, chance=0.0), GiveUp)
        if retry_after <= 120:
            assert isinstance(decide(error, READ, retry_after=retry_after, remaining=10.1, chance=0.0), Again)

    def test_a_back_off_beyond_the_deadline_is_not_begun(self) -> None:
        assert isinstance(decide(TransportError(), READ, remaining=0.05, chance=1.0), GiveUp)
        assert isinstance(decide(TransportError(), READ, remaining=0.06, chance=1.0), Again)

    def test_retry_after_of_another_status_is_no_wait(self) -> None:
        decision = decide(ServerError("", status=500), READ, retry_after=60, chance=1.0)
        assert isinstance(decision, Again)
        assert decision.delay == pytest.approx(0.05)

    @given(
        row=st.sampled_from(MATRIX),
        kind=st.sampled_from(RequestKind),
        attempt=st.integers(1, 12),
        retry_after=st.none() | st.floats(0, 1e9),
        remaining=st.floats(-5, 300),
        chance=st.floats(0, 1),
    )
    def test_every_wait_ends_within_the_deadline(
        self, row: Row, kind: RequestKind, attempt: int, retry_after: float | None, remaining: float, chance: float
    ) -> None:
        decision = decide(row.error, kind, attempt=attempt, retry_after=retry_after, remaining=remaining, chance=chance)
        if isinstance(decision, Again):
            assert 0 <= decision.delay < remaining


def test_budget_allows_as_many_tokens_as_it_holds_and_refills_up_to_its_size() -> None:
    budget = RetryBudget(13)
    assert not budget.allows(14)
    budget.spend(5)
    assert budget.tokens == 8
    for _ in range(20):
        budget.reward()
    assert budget.tokens == 13
