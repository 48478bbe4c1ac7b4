"""Outcomes of an attempt: the exceptions that handlers raise, and the verdict on what ended one. Pure."""

from __future__ import annotations

import logging
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Final, Literal

import attrs

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
    ValidationError,
    is_from_login,
)
from freight_exchange.store.errors import ConflictError, StoreRefusedError

if TYPE_CHECKING:
    from freight_exchange.bot.handler import Delivery, Handler

IN_DOUBT: Final = "its offer is in doubt"
"""Stored error of a delivery that waits for the result of an offer."""

_MIN_DELAY: Final = 1.0
_MAX_DELAY: Final = 300.0
_MAX_DOUBLINGS: Final = 12
_IN_DOUBT_DELAY: Final = 2.0
_OUTAGE_DELAY: Final = 15.0
_OUTAGE_DELAY_SHARE: Final = 1 / 8
_MAX_THROTTLE: Final = 3600.0
_MAX_ERROR_LENGTH: Final = 1000
_TRANSIENT: Final = (TransportError, DeadlineExceededError, RateLimitedError, ServerError, AuthenticationError)
_CENTURY: Final = timedelta(days=36525).total_seconds()

Ending = Literal["done", "dropped", "failed", "later", "doubt", "transient", "released", "dead"]


def describe(value: object) -> str:
    """Return a value as text that any store can hold. The text of an error begins with its type."""
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - `__str__` of the user's own class
        text = "" if isinstance(value, BaseException) else type(value).__name__
    if isinstance(value, BaseException):
        text = f"{type(value).__name__}: {text}" if text else type(value).__name__
    # File names and JSON can contain lone surrogates, which no encoding holds, and texts of PostgreSQL no NUL.
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


class RetryLater(Exception):
    """Request of a handler to be called again later. It does not count as a failure and has no limit.

    Args:
        delay: A `timedelta` or seconds, default one minute; at least one second passes.
        reason: A text or an error, for the log.
    """

    delay = 60.0
    reason = ""

    def __init__(self, delay: timedelta | float = delay, reason: object = "") -> None:
        if isinstance(delay, bool) or not isinstance(delay, timedelta | int | float):
            raise ValidationError(f"delay must be a timedelta or seconds, not a {type(delay).__name__}", field="delay")
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        # Compared before the conversion: an integer can be too large for a float.
        if not 0 <= seconds <= _CENTURY:
            raise ValidationError("delay must be a time that is not negative, and less than a century", field="delay")
        super().__init__(delay, reason)
        self.delay = float(seconds)
        self.reason = describe(reason)

    def __str__(self) -> str:
        return self.reason or f"again in {self.delay:g} s"


class ProcessEnd(BaseException):
    """Carrier of a `SystemExit` or `KeyboardInterrupt` from a handler's task to the bot's.

    An event loop stops at once when one of these leaves a task, and closes nothing.
    """

    def __init__(self, reason: SystemExit | KeyboardInterrupt) -> None:
        super().__init__(reason)
        self.reason = reason


class Drop(Exception):
    """End of a delivery by its handler: the event counts as handled.

    Args:
        reason: A text or an error, for the log.
    """

    reason = ""

    def __init__(self, reason: object = "") -> None:
        super().__init__(reason)
        self.reason = describe(reason)

    def __str__(self) -> str:
        return self.reason


@attrs.frozen(kw_only=True)
class Verdict:
    """Result of an attempt: its label in the metrics, and the new state and error of the delivery.

    It may be claimed again after `delay` seconds. With a `refund` the attempt does not count.
    """

    ending: Ending
    state: Literal["ready", "done", "dead"]
    delay: float = 0.0
    error: str | None = None
    refund: bool = False


