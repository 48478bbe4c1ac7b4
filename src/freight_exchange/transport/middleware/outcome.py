"""Outcome of an attempt: the result in its reply, or the error that describes the outcome of the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from freight_exchange.errors import (
    APIStatusError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    FreightExchangeError,
    OutcomeUnknownError,
    TransportError,
)
from freight_exchange.platform import clock
from freight_exchange.transport.message import RequestKind
from freight_exchange.transport.rules.redaction import describe
from freight_exchange.transport.rules.retry_after import retry_after
from freight_exchange.transport.rules.status_errors import error_of, login_error

if TYPE_CHECKING:
    from freight_exchange.transport.message import Next, Request, Response
    from freight_exchange.transport.secrets import Redactor

__all__ = ["FailedAttemptError", "Outcome", "in_doubt", "outcome_unknown"]

_DENIALS = (TransportError, DecodeError, APIStatusError, DeadlineExceededError, ConfigurationError)
"""Errors that claim that a call had no effect."""


class FailedAttemptError(Exception):
    """Failure of one attempt, which may be repeated: `error` is the reason."""

    def __init__(self, error: FreightExchangeError) -> None:
        super().__init__(error)
        self.error = error


class Outcome:
    """Middleware that sets a response's `result`, and describes and masks the errors of an attempt.

    Raises:
        FailedAttemptError: The attempt failed; `Retry` decides what follows.
        OutcomeUnknownError: The write had begun to leave and has no reply that shows its effect.
    """

    __slots__ = ("_redactor",)

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    async def __call__(self, request: Request, call_next: Next) -> Response:
        response: Response | None = None
        doubt: OutcomeUnknownError | None = None
        try:
            # After the deadline, the reply may have come in time already.
            response = request.progress.reply or await call_next(request)
            if response.attempt != request.progress.sends:
                # The response was made by a middleware, or kept by it from another call.
                response = attrs.evolve(response, attempt=request.progress.sends)
            wait = retry_after(response.header("retry-after"), wall=clock.wall_time())
            map_error = login_error if request.kind is RequestKind.LOGIN else error_of
            error: FreightExchangeError | None = map_error(response, self._redactor, retry_after=wait)
            if error is None:
                return attrs.evolve(response, result=request.context.read(response))
        except _DENIALS as failure:
            if in_doubt(request):
                # Only this request's own trace counts, since the error may be a middleware's, about another call.
                cause = None if failure.settled else failure
                if cause is not None:
                    describe(cause, request, self._redactor, response)
                doubt = outcome_unknown(request, _sentence(failure), self._redactor, cause)
            elif failure.settled or not isinstance(failure, TransportError | DecodeError):
                if isinstance(failure, DeadlineExceededError) and not failure.settled:
                    describe(failure, request, self._redactor)
                    failure.settled = True
                raise
            # The frames of the decoder contain the reply, which may repeat a token.
            error = failure.with_traceback(None)
        except Exception as bug:
            if not in_doubt(request):
                raise
            # A bug in a middleware: the outcome of the write matters more.
            message = f"{type(bug).__name__} was raised after the request began to leave"
            raise outcome_unknown(request, message, self._redactor) from bug
        if doubt is not None:
            raise doubt
        describe(error, request, self._redactor, response)
        raise FailedAttemptError(error)


def in_doubt(request: Request) -> bool:
    """Return whether the request is a write that the service may have received in part."""
    return request.kind is RequestKind.WRITE and request.progress.may_have_begun


def _sentence(error: FreightExchangeError) -> str:
    """Return the message, with the position in the reply if it has one."""
    at_a_place = isinstance(error, DecodeError) and error.path != "$"
    return f"{error.message} at {error.path}" if at_a_place else error.message


def outcome_unknown(
    request: Request, message: str, redactor: Redactor, cause: FreightExchangeError | None = None
) -> OutcomeUnknownError:
    """Make the error for a write that may have been carried out."""
    error = OutcomeUnknownError(
        f"{message}; whether it was carried out is not known",
        write=request.write,
        exchange=request.context.reconciler,
        status=cause.status if cause is not None else None,
        body=cause.body if cause is not None else None,
    )
    describe(error, request, redactor)
    if cause is not None:
        error.headers = cause.headers
    error.settled = True
    return error
