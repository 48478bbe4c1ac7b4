"""Retry policy: decide the result of a delivery by the error that ended its handler. Pure."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, Literal

import attrs

from freight_exchange.bot.outcomes import IN_DOUBT, INTERRUPTED, Drop, RetryLater, describe
from freight_exchange.bot.tasks import flatten
from freight_exchange.errors import (
    AlreadyApprovedError,
    AlreadyOfferedError,
    AuthenticationError,
    DeadlineExceededError,
    FencedError,
    FreightExchangeError,
    LoginRejectedError,
    OfferChangedError,
    OfferInDoubtError,
    OfferRejectedError,
    RateLimitedError,
    ServerError,
    StoreAwayError,
    TransportError,
    is_from_login,
)
from freight_exchange.store.protocol import ConflictError, StoreRefusedError

if TYPE_CHECKING:
    from freight_exchange.bot.handlers.handler import Handler
    from freight_exchange.store.work import Delivery

__all__ = ["Decision", "backoff", "decide"]

_MIN_DELAY: Final = 1.0
_FIRST_DELAY: Final = 1.0
_MAX_DELAY: Final = 300.0
_MAX_DOUBLINGS: Final = 12
_IN_DOUBT_DELAY: Final = 2.0
_OUTAGE_DELAY: Final = 15.0
_OUTAGE_DELAY_SHARE: Final = 1 / 8
_MAX_THROTTLE: Final = 3600.0
_MAX_ERROR_LENGTH: Final = 1000
_TRANSIENT: Final = (TransportError, DeadlineExceededError, RateLimitedError, ServerError, AuthenticationError)


@attrs.frozen(kw_only=True)
class Decision:
    """Result of an attempt.

    Attributes:
        ending: Label in the metrics.
        state: New state of the delivery.
        delay: Seconds until it may be claimed again.
        error: Error to store.
        refund_attempt: Whether the attempt does not count.
    """

    ending: Literal["done", "dropped", "failed", "later", "doubt", "transient", "released", "dead"]
    state: Literal["ready", "done", "dead"]
    delay: float = 0.0
    error: str | None = None
    refund_attempt: bool = False


def decide(
    delivery: Delivery,
    handler: Handler,
    error: Exception | None,
    *,
    offer_error: Exception | None = None,
    has_recovered: bool,
    random: Random,
    outage: float = 0.0,
) -> Decision:
    """Decide the result of an attempt.

    Args:
        delivery: The delivery, with this attempt counted.
        handler: Its handler.
        error: The error that the handler raised, or `None`.
        offer_error: Error of an offer that the handler did not wait for. It takes the place of `error`, except after
            `Drop` and `RetryLater`.
        has_recovered: Whether the service has answered other calls long after this delivery was first postponed for a
            transient error.
        random: Source of jitter.
        outage: Seconds since that postponement.
    """
    error, pause = _unwrap(error), _IN_DOUBT_DELAY
    match error, offer_error:
        case (_, None) | (Drop(), _):
            pass
        case RetryLater(), OfferInDoubtError():
            pause = max(error.delay, pause)
            error = offer_error
        case RetryLater(), _:
            pass
        case _:
            error = offer_error
    match error:
        case None:
            return Decision(ending="done", state="done")
        case Drop():
            return Decision(ending="dropped", state="done", error=_describe(error))
        case AlreadyOfferedError() | AlreadyApprovedError() | OfferChangedError():
            return Decision(ending="dropped", state="done", error=_describe(error))
        case RetryLater():
            delay = max(error.delay, _MIN_DELAY)
            # A delivery that may have ended the process stays a suspect until an attempt ends.
            reason = None if delivery.error == INTERRUPTED else _truncate(describe(error.reason)) or None
            return Decision(ending="later", state="ready", delay=delay, error=reason, refund_attempt=True)
        case OfferInDoubtError():
            return Decision(ending="doubt", state="ready", delay=pause, error=IN_DOUBT, refund_attempt=True)
        case OfferRejectedError():
            return Decision(ending="dead", state="dead", error=_describe(error))
        case StoreAwayError() | FencedError() | ConflictError():
            # The replica lost its seat during the attempt, which is not a failure of the handler.
            return Decision(ending="released", state="ready", delay=_MIN_DELAY, refund_attempt=True)
        case LoginRejectedError():
            return _postpone("released", _OUTAGE_DELAY, error)
        case StoreRefusedError():
            # Perhaps only the handler's statement was refused, and the replica keeps its seat.
            return _postpone("transient", _OUTAGE_DELAY, error)
        case RateLimitedError() | AuthenticationError(retry_after=float()):
            return _postpone(
                "transient", min(max(error.retry_after or _OUTAGE_DELAY, _MIN_DELAY), _MAX_THROTTLE), error
            )
        case _:
            pass
    if delivery.attempts > handler.retries:
        if _is_transient(error) and not has_recovered:
            # The service may be down, or a part of it: giving up now could lose every request of the outage.
            return _postpone("transient", min(max(outage * _OUTAGE_DELAY_SHARE, _OUTAGE_DELAY), _MAX_DELAY), error)
        return Decision(ending="dead", state="dead", error=_describe(error))
    return Decision(ending="failed", state="ready", delay=backoff(delivery.attempts, random), error=_describe(error))


def backoff(attempts: int, random: Random) -> float:
    """Return the seconds before the next attempt: exponential up to five minutes, with jitter down to half."""
    longest = min(_MAX_DELAY, _FIRST_DELAY * 2.0 ** min(attempts - 1, _MAX_DOUBLINGS))
    return longest * random.uniform(0.5, 1)


def _postpone(ending: Literal["transient", "released"], delay: float, error: Exception) -> Decision:
    return Decision(ending=ending, state="ready", delay=delay, error=_describe(error), refund_attempt=True)


def _is_transient(error: Exception) -> bool:
    return isinstance(error, _TRANSIENT) or (isinstance(error, FreightExchangeError) and is_from_login(error))


def _unwrap(error: Exception | None) -> Exception | None:
    """Return one error of a handler's own task group: a doubt if there is one, else any if all are alike."""
    if not isinstance(error, ExceptionGroup):
        return error
    found = [leaf for leaf in flatten(error) if isinstance(leaf, Exception)]
    # A delivery never dies while its offer is in doubt.
    doubt = next((leaf for leaf in found if isinstance(leaf, OfferInDoubtError)), None)
    are_alike = len({type(leaf) for leaf in found}) == 1 or all(map(_is_transient, found))
    return doubt or (found[0] if are_alike else error)


def _describe(error: Exception) -> str:
    if isinstance(error, ExceptionGroup):
        return _truncate(f"{describe(error)}: {'; '.join(map(describe, flatten(error)))}")
    return _truncate(describe(error))


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_ERROR_LENGTH else f"{text[:_MAX_ERROR_LENGTH]}..."
