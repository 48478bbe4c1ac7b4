"""Tests of transient errors."""

from __future__ import annotations

import pytest

from freight_exchange.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    FeedProtocolError,
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from freight_exchange.errors.transient import is_from_login, is_transient, request_count, retry_delay


def held_back(error: AuthenticationError) -> AuthenticationError:
    error.retry_after = 4.0
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TransportError(), True),
        (TransportError(permanent=True), False),
        (DeadlineExceededError(), True),
        (DecodeError(), True),
        (FeedProtocolError(), True),
        (ServerError(), True),
        (RateLimitedError(), True),
        (BadRequestError(), False),
        (NotFoundError(), False),
        (AuthenticationError(), False),
        (held_back(AuthenticationError()), True),
        (LoginRejectedError(), False),
        (ConfigurationError(), False),
    ],
)
def test_error_is_transient_if_the_same_read_may_succeed_later(error: FreightExchangeError, expected: bool) -> None:
    assert is_transient(error) is expected


def test_delay_is_that_of_the_service_or_of_the_next_login() -> None:
    assert retry_delay(RateLimitedError(retry_after=7.5)) == 7.5
    assert retry_delay(held_back(AuthenticationError())) == 4.0
    assert retry_delay(ServerError()) is None
    assert retry_delay(TransportError()) is None


def test_failed_login_is_recognised_by_its_path_and_counts_beside_a_call_whose_token_was_refused() -> None:
    assert is_from_login(TransportError(path="login"))
    assert is_from_login(DecodeError(path="$", request_path="login"))
    assert not is_from_login(DecodeError(path="login", request_path="quote/bid"))
    assert request_count(TransportError(path="quote/bid")) == 1
    assert request_count(TransportError(path="quote/bid", attempts=3)) == 3
    failed = ServerError(path="login", attempts=2)
    assert request_count(failed) == 2
    failed.token_refused = True
    assert request_count(failed) == 3
    outlasted = DeadlineExceededError(path="quote/bid", attempts=1)
    outlasted.login_pending = True
    assert request_count(outlasted) == 3
    assert request_count(AuthenticationError(path="quote/bid", attempts=1)) == 2
