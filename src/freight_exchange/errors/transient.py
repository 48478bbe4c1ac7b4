"""Trouble with the service: what whoever reads for long lives through, and what may be gone the next time. Pure."""

from __future__ import annotations

from typing import Final

from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    DeadlineExceededError,
    DecodeError,
    FeedProtocolError,
    FreightExchangeError,
    RateLimitedError,
    ServerError,
    TransportError,
)

__all__ = ["TROUBLE", "asked_for", "is_of_login", "may_pass", "requests_of"]

TROUBLE: Final = (TransportError, DeadlineExceededError, DecodeError, APIStatusError, FeedProtocolError)
"""What a reading may fail with and a later one need not, but for a rejected login, which is one of them."""


def may_pass(error: FreightExchangeError) -> bool:
    """Whether the trouble may be gone when the page is asked for again."""
    match error:
        case AuthenticationError():
            return error.retry_after is not None
        case TransportError():
            return not error.permanent
        case APIStatusError():
            return isinstance(error, ServerError | RateLimitedError)
        case _:
            return isinstance(error, DeadlineExceededError | DecodeError | FeedProtocolError)


def asked_for(error: FreightExchangeError) -> float | None:
    """The seconds that the service asked to be left alone for, or until the next login."""
    return error.retry_after if isinstance(error, RateLimitedError | ServerError | AuthenticationError) else None


def requests_of(error: FreightExchangeError) -> int:
    """Estimate the requests that a failed call has sent: its attempts, and those of the login or read beside it."""
    return max(1, error.attempts) + (isinstance(error, AuthenticationError) or is_of_login(error))


def is_of_login(error: FreightExchangeError) -> bool:
    """Return whether a login failed in place of the call: nothing was asked, and the reply says nothing about it."""
    return (error.request_path if isinstance(error, DecodeError) else error.path) == "login"
