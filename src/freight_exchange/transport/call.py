"""One call from start to end: deadline, attempts, decoding, and the error that says what became of it."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import anyio
import attrs
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from freight_exchange.errors import (
    APIStatusError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    FreightExchangeError,
    OutcomeUnknownError,
    TransportError,
)
from freight_exchange.hooks import Retry
from freight_exchange.platform import clock
from freight_exchange.transport.decode_errors import clean
from freight_exchange.transport.message import Kind, Request
from freight_exchange.transport.retry import Again, Unknown, verdict
from freight_exchange.transport.retry_after import retry_after
from freight_exchange.transport.shown_headers import shown_headers
from freight_exchange.transport.status_errors import error_of, login_error

if TYPE_CHECKING:
    from freight_exchange.errors.base import Reconciler
    from freight_exchange.hooks import Hooks
    from freight_exchange.models.writes import Write
    from freight_exchange.options import RetryPolicy, Timeouts
    from freight_exchange.transport.message import Next, Response
    from freight_exchange.transport.retry_budget import RetryBudget
    from freight_exchange.transport.secrets import Redactor

__all__ = ["CallExecutor", "Limits", "new_call_id"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_logger = logging.getLogger("freight_exchange.transport")


_CLAIMS = (TransportError, DecodeError, APIStatusError, DeadlineExceededError, ConfigurationError)
"""The errors that say of a call that nothing took effect."""


def new_call_id() -> str:
    """An id for one call: 16 hexadecimal digits, unlike any other process's."""
    return os.urandom(8).hex()


class Read(Protocol[T_co]):
    """Turns a successful reply into a result, or raises `DecodeError`."""

    def __call__(self, response: Response, /) -> T_co: ...


@attrs.frozen(kw_only=True)
class Limits:
    """What bounds the calls of one view of a client."""

    deadline: float
    timeouts: Timeouts
    retries: RetryPolicy


class _AgainError(Exception):
    """An attempt failed, and another follows after `delay` seconds."""

    def __init__(self, delay: float) -> None:
        super().__init__(delay)
        self.delay = delay


@attrs.frozen(eq=False)
class CallExecutor:
    """Makes calls through a chain of middleware.

    Everything that it raises on purpose is settled: it says whether the call may have taken effect, carries the
    call's circumstances, and is not to be retried by anyone above.
    """

    send: Next
    budget: RetryBudget
    redactor: Redactor
    hooks: Hooks
    chance: Callable[[], float] = random.random

    async def call(
        self,
        kind: Kind,
        method: str,
        path: str,
        read: Read[T],
        limits: Limits,
        *,
        content: bytes | None = None,
        params: tuple[tuple[str, str], ...] = (),
        write: Write | None = None,
        exchange: Reconciler | None = None,
        started: float | None = None,
        call_id: str | None = None,
    ) -> T:
        """Send a request until it succeeds, its retries are over or its deadline has passed.

        `started` is when the deadline began to run, if that was earlier: for what the call had to find out first.
        `call_id` is its id, where the caller has to know it.
        """
        began = anyio.current_time()
        started = began if started is None else started
        request = Request(
            method=method,
            path=path,
            kind=kind,
            timeouts=limits.timeouts,
            content=content,
            params=params,
            call_id=call_id or new_call_id(),
            write=write,
            replayable=kind is not Kind.WRITE or limits.retries.trust_refusals,
            deadline=limits.deadline,
            ends_at=started + limits.deadline,
        )
        # A login's holds the password, and a traceback that shows locals would show it.
        del content
        course = _Call(self, request, read, limits, started, write, exchange)
        if request.ends_at <= began:
            raise course.past_deadline()
        with anyio.CancelScope(deadline=request.ends_at) as scope:
            result: T = await course.run()
            return result
        if scope.cancelled_caught:
            if request.progress.reply is not None:
                # The reply was there in time: hooks held it up.
                return cast("T", await course.conclude(request.progress.reply))
            raise course.past_deadline()
        raise AssertionError("a scope that nothing else cancels ends by its deadline only")


