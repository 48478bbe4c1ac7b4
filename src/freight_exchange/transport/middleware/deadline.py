"""Deadline of a call: one limit for all its attempts, waits and logins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import DeadlineExceededError
from freight_exchange.transport.middleware.outcome import in_doubt, outcome_unknown
from freight_exchange.transport.rules.redaction import describe

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.transport.message import Next, Request, Response
    from freight_exchange.transport.secrets import Redactor

__all__ = ["Deadline"]


class Deadline:
    """Middleware that cancels the call when its deadline has passed.

    Raises:
        DeadlineExceededError: Nothing took effect.
        OutcomeUnknownError: The write had begun to leave.
    """

    __slots__ = ("_redactor",)

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    async def __call__(self, request: Request, call_next: Next) -> Response:
        if request.ends_at <= anyio.current_time():
            raise self._error(request)
        with anyio.CancelScope(deadline=request.ends_at) as scope:
            return await call_next(request)
        if scope.cancelled_caught:
            if request.progress.reply is not None:
                # The reply came in time, but hooks delayed it: `Outcome` reads it and sends nothing.
                return await call_next(request)
            raise self._error(request)
        raise AssertionError("a scope that nothing else cancels ends by its deadline only")

    def _error(self, request: Request) -> FreightExchangeError:
        message = f"the deadline of {request.deadline:g} s has passed"
        if in_doubt(request):
            return outcome_unknown(request, f"{message} after the request began to leave", self._redactor)
        if queue := request.progress.queue:
            message = f"{message} {queue}"
        error = DeadlineExceededError(f"{message}; nothing took effect")
        describe(error, request, self._redactor)
        error.login_pending = request.progress.waits_for_login
        error.settled = True
        return error