def decide(
    error: Exception | None,
    *,
    attempts: int,
    retries: int,
    is_open: bool = False,
    outage: float = 0.0,
    has_recovered: bool = False,
    random: Random,
) -> Verdict:
    """Decide the result of an attempt, by the error that the handler raised.

    Args:
        is_open: Whether an effect of this delivery on its request may or may not have been carried out. That takes the
            place of `error`, except after `Drop`.
        outage: Seconds since the delivery was first postponed for a transient error.
        has_recovered: Whether the service has answered other calls long after that.
        random: Source of jitter.
    """
    error, pause = _unwrapped(error), _IN_DOUBT_DELAY
    if is_open and not isinstance(error, Drop):
        pause = max(error.delay, pause) if isinstance(error, RetryLater) else pause
        error = OfferInDoubtError("the handler ended before its offer was answered")
    match error:
        case None:
            return Verdict(ending="done", state="done")
        case Drop() | AlreadyOfferedError() | AlreadyApprovedError() | OfferChangedError():
            return Verdict(ending="dropped", state="done", error=_described(error))
        case RetryLater():
            reason = _cut(describe(error.reason)) or None
            return Verdict(ending="later", state="ready", delay=max(error.delay, _MIN_DELAY), error=reason, refund=True)
        case OfferInDoubtError():
            return Verdict(ending="doubt", state="ready", delay=pause, error=IN_DOUBT, refund=True)
        case OfferRejectedError(request_closed=True):
            return Verdict(ending="dropped", state="done", error=_described(error))
        case OfferRejectedError():
            return Verdict(ending="dead", state="dead", error=_described(error))
        case StoreAwayError() | FencedError() | ConflictError():
            # The replica lost its place during the attempt, which is not a failure of the handler.
            return Verdict(ending="released", state="ready", delay=_MIN_DELAY, refund=True)
        case LoginRejectedError():
            return _postponed("released", _OUTAGE_DELAY, error)
        case StoreRefusedError():
            return _postponed("transient", _OUTAGE_DELAY, error)
        case RateLimitedError() | AuthenticationError(retry_after=float()):
            wait = max(error.retry_after or _OUTAGE_DELAY, _MIN_DELAY)
            return _postponed("transient", min(wait, _MAX_THROTTLE), error)
    if attempts <= retries:
        return Verdict(ending="failed", state="ready", delay=backoff(attempts, random), error=_described(error))
    if _is_transient(error) and not has_recovered:
        # The service may be down, or a part of it: giving up now could lose every request of the outage.
        return _postponed("transient", min(max(outage * _OUTAGE_DELAY_SHARE, _OUTAGE_DELAY), _MAX_DELAY), error)
    return Verdict(ending="dead", state="dead", error=_described(error))


def backoff(attempts: int, random: Random) -> float:
    """Return the seconds before the next attempt: exponential up to five minutes, with jitter down to half."""
    return min(_MAX_DELAY, 2.0 ** min(attempts - 1, _MAX_DOUBLINGS)) * random.uniform(0.5, 1)


def describe_end(delivery: Delivery, handler: Handler, verdict: Verdict, error: Exception | None) -> tuple[int, str]:
    """Return the level and the line of the log for the end of an attempt: what happened, why, and what comes next."""
    subject = (
        f"event {delivery.event_id} ({delivery.kind})" if delivery.subject is None else f"request {delivery.subject}"
    )
    failed = f"handler {handler.id} failed on {subject} (attempt {delivery.attempts} of {handler.retries + 1})"
    waits = f"handler {handler.id} waits with {subject}"
    why, again = verdict.error or verdict.ending, f"retrying in {verdict.delay:.0f} s"
    errors = [] if error is None else [*flatten(error)]
    match verdict.ending:
        case "done":
            return logging.DEBUG, f"handler {handler.id} is done with {subject}"
        case "dropped":
            return logging.INFO, f"handler {handler.id} drops {subject}: {why}"
        case "dead":
            return logging.ERROR, f"{failed}: {why}; its delivery is dead: replay event {delivery.event_id} to retry"
        case "failed":
            return logging.WARNING, f"{failed}: {why}; {again}"
        case "doubt" if any(not isinstance(one, OfferInDoubtError | RetryLater) for one in errors):
            text = f"{failed}: {describe(error)}; its offer is in doubt: retrying once that is resolved"
            return logging.WARNING, text
        case "doubt":
            return logging.INFO, f"{waits}: {why}; retrying once that is resolved"
        case _:
            # The loss of the store or of the login has a line of its own.
            return logging.DEBUG if verdict.ending == "released" else logging.INFO, f"{waits}: {why}; {again}"


def _postponed(ending: Ending, delay: float, error: Exception) -> Verdict:
    return Verdict(ending=ending, state="ready", delay=delay, error=_described(error), refund=True)


def _is_transient(error: Exception) -> bool:
    return isinstance(error, _TRANSIENT) or (isinstance(error, FreightExchangeError) and is_from_login(error))


def _unwrapped(error: Exception | None) -> Exception | None:
    """Return one error of a handler's own task group: a doubt if there is one, else any if all are alike."""
    if not isinstance(error, ExceptionGroup):
        return error
    found = [leaf for leaf in flatten(error) if isinstance(leaf, Exception)]
    # A delivery never dies while its offer is in doubt.
    doubt = next((leaf for leaf in found if isinstance(leaf, OfferInDoubtError)), None)
    are_alike = len({type(leaf) for leaf in found}) == 1 or all(map(_is_transient, found))
    return doubt or (found[0] if are_alike else error)


def _described(error: Exception) -> str:
    text = describe(error)
    if isinstance(error, ExceptionGroup):
        text = f"{text}: {'; '.join(map(describe, flatten(error)))}"
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_ERROR_LENGTH else f"{text[:_MAX_ERROR_LENGTH]}..."
