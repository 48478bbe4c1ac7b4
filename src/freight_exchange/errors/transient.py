"""Classification of transient errors, with their delay and the number of requests sent."""

from __future__ import annotations

from typing import Final

from freight_exchange.errors.hierarchy import (
    APIStatusError,
    AuthenticationError,
    DeadlineExceededError,
    DecodeError,
    FeedProtocolError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from freight_exchange.platform.errors import FreightExchangeError

__all__ = ["READ_ERRORS", "is_from_login", "is_transient", "request_count", "retry_delay"]

READ_ERRORS: Final = (TransportError, DeadlineExceededError, DecodeError, APIStatusError, FeedProtocolError)
"""Classes of errors after which a read may succeed later. A rejected login is among them, but is permanent."""

_ATTEMPTS_OF_SLOW_LOGIN: Final = 2
"""Attempts of a login within a call's deadline, as each attempt has a shorter timeout."""


def is_transient(error: FreightExchangeError) -> bool:
    """Return whether the same read may succeed later."""
    match error:
        case AuthenticationError():
            return error.retry_after is not None
        case TransportError():
            return not error.permanent
        case APIStatusError():
            return isinstance(error, ServerError | RateLimitedError)
        case _:
            return isinstance(error, DeadlineExceededError | DecodeError | FeedProtocolError)


def retry_delay(error: FreightExchangeError) -> float | None:
    """Return the seconds until the service accepts another request or the client tries another login, if known."""
    return error.retry_after if isinstance(error, RateLimitedError | ServerError | AuthenticationError) else None


def request_count(error: FreightExchangeError) -> int:
    """Estimate how many requests a failed call sent: its attempts, and a login or another read."""
    if error.login_pending:
        return error.attempts + _ATTEMPTS_OF_SLOW_LOGIN
    return max(1, error.attempts) + (isinstance(error, AuthenticationError) or error.token_refused)


def is_from_login(error: FreightExchangeError) -> bool:
    """Return whether a login failed, so that the call itself was not sent."""
    return error.call_path == "login"
