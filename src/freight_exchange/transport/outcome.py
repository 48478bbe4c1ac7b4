"""Outcome of a call: a result, an error that states that nothing took effect, or doubt about a write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio

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
from freight_exchange.transport.call import RequestKind
from freight_exchange.transport.redact import redact_decode_error, reply_headers
from freight_exchange.transport.replies import error_of, login_error, retry_after

if TYPE_CHECKING:
    from freight_exchange.transport.call import Call, Request, Response, Send
    from freight_exchange.transport.redact import Redactor

__all__ = ["FailedAttemptError", "Outcome", "Result", "outcome_unknown"]

Result = Callable[["Call", "Request"], Awaitable[object]]
"""Sender that returns the result of a call."""

_DENIALS = (TransportError, DecodeError, APIStatusError, DeadlineExceededError, ConfigurationError)
"""Errors that claim that a call had no effect."""


class FailedAttemptError(Exception):
    """Failure of one attempt, which may be repeated: `error` is the reason."""

    def __init__(self, error: FreightExchangeError) -> None:
        super().__init__(error)
        self.error = error


class Outcome:
    """Middleware that turns a reply into a result, or into a described and masked error.

    It decides about doubt: a write that has begun to leave is in doubt until its reply shows its effect or its refusal,
    even if an error was raised instead.

    Raises:
        FailedAttemptError: The attempt failed; `Retry` decides what follows.
        OutcomeUnknownError: The write is in doubt.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    async def __call__(self, call: Call, request: Request, call_next: Send) -> object:
        call.stopped = False
        try:
            response = await call_next(call, request)
            if call.in_doubt and call.reply is None:
                raise TransportError("a middleware answered for a write that has no reply")
        except Exception as failure:  # noqa: BLE001  # a bug of a middleware too: the outcome of the write matters more
            return self._failed(call, failure)
        finally:
            # After its middleware has returned, nothing of this attempt may be sent.
            call.stopped = True
        return self.result(call, response)

    def result(self, call: Call, response: Response) -> object:
        """Return the result in a reply."""
        try:
            wait = retry_after(response, wall=clock.wall_time())
            map_error = login_error if call.kind is RequestKind.LOGIN else error_of
            error: FreightExchangeError | None = map_error(response, self._redactor, wait=wait)
            if error is not None and call.in_doubt and call.reply is not None and response is not call.reply:
                # A middleware's answer proves nothing about a write: the network's own reply decides.
                response = call.reply
                error = error_of(response, self._redactor, wait=retry_after(response, wall=clock.wall_time()))
                if error is None:
                    raise TransportError("a middleware made an error of the reply")
            if error is None:
                return call.read(response)
        except Exception as failure:  # noqa: BLE001  # as above
            return self._failed(call, failure, response)
        describe(error, call, self._redactor, response)
        raise FailedAttemptError(error)

    def _failed(self, call: Call, failure: Exception, response: Response | None = None) -> object:
        """Raise the error for a failed attempt."""
        if call.in_doubt and isinstance(failure, _DENIALS):
            # The frames of the decoder contain the reply, which may repeat a token.
            failure.__traceback__ = None
            # Only this call's own state counts: the error may be a middleware's, about another call.
            if not failure.settled:
                describe(failure, call, self._redactor, response)
            cause = None if failure.settled else failure
            raise outcome_unknown(call, _sentence(failure), self._redactor, cause) from None
        if call.in_doubt and not isinstance(failure, FreightExchangeError):
            message = f"{type(failure).__name__} was raised after the request began to leave"
            raise outcome_unknown(call, message, self._redactor) from failure
        if isinstance(failure, FreightExchangeError) and not failure.settled:
            if isinstance(failure, DeadlineExceededError):
                describe(failure, call, self._redactor)
                failure.settled = True
            elif isinstance(failure, TransportError | DecodeError):
                describe(failure, call, self._redactor, response)
                raise FailedAttemptError(failure.with_traceback(None)) from None
        raise failure


def outcome_unknown(
    call: Call, message: str, redactor: Redactor, cause: FreightExchangeError | None = None
) -> OutcomeUnknownError:
    """Make the error for a write that may have been carried out."""
    error = OutcomeUnknownError(
        f"{message}; whether it was carried out is not known",
        write=call.write,
        exchange=call.reconciler,
        status=None if cause is None else cause.status,
        body=None if cause is None else cause.body,
    )
    describe(error, call, redactor)
    if cause is not None:
        error.headers = cause.headers
    error.settled = True
    return error


def _sentence(error: FreightExchangeError) -> str:
    """Return the message, with the position in the reply if it has one."""
    at_a_place = isinstance(error, DecodeError) and error.path != "$"
    return f"{error.message} at {error.path}" if at_a_place else error.message


def describe(error: FreightExchangeError, call: Call, redactor: Redactor, response: Response | None = None) -> None:
    """Complete an error with the circumstances of its call and a masked excerpt of the reply."""
    error.method, error.call_id = call.method, call.call_id
    if isinstance(error, DecodeError):
        error.request_path = call.path
        redact_decode_error(error, redactor)
    else:
        error.path = call.path
    error.attempts = call.sends
    error.token_refused = call.replays > 0
    error.elapsed = anyio.current_time() - call.started
    if response is not None:
        is_login = call.kind is RequestKind.LOGIN
        error.status = response.status
        error.headers = reply_headers(response.headers, redactor, login=is_login)
        # The reply to a login contains a token that is not known yet, and cannot be masked.
        if error.body is None and not is_login:
            error.body = redactor.excerpt(response.content)
