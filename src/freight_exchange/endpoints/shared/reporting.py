"""Reports of the parts of a reply that cannot be read."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import DecodeError
from freight_exchange.hooks import BrokenRecord
from freight_exchange.transport.call import new_call_id
from freight_exchange.transport.redact import redact_decode_error, reply_headers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from freight_exchange.endpoints.shared.conventions import Listed
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.hooks import Hooks
    from freight_exchange.transport.call import Response
    from freight_exchange.transport.redact import Redactor
    from freight_exchange.transport.send import Transport

__all__ = ["MAX_REPORTED", "ErrorReporter", "ReplyFacts", "ReportedErrors"]

_logger = logging.getLogger("freight_exchange")

MAX_REPORTED: Final = 100
"""Errors that one reading of a listing reports one by one; further ones are only counted."""


class ReportedErrors:
    """Errors that one reading of a listing has reported, so that none is reported twice.

    A reading may receive the last page again, and a sweep reads every row twice.
    """

    def __init__(self) -> None:
        self._highest: Counter[tuple[str, str]] = Counter()
        self._remaining = MAX_REPORTED

    def new(self, errors: tuple[DecodeError, ...]) -> tuple[list[DecodeError], int]:
        """Return the errors that no earlier page had, up to the limit, and the number of further ones.

        If a page has more equal rows than any earlier page, the additional ones count as new.
        """
        counts: Counter[tuple[str, str]] = Counter()
        new: list[DecodeError] = []
        for number, error in enumerate(errors):
            if not self._remaining:
                return new, len(errors) - number
            # Identified by the content of the row, since its place in the path changes when rows move.
            row = (error.message, repr(error.raw))
            counts[row] += 1
            if counts[row] > self._highest[row]:
                new.append(error)
                self._remaining -= 1
        self._highest |= counts
        return new, 0


class ReplyFacts:
    """Facts of a successful reply, for later errors about its records."""

    __slots__ = ("attempts", "began", "call_id", "headers", "is_torn", "status")

    def __init__(self) -> None:
        self.began = anyio.current_time()
        self.attempts = 0
        self.call_id = new_call_id()
        self.status: int | None = None
        self.is_torn = False
        """Return whether the reply has the requested collection and is no JSON."""
        self.headers: Sequence[tuple[bytes, bytes]] = ()

    def record(self, response: Response) -> None:
        self.status, self.attempts, self.headers = response.status, response.attempt, response.headers

    def describe(self, error: FreightExchangeError, method: str, redactor: Redactor) -> None:
        error.method, error.call_id = method, self.call_id
        error.status, error.attempts, error.elapsed = self.status, self.attempts, anyio.current_time() - self.began
        error.headers = reply_headers(self.headers, redactor)
        error.settled = True


class ErrorReporter:
    """Reporter of unreadable parts of replies to the log and the hooks of a view."""

    def __init__(self, connection: Transport, hooks: Hooks, *, strict: bool) -> None:
        self._connection = connection
        self._hooks = hooks
        self._strict = strict

    async def report(
        self,
        errors: tuple[DecodeError, ...],
        listed: Listed,
        facts: ReplyFacts,
        reported: ReportedErrors | None = None,
        more: int = 0,
    ) -> None:
        """Report the new errors of a reply; a strict view raises the first.

        `more` is the number of further errors, which are counted and not reported one by one.
        """
        for error in errors:
            self.describe(error, listed.method, listed.path, facts)
            if self._strict:
                raise error
        new, omitted = ([*errors], 0) if reported is None else reported.new(errors)
        if omitted + more:
            summary = DecodeError(f"{omitted + more} more parts of a reply that cannot be read")
            self.describe(summary, listed.method, listed.path, facts)
            new.append(summary)
        for error in new:
            _logger.warning("an unreadable part of a reply was skipped: %s", error)
            if self._hooks:
                await self._hooks.emit(BrokenRecord(method=listed.method, path=listed.path, error=error))

    def log(self, errors: Iterable[DecodeError]) -> None:
        """Log errors that `describe` has completed."""
        for error in errors:
            _logger.warning("an unreadable part of a reply was skipped: %s", error)

    def describe(self, error: DecodeError, method: str, path: str, facts: ReplyFacts) -> None:
        """Add the facts of its call to an error, and redact it."""
        redactor = self._connection.redactor
        error.request_path = path
        facts.describe(error, method, redactor)
        redact_decode_error(error, redactor)
