"""Tracing of attempts: one record for log and hooks at the end of each."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import FreightExchangeError
from freight_exchange.hooks import Attempt
from freight_exchange.platform.reply_headers import NO_HEADERS
from freight_exchange.transport.message import RequestKind
from freight_exchange.transport.rules.redaction import reply_headers

if TYPE_CHECKING:
    from freight_exchange.hooks import Hooks
    from freight_exchange.platform.reply_headers import ReplyHeaders
    from freight_exchange.transport.message import Next, Request, Response
    from freight_exchange.transport.secrets import Redactor

__all__ = ["Tracing"]

_LAST_RECORD_TIMEOUT = 1.0
"""Time limit of the hooks for the record of a cancelled write, in seconds."""

_logger = logging.getLogger("freight_exchange.transport")


class Tracing:
    """Middleware that reports each attempt to log and hooks.

    A hook may take long. By then, the layers below have released the connection and its slot.
    """

    __slots__ = ("_hooks", "_redactor")

    def __init__(self, hooks: Hooks, redactor: Redactor) -> None:
        self._hooks = hooks
        self._redactor = redactor

    async def __call__(self, request: Request, call_next: Next) -> Response:
        started = anyio.current_time()
        try:
            response = await call_next(request)
        except FreightExchangeError as error:
            await self._report(request, started, error.attempts, error.status, error)
            raise
        except anyio.get_cancelled_exc_class():
            await self._report_cut_off(request, started)
            raise
        # Before the hooks: if they outlast the deadline, `Deadline` finds the reply here.
        request.progress.reply = response
        await self._report_reply(request, started, response)
        return response

    async def _report_reply(self, request: Request, started: float, response: Response) -> None:
        try:
            await self._report(request, started, response.attempt, response.status, None, response)
        except anyio.get_cancelled_exc_class():
            # The reply is complete: a cancelled hook does not change it.
            pass

    async def _report_cut_off(self, request: Request, started: float) -> None:
        """Report an attempt that was cancelled by its deadline or by closing, if it is a write that may have begun."""
        if request.kind is RequestKind.WRITE and request.progress.may_have_begun:
            with anyio.move_on_after(_LAST_RECORD_TIMEOUT, shield=True):
                await self._report(request, started, request.progress.sends, None, None)

    async def _report(
        self,
        request: Request,
        started: float,
        number: int,
        status: int | None,
        error: FreightExchangeError | None,
        response: Response | None = None,
    ) -> None:
        abandoned = request.progress.abandoned
        if not (self._hooks or abandoned or _logger.isEnabledFor(logging.DEBUG)):
            return
        attempt = Attempt(
            method=request.method,
            path=request.path,
            number=number,
            status=status,
            elapsed=anyio.current_time() - started,
            error=error,
            abandoned=abandoned,
            may_have_taken_effect=request.kind is RequestKind.WRITE and request.progress.may_have_begun,
            write=request.write,
            call_id=request.call_id,
            headers=self._headers(request, response) if self._hooks else NO_HEADERS,
        )
        if abandoned and attempt.may_have_taken_effect:
            _logger.warning(
                "a write whose caller was cancelled has ended, and may have taken effect: %s; to find out,"
                " await exchange.reconcile(attempt.write)",
                attempt,
            )
        else:
            _logger.debug("%s", attempt)
        await self._hooks.emit(attempt)

    def _headers(self, request: Request, response: Response | None) -> ReplyHeaders:
        if response is None:
            return NO_HEADERS
        return reply_headers(response.headers, self._redactor, login=request.kind is RequestKind.LOGIN)
