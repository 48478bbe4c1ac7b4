"""Log of attempts: one line each, and the traceback of a failure once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from freight_exchange.bot.outcomes import RetryLater, describe
from freight_exchange.bot.tasks import flatten
from freight_exchange.errors import OfferInDoubtError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from freight_exchange.bot.handler import Delivery, Handler
    from freight_exchange.bot.verdict import Verdict

_logger = logging.getLogger("freight_exchange.bot")


def log_fields(delivery: Delivery) -> Mapping[str, object]:
    """Return the fields of log records about a delivery."""
    return {
        "event": delivery.kind,
        "number": delivery.event_id,
        "handler": delivery.name,
        "request": delivery.subject,
        "attempt": delivery.attempts,
    }


class AttemptLog:
    """Log of how attempts end: what happened, to what, why, and what comes next.

    A failure that was logged before, by handler, type and place in the code, has its traceback at DEBUG only.
    """

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()

    def write(self, delivery: Delivery, handler: Handler, verdict: Verdict, error: Exception | None) -> None:
        """Log the end of an attempt."""
        level, line = _line(delivery, handler, verdict, error)
        failure = error if level >= logging.WARNING else None
        is_new = failure is not None and self._is_new(handler, failure)
        _logger.log(level, "%s", line, exc_info=failure if is_new else None, extra=log_fields(delivery))
        if failure is not None and not is_new:
            _logger.debug("traceback of handler %s", handler.id, exc_info=failure, extra=log_fields(delivery))

    def _is_new(self, handler: Handler, error: Exception) -> bool:
        key = (handler.id, type(error), _place(error))
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new


def _line(delivery: Delivery, handler: Handler, verdict: Verdict, error: Exception | None) -> tuple[int, str]:
    subject = (
        f"event {delivery.event_id} ({delivery.kind})" if delivery.subject is None else f"request {delivery.subject}"
    )
    failed = f"handler {handler.id} failed on {subject} (attempt {delivery.attempts} of {handler.retries + 1})"
    why, again = verdict.error or verdict.ending, f"retrying in {verdict.delay:.0f} s"
    match verdict.ending:
        case "done":
            return logging.DEBUG, f"handler {handler.id} is done with {subject}"
        case "released":
            # The loss of the store or of the login has a line of its own.
            return logging.DEBUG, f"handler {handler.id} waits with {subject}: {why}; {again}"
        case "dropped":
            return logging.INFO, f"handler {handler.id} drops {subject}: {why}"
        case "dead":
            return logging.ERROR, f"{failed}: {why}; its delivery is dead: replay event {delivery.event_id} to retry"
        case "failed":
            return logging.WARNING, f"{failed}: {why}; {again}"
        case "doubt" if error is not None and not _is_expected_doubt(error):
            return (
                logging.WARNING,
                f"{failed}: {describe(error)}; its offer is in doubt: retrying once that is resolved",
            )
        case "doubt":
            return logging.INFO, f"handler {handler.id} waits with {subject}: {why}; retrying once that is resolved"
        case _:
            return logging.INFO, f"handler {handler.id} waits with {subject}: {why}; {again}"


def _place(error: BaseException) -> tuple[str, int] | None:
    traceback = error.__traceback__
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno


def _is_expected_doubt(error: Exception) -> bool:
    """Return whether the handler raised only the doubt itself, or `RetryLater`."""
    return all(isinstance(leaf, OfferInDoubtError | RetryLater) for leaf in flatten(error))
