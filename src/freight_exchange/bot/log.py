"""Log of attempts: one line each, and the traceback of a failure once."""

from __future__ import annotations

import logging
from traceback import walk_tb
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
        extra = log_fields(delivery)
        if error is None or level < logging.WARNING:
            _logger.log(level, "%s", line, extra=extra)
            return
        place = [(frame.f_code.co_filename, number) for frame, number in walk_tb(error.__traceback__)][-1:]
        key = (handler.id, type(error), *place)
        is_new = key not in self._seen
        self._seen.add(key)
        _logger.log(level, "%s", line, exc_info=error if is_new else None, extra=extra)
        if not is_new:
            _logger.debug("traceback of handler %s", handler.id, exc_info=error, extra=extra)


def _line(delivery: Delivery, handler: Handler, verdict: Verdict, error: Exception | None) -> tuple[int, str]:
    subject = (
        f"event {delivery.event_id} ({delivery.kind})" if delivery.subject is None else f"request {delivery.subject}"
    )
    failed = f"handler {handler.id} failed on {subject} (attempt {delivery.attempts} of {handler.retries + 1})"
    why, again = verdict.error or verdict.ending, f"retrying in {verdict.delay:.0f} s"
    errors = [] if error is None else [*flatten(error)]
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
        case "doubt" if any(not isinstance(one, OfferInDoubtError | RetryLater) for one in errors):
            text = f"{failed}: {describe(error)}; its offer is in doubt: retrying once that is resolved"
            return logging.WARNING, text
        case "doubt":
            return logging.INFO, f"handler {handler.id} waits with {subject}: {why}; retrying once that is resolved"
        case _:
            return logging.INFO, f"handler {handler.id} waits with {subject}: {why}; {again}"
