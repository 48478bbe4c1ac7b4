"""What becomes of a delivery, by how its handler ended. Pure."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, Literal

import attrs

from freight_exchange.bot.outcomes import Drop, RetryLater, leaves, told
from freight_exchange.errors import (
    AlreadyOfferedError,
    AuthenticationError,
    DeadlineExceededError,
    FreightExchangeError,
    LoginRejectedError,
    OfferInDoubtError,
    OfferRejectedError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from freight_exchange.errors.transient import is_from_login

if TYPE_CHECKING:
    from freight_exchange.bot.router import Handler
    from freight_exchange.store.work import Delivery

__all__ = ["INTERRUPTED", "IN_DOUBT", "Decision", "backoff", "decide"]

IN_DOUBT: Final = "its offer is in doubt"
INTERRUPTED: Final = "the process ended while it was handled"
"""What an attempt ended by, as it is kept; by these two a delivery is known again."""

_LEAST_DELAY: Final = 1.0
_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 300.0
_MOST_DOUBLINGS: Final = 12
_WHILE_IN_DOUBT: Final = 2.0
_WITHOUT_SERVICE: Final = 15.0
_SHARE_OF_THE_WAIT: Final = 1 / 8
_LONGEST_THROTTLE: Final = 3600.0
_LONGEST_ERROR: Final = 1000
_TROUBLE: Final = (TransportError, DeadlineExceededError, RateLimitedError, ServerError, AuthenticationError)


@attrs.frozen(kw_only=True)
class Decision:
    """What becomes of a delivery.

    Attributes:
        ending: The word that is counted.
        state: Its new state.
        delay: Seconds until it may be claimed again.
        error: What the attempt ended by.
        forgive: The attempt does not count.
    """

    ending: Literal["done", "dropped", "failed", "later", "doubt", "trouble", "released", "dead"]
    state: Literal["ready", "done", "dead"]
    delay: float = 0.0
    error: str | None = None
    forgive: bool = False


def decide(
    delivery: Delivery,
    handler: Handler,
    error: Exception | None,
    *,
    left: Exception | None = None,
    served: bool,
    random: Random,
    held: float = 0.0,
) -> Decision:
    """The verdict on an attempt that ended by this error, or well.

    Args:
        delivery: The delivery, with this attempt counted.
        handler: Its handler.
        error: What the handler raised, or `None`.
        left: What it should have raised, if it has left an offer behind of which it does not know what came. That
            counts, however it ended, unless it wants nothing more, or asks to be called later itself.
        served: Whether the service has answered others, long after this delivery was first held back for its trouble.
        random: What the back-off is drawn from.
        held: Seconds since it was.
    """
    error, pause = _lone(error), _WHILE_IN_DOUBT
    match error, left:
        case (_, None) | (Drop(), _):
            pass
        case RetryLater(), OfferInDoubtError():
            pause = max(error.delay, pause)
            error = left
        case RetryLater(), _:
            pass
        case _:
            error = left
    match error:
        case None:
            return Decision(ending="done", state="done")
        case Drop():
            return Decision(ending="dropped", state="done", error=_said(error))
        case AlreadyOfferedError():
            return Decision(ending="dropped", state="done", error=_said(error))
        case RetryLater():
            delay = max(error.delay, _LEAST_DELAY)
            # What is suspected of ending the process stays so until it has ended well, or failed.
            said = None if delivery.error == INTERRUPTED else _short(told(error.reason)) or None
            return Decision(ending="later", state="ready", delay=delay, error=said, forgive=True)
        case OfferInDoubtError():
            return Decision(ending="doubt", state="ready", delay=pause, error=IN_DOUBT, forgive=True)
        case OfferRejectedError():
            return Decision(ending="dead", state="dead", error=_said(error))
        case LoginRejectedError():
            return Decision(ending="released", state="ready", delay=_WITHOUT_SERVICE, error=_said(error), forgive=True)
        case RateLimitedError() | AuthenticationError(retry_after=float()):
            # Whoever is told to come back later has not failed.
            delay = min(max(error.retry_after or _WITHOUT_SERVICE, _LEAST_DELAY), _LONGEST_THROTTLE)
            return Decision(ending="trouble", state="ready", delay=delay, error=_said(error), forgive=True)
        case _:
            pass
    if delivery.attempts > handler.retries:
        if _is_trouble(error) and not served:
            # Nothing says that the service is there, or all of it: a bot that gave up now would have lost its requests.
            delay = min(max(held * _SHARE_OF_THE_WAIT, _WITHOUT_SERVICE), _LONGEST_DELAY)
            return Decision(ending="trouble", state="ready", delay=delay, error=_said(error), forgive=True)
        return Decision(ending="dead", state="dead", error=_said(error))
    return Decision(ending="failed", state="ready", delay=backoff(delivery.attempts, random), error=_said(error))


def backoff(attempts: int, random: Random) -> float:
    """Seconds before the next attempt: twice as many each time, up to five minutes, and up to half of them less."""
    longest = min(_LONGEST_DELAY, _FIRST_DELAY * 2.0 ** min(attempts - 1, _MOST_DOUBLINGS))
    return longest * random.uniform(0.5, 1)


def _is_trouble(error: Exception) -> bool:
    return isinstance(error, _TROUBLE) or (isinstance(error, FreightExchangeError) and is_from_login(error))


def _lone(error: Exception | None) -> Exception | None:
    """What a handler's own task group raised, where its tasks failed alike, or one of them left an offer in doubt."""
    if not isinstance(error, ExceptionGroup):
        return error
    found = [leaf for leaf in leaves(error) if isinstance(leaf, Exception)]
    # Whatever else went wrong: while an offer is in doubt, nothing is to be given up.
    doubt = next((leaf for leaf in found if isinstance(leaf, OfferInDoubtError)), None)
    alike = len({type(leaf) for leaf in found}) == 1 or all(map(_is_trouble, found))
    return doubt or (found[0] if alike else error)


def _said(error: Exception | None) -> str:
    if isinstance(error, ExceptionGroup):
        return _short(f"{told(error)}: {'; '.join(map(told, leaves(error)))}")
    return _short(told(error))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}..."
