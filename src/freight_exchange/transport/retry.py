"""What a failure means for a call: the retry matrix, as a table and the arithmetic of waiting. Pure.

The error says what happened; the kind of request says what repeating it would do; the table joins the two.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    DecodeError,
    FreightExchangeError,
    RateLimitedError,
    TransportError,
)
from freight_exchange.options import RetryPolicy
from freight_exchange.transport.message import Kind
from freight_exchange.transport.retry_budget import THROTTLED_COST, TRANSIENT_COST

__all__ = ["Again", "Cause", "GiveUp", "Unknown", "cause_of", "verdict"]

LONGEST_WAIT = 120.0
"""Seconds: the longest `Retry-After` that is waited for."""

THROTTLED_BASE = 1.0
"""Seconds: the shortest back-off after a status 429 that does not say how long."""


class Cause(enum.Enum):
    """Why an attempt failed."""

    UNSENT = "no connection came about, provably"
    PERMANENT = "a certificate that is not valid, a request that cannot be sent"
    INTERRUPTED = "the network failed after the request may have begun"
    REFUSED = "401, 403, 404 and other 4xx: it did not happen"
    TIMED_OUT = "408"
    THROTTLED = "429 with a Retry-After that is worth waiting for"
    THROTTLED_BLINDLY = "429 without Retry-After"
    THROTTLED_LONG = "429 with a longer Retry-After"
    UNAVAILABLE = "503 with Retry-After"
    BROKEN = "any other 5xx"
    REDIRECTED = "3xx"
    MALFORMED = "a reply that is not what the service document describes"


class Rule(enum.Enum):
    """What to do about it."""

    RETRY = "as often as the policy allows"
    ONCE = "one more attempt"
    RAISE = "no other attempt"
    UNKNOWN = "the write may have happened: no other attempt, ever"


R, L, W = Kind.READ, Kind.LOGIN, Kind.WRITE

MATRIX: dict[Cause, dict[Kind, Rule]] = {
    Cause.UNSENT: {R: Rule.RETRY, L: Rule.RETRY, W: Rule.RETRY},
    Cause.PERMANENT: {R: Rule.RAISE, L: Rule.RAISE, W: Rule.RAISE},
    Cause.INTERRUPTED: {R: Rule.RETRY, L: Rule.ONCE, W: Rule.UNKNOWN},
    Cause.REFUSED: {R: Rule.RAISE, L: Rule.RAISE, W: Rule.RAISE},
    Cause.TIMED_OUT: {R: Rule.RETRY, L: Rule.ONCE, W: Rule.UNKNOWN},
    Cause.THROTTLED: {R: Rule.RETRY, L: Rule.ONCE, W: Rule.ONCE},
    Cause.THROTTLED_BLINDLY: {R: Rule.RETRY, L: Rule.RAISE, W: Rule.RAISE},
    Cause.THROTTLED_LONG: {R: Rule.RAISE, L: Rule.RAISE, W: Rule.RAISE},
    Cause.UNAVAILABLE: {R: Rule.RETRY, L: Rule.ONCE, W: Rule.UNKNOWN},
    Cause.BROKEN: {R: Rule.RETRY, L: Rule.ONCE, W: Rule.UNKNOWN},
    Cause.REDIRECTED: {R: Rule.RAISE, L: Rule.RAISE, W: Rule.UNKNOWN},
    Cause.MALFORMED: {R: Rule.ONCE, L: Rule.RAISE, W: Rule.UNKNOWN},
}
"""The retry matrix: a row for each cause, a column for each kind of request."""

_THROTTLED = frozenset({Cause.THROTTLED, Cause.THROTTLED_BLINDLY, Cause.THROTTLED_LONG})


class Again(NamedTuple):
    """Try again after `delay` seconds, for `cost` tokens of the retry budget; `once` if this cause allows one only."""

    delay: float
    cost: int
    once: bool


class GiveUp:
    """Raise the error: nothing took effect."""


class Unknown:
    """The write may have taken effect."""


def cause_of(error: FreightExchangeError, *, retry_after: float | None, patience: float) -> Cause:
    """Why the attempt failed, as the matrix names it.

    Args:
        error: What the attempt raised, or what its reply's status means.
        retry_after: Seconds that the reply's `Retry-After` asks for, or `None`.
        patience: Seconds left until the deadline.
    """
    if isinstance(error, TransportError):
        if error.permanent:
            return Cause.PERMANENT
        return Cause.UNSENT if error.unsent else Cause.INTERRUPTED
    if isinstance(error, DecodeError):
        return Cause.MALFORMED
    if isinstance(error, RateLimitedError):
        if retry_after is None:
            return Cause.THROTTLED_BLINDLY
        return Cause.THROTTLED if retry_after <= min(patience, LONGEST_WAIT) else Cause.THROTTLED_LONG
    status = error.status if isinstance(error, APIStatusError) and error.status is not None else 0
    if 0 < status < 200:
        return Cause.MALFORMED
    if status == 408:
        return Cause.TIMED_OUT
    if 300 <= status < 400:
        return Cause.REDIRECTED
    if status == 503 and retry_after is not None:
        return Cause.UNAVAILABLE
    return Cause.BROKEN if status >= 500 else Cause.REFUSED


def verdict(
    error: FreightExchangeError,
    kind: Kind,
    policy: RetryPolicy,
    *,
    attempt: int,
    spent: bool,
    retry_after: float | None,
    patience: float,
    chance: Callable[[], float],
) -> Again | GiveUp | Unknown:
    """What to do after attempt number `attempt` (from 1) failed.

    Args:
        error: Why it failed.
        kind: What repeating the request would do.
        policy: How often and how soon.
        attempt: How many attempts there were.
        spent: Whether the call has used up the one more attempt that some causes allow.
        retry_after: Seconds that the reply's `Retry-After` asks for, or `None`.
        patience: Seconds left until the deadline.
        chance: A random number from 0 to 1, for jitter.
    """
    cause = cause_of(error, retry_after=retry_after, patience=patience)
    rule = MATRIX[cause][kind]
    if kind is Kind.WRITE and _may_have_begun(error, policy):
        rule = Rule.UNKNOWN
    if rule is Rule.UNKNOWN:
        return Unknown()
    if rule is Rule.RAISE or attempt >= policy.attempts or (rule is Rule.ONCE and spent):
        return GiveUp()
    if retry_after is not None and cause in (Cause.THROTTLED, Cause.UNAVAILABLE):
        # A little later than asked, never earlier: a thousand clients told the same second would come at once.
        delay = retry_after + chance() * min(1.0, 0.1 * retry_after)
        if retry_after > LONGEST_WAIT:
            return GiveUp()
    elif cause is Cause.THROTTLED_BLINDLY:
        delay = min(policy.cap, THROTTLED_BASE + chance() * THROTTLED_BASE * 2.0 ** min(attempt - 1, 60))
    else:
        delay = chance() * min(policy.cap, policy.base * 2.0 ** min(attempt - 1, 60))
    if delay >= patience:
        return GiveUp()
    return Again(delay, THROTTLED_COST if cause in _THROTTLED else TRANSIENT_COST, rule is Rule.ONCE)


def _may_have_begun(error: FreightExchangeError, policy: RetryPolicy) -> bool:
    """Whether a write that ended so may have happened, beyond what the matrix says of its cause."""
    if isinstance(error, TransportError):
        return not error.unsent
    # By class and not by status: a refused token can come at 200 or 403 as well.
    return not policy.trust_refusals and isinstance(error, AuthenticationError | RateLimitedError)