class _Call:
    """The course of one call: its attempts, and what has been learned of them."""

    __slots__ = ("_attempts", "_caller", "_exchange", "_limits", "_read", "_request", "_spent", "_started", "_write")

    def __init__(
        self,
        caller: CallExecutor,
        request: Request,
        read: Read[Any],
        limits: Limits,
        started: float,
        write: Write | None,
        exchange: Reconciler | None,
    ) -> None:
        self._caller = caller
        self._request = request
        self._read = read
        self._limits = limits
        self._started = started
        self._write = write
        self._exchange = exchange
        self._attempts = 0
        self._spent = False

    async def run(self) -> Any:
        try:
            return await self._attempt()
        except _AgainError as again:
            delay = again.delay
        # Only now, since entering it costs more than all the rest of the policy, and most calls succeed at once.
        await anyio.sleep(delay)
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_AgainError), wait=_announced_delay, sleep=anyio.sleep, reraise=True
        )
        return await retrying(self._attempt)

    async def _attempt(self) -> Any:
        self._attempts += 1
        request = self._request if self._attempts == 1 else attrs.evolve(self._request, attempt=self._attempts)
        request.progress.reset()
        return await self._outcome(self._caller.send, request)

    async def conclude(self, reply: Response) -> Any:
        """Return or raise what a reply means that is there already."""

        async def replied(_: Request) -> Response:
            return reply

        return await self._outcome(replied, self._request)

    async def _outcome(self, send: Next, request: Request) -> Any:
        response: Response | None = None
        wait: float | None = None
        doubt: OutcomeUnknownError | None = None
        try:
            response = await send(request)
            if response.attempt != request.progress.sends:
                # A middleware's own, which need not have sent anything, or one that it kept from another call.
                response = attrs.evolve(response, attempt=request.progress.sends)
            wait = retry_after(response.header("retry-after"), wall=clock.wall_time())
            judge = login_error if request.kind is Kind.LOGIN else error_of
            error: FreightExchangeError | None = judge(response, self._caller.redactor, retry_after=wait)
            if error is None:
                result = self._read(response)
                self._caller.budget.reward()
                return result
        except _CLAIMS as failure:
            if self._in_doubt:
                # Whatever it says: it may be a middleware's, of another call. This request's own trace is what counts.
                cause = None if failure.settled else failure
                if cause is not None:
                    self._describe(cause, response)
                doubt = self._unknown(_doubtful(failure.message), cause)
            elif failure.settled or not isinstance(failure, TransportError | DecodeError):
                if isinstance(failure, DeadlineExceededError) and not failure.settled:
                    self._describe(failure, None)
                    failure.settled = True
                raise
            # The decoder's frames hold the reply, and its locals a token that it echoes.
            error = failure.with_traceback(None)
        except Exception as bug:
            if not self._in_doubt:
                raise
            # A middleware's: the request had begun to leave, and its outcome matters more than the bug.
            raise self._unknown(_doubtful(f"{type(bug).__name__} was raised after the request began to leave")) from bug
        raise doubt or await self._consequence(error, response, wait)

    @property
    def _in_doubt(self) -> bool:
        return self._request.kind is Kind.WRITE and self._request.progress.may_have_begun

    async def _consequence(
        self, error: FreightExchangeError, response: Response | None, wait: float | None
    ) -> FreightExchangeError | _AgainError:
        """What to raise after an attempt failed: the call's end, or its continuation."""
        self._describe(error, response)
        decision = verdict(
            error,
            self._request.kind,
            self._limits.retries,
            attempt=self._attempts,
            spent=self._spent,
            retry_after=wait,
            patience=self._request.ends_at - anyio.current_time(),
            chance=self._caller.chance,
        )
        if isinstance(decision, Unknown):
            return self._unknown(_doubtful(error.message), error)
        self._request.progress.reset()
        if isinstance(decision, Again) and self._caller.budget.spend(decision.cost):
            self._spent = self._spent or decision.once
            _logger.info("%s; trying again in %.2f s (call %s)", error, decision.delay, self._request.call_id)
            if self._caller.hooks:
                await self._caller.hooks.emit(
                    Retry(
                        method=self._request.method,
                        path=self._request.path,
                        number=self._request.progress.sends,
                        delay=decision.delay,
                        error=error,
                        call_id=self._request.call_id,
                    )
                )
            return _AgainError(decision.delay)
        error.settled = True
        return error

    def past_deadline(self) -> FreightExchangeError:
        """The error for a call whose deadline has passed."""
        message = f"the deadline of {self._limits.deadline:g} s has passed"
        if self._in_doubt:
            return self._unknown(_doubtful(f"{message} after the request began to leave"))
        if queue := self._request.progress.queue:
            message = f"{message} {queue}"
        error = DeadlineExceededError(f"{message}; nothing took effect")
        self._describe(error, None)
        error.settled = True
        return error

    def _unknown(self, message: str, cause: FreightExchangeError | None = None) -> OutcomeUnknownError:
        error = OutcomeUnknownError(
            message,
            write=self._write,
            exchange=self._exchange,
            status=cause.status if cause is not None else None,
            body=cause.body if cause is not None else None,
        )
        self._describe(error, None)
        if cause is not None:
            error.headers = cause.headers
        error.settled = True
        return error

    def _describe(self, error: FreightExchangeError, response: Response | None) -> None:
        error.method = self._request.method
        error.call_id = self._request.call_id
        if isinstance(error, DecodeError):
            error.request_path = self._request.path
            clean(error, self._caller.redactor)
        else:
            error.path = self._request.path
        error.attempts = self._request.progress.sends
        error.elapsed = anyio.current_time() - self._started
        if response is not None:
            error.status = response.status
            login = self._request.kind is Kind.LOGIN
            error.headers = shown_headers(response.headers, self._caller.redactor, login=login)
            # A login's reply holds a token that is not known yet, and so could not be masked.
            if error.body is None and self._request.kind is not Kind.LOGIN:
                error.body = self._caller.redactor.excerpt(response.content)


def _doubtful(what: str) -> str:
    return f"{what}; whether it was carried out is not known"


def _announced_delay(state: RetryCallState) -> float:
    failure = state.outcome.exception() if state.outcome is not None else None
    assert isinstance(failure, _AgainError), "only an announced failure is retried"
    return failure.delay
