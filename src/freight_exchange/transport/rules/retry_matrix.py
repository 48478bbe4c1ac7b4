"""Retry matrix: whether a failed attempt is repeated, and after which delay. Pure.

The rows of the matrix are causes of failures, and the columns are kinds of requests.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    DecodeError,
    FreightExchangeError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from freight_exchange.options import RetryPolicy
from freight_exchange.transport.message import RequestKind

__all__ = [
    "MATRIX",
    "MAX_WAIT",
    "THROTTLED_COST",
    "TRANSIENT_COST",
    "Cause",
    "RetryRule",
    "asked_wait",
    "backoff",
    "cause_of",
    "cost_of",
    "rule_of",
]

MAX_WAIT = 120.0
"""Longest `Retry-After` that a retry waits for, in seconds."""

THROTTLED_BASE = 1.0
"""Shortest backoff after a status 429 without `Retry-After`, in seconds."""


TRANSIENT_COST = 14
THROTTLED_COST = 5
"""Tokens of the retry budget for another attempt."""


class Cause(enum.Enum):
    """Cause of a failed attempt."""

    UNSENT = "no connection was made, with proof"
    PERMANENT = "a certificate that is not valid, a request that cannot be sent"
    INTERRUPTED = "the network failed after the request may have begun"
    REFUSED = "401, 403, 404 and other 4xx: without effect"
    TIMED_OUT = "408"
    THROTTLED = "429 with a Retry-After that is worth waiting for"
    THROTTLED_BLINDLY = "429 without Retry-After"
    THROTTLED_LONG = "429 with a longer Retry-After"
    UNAVAILABLE = "503 with Retry-After"
    BROKEN = "any other 5xx"
    REDIRECTED = "3xx"
    MALFORMED = "a reply that is not what the service document describes"


class RetryRule(enum.Enum):
    """Consequence of a failed attempt."""

    RETRY = "as often as the policy allows"
    ONCE = "one more attempt"
    RAISE = "no other attempt"
    UNKNOWN = "the write may have happened: no other attempt, ever"


R, L, W = RequestKind.READ, RequestKind.LOGIN, RequestKind.WRITE

MATRIX: dict[Cause, dict[RequestKind, RetryRule]] = {
    Cause.UNSENT: {R: RetryRule.RETRY, L: RetryRule.RETRY, W: RetryRule.RETRY},
    Cause.PERMANENT: {R: RetryRule.RAISE, L: RetryRule.RAISE, W: RetryRule.RAISE},
    Cause.INTERRUPTED: {R: RetryRule.RETRY, L: RetryRule.ONCE, W: RetryRule.UNKNOWN},
    Cause.REFUSED: {R: RetryRule.RAISE, L: RetryRule.RAISE, W: RetryRule.RAISE},
    Cause.TIMED_OUT: {R: RetryRule.RETRY, L: RetryRule.ONCE, W: RetryRule.UNKNOWN},
    Cause.THROTTLED: {R: RetryRule.RETRY, L: RetryRule.ONCE, W: RetryRule.ONCE},
    Cause.THROTTLED_BLINDLY: {R: RetryRule.RETRY, L: RetryRule.RAISE, W: RetryRule.RAISE},
    Cause.THROTTLED_LONG: {R: RetryRule.RAISE, L: RetryRule.RAISE, W: RetryRule.RAISE},
    Cause.UNAVAILABLE: {R: RetryRule.RETRY, L: RetryRule.ONCE, W: RetryRule.UNKNOWN},
    Cause.BROKEN: {R: RetryRule.RETRY, L: RetryRule.ONCE, W: RetryRule.UNKNOWN},
    Cause.REDIRECTED: {R: RetryRule.RAISE, L: RetryRule.RAISE, W: RetryRule.UNKNOWN},
    Cause.MALFORMED: {R: RetryRule.ONCE, L: RetryRule.RAISE, W: RetryRule.UNKNOWN},
}
"""The retry matrix: a row for each cause, a column for each kind of request."""

_THROTTLED = frozenset({Cause.THROTTLED, Cause.THROTTLED_BLINDLY, Cause.THROTTLED_LONG})


def cause_of(error: FreightExchangeError, *, remaining: float) -> Cause:
    """Return the cause of a failed attempt.

    Args:
        error: Error of the attempt, raised or made from the status of its reply.
        remaining: Seconds until the deadline.
    """
    if isinstance(error, TransportError):
        if error.permanent:
            return Cause.PERMANENT
        return Cause.UNSENT if error.unsent else Cause.INTERRUPTED
    if isinstance(error, DecodeError):
        return Cause.MALFORMED
    if isinstance(error, RateLimitedError):
        if error.retry_after is None:
            return Cause.THROTTLED_BLINDLY
        return Cause.THROTTLED if error.retry_after <= min(remaining, MAX_WAIT) else Cause.THROTTLED_LONG
    status = error.status if isinstance(error, APIStatusError) and error.status is not None else 0
    if 0 < status < 200:
        return Cause.MALFORMED
    if status == 408:
        return Cause.TIMED_OUT
    if 300 <= status < 400:
        return Cause.REDIRECTED
    if isinstance(error, ServerError) and status == 503 and error.retry_after is not None:
        return Cause.UNAVAILABLE
    return Cause.BROKEN if status >= 500 else Cause.REFUSED


def rule_of(error: FreightExchangeError, cause: Cause, kind: RequestKind, policy: RetryPolicy) -> RetryRule:
    """Return the rule for a failed attempt of this kind of request."""
    if kind is RequestKind.WRITE and _may_have_begun(error, policy):
        return RetryRule.UNKNOWN
    return MATRIX[cause][kind]


def backoff(
    error: FreightExchangeError, cause: Cause, policy: RetryPolicy, *, attempt: int, chance: Callable[[], float]
) -> float:
    """Return the seconds to wait after attempt number `attempt` (from 1).

    `chance` returns random numbers from 0 to 1, for jitter.
    """
    if cause in (Cause.THROTTLED, Cause.UNAVAILABLE):
        # With jitter, but never earlier than asked: otherwise all clients would come back in the same second.
        delay = asked_wait(error)
        return delay + chance() * min(1.0, 0.1 * delay)
    doubled: float = 2.0 ** min(attempt - 1, 60)
    if cause is Cause.THROTTLED_BLINDLY:
        return min(policy.cap, THROTTLED_BASE + chance() * THROTTLED_BASE * doubled)
    return chance() * min(policy.cap, policy.base * doubled)


def asked_wait(error: FreightExchangeError | None) -> float:
    """Return the seconds of the reply's `Retry-After`; 0 without one."""
    return getattr(error, "retry_after", None) or 0.0


def cost_of(cause: Cause) -> int:
    """Return the number of tokens of the retry budget for another attempt."""
    return THROTTLED_COST if cause in _THROTTLED else TRANSIENT_COST


def _may_have_begun(error: FreightExchangeError, policy: RetryPolicy) -> bool:
    """Return whether a write may have been carried out although the service refused it with this error."""
    if isinstance(error, TransportError):
        return not error.unsent
    # By class and not by status, as a refusal of the token may have status 200 or 403 too.
    return not policy.trust_refusals and isinstance(error, AuthenticationError | RateLimitedError)
