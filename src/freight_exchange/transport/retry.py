"""Outcome of a call: what a reply means, whether an attempt is repeated, and the deadline above all."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import anyio
import attrs
from tenacity import AsyncRetrying, RetryCallState

from freight_exchange import wire
from freight_exchange.base import NO_HEADERS
from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    DeadlineExceededError,
    DecodeError,
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    OutcomeUnknownError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from freight_exchange.platform import clock
from freight_exchange.transport.call import RequestKind
from freight_exchange.transport.redact import MASK, redact_decode_error, reply_headers

if TYPE_CHECKING:
    from freight_exchange.instruments import Hooks
    from freight_exchange.options import RetryPolicy
    from freight_exchange.transport.call import Call, Request, Response, Send
    from freight_exchange.transport.redact import Redactor

_logger = logging.getLogger("freight_exchange.transport")

Result = Callable[["Call", "Request"], Awaitable[object]]
"""Sender that returns the result of a call."""

MAX_WAIT: Final = 120.0
"""Longest wait of a call in seconds."""
MAX_HONOURED: Final = 3600.0
"""Longest `Retry-After` to obey, in seconds: one of years may be a mistake, and must not end all calls."""
_MAX_SECONDS: Final = 10.0**9
_MAX_PARSED: Final = 262_144
"""Longest body of an error to parse. A longer one is a dump of something else, and parsing it takes long."""
_REJECTED: Final = frozenset({200, 400, 401, 403, 422})
"""Statuses at which a login's reply can report wrong credentials."""
_TOKEN: Final = r".{20}|(?=.*\d)(?=.*[A-Za-z]).{6}|\d{8}"
"""Long word, mixture of letters and digits, or long number: it could be a token."""


def retry_after(response: Response) -> float | None:
    """Return the seconds of `Retry-After`, a date against the reply's own `Date` if any; `None` if unreadable."""
    text = (response.header("retry-after") or "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return min(float(text), _MAX_SECONDS)
    at = _date(text)
    if at is None:
        return None
    now = _date(response.header("date") or "")
    return min(max(0.0, at.timestamp() - (clock.wall_time() if now is None else now.timestamp())), _MAX_SECONDS)


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def format_seconds(seconds: float) -> str:
    if seconds > 86_400:
        return "more than a day"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def is_unauthorized(response: Response) -> bool:
    """Return whether the reply only refuses the token: status 401, or a body with `Unauthorized` and no result."""
    status = response.status
    if status == 401:
        return True
    if (status != 200 and not 400 <= status < 500) or b"nauthorized" not in response.content[:_MAX_PARSED]:
        return False
    return wire.is_unauthorized(_json(response), success=status == 200)


def error_of(response: Response, redactor: Redactor) -> APIStatusError | None:
    """Return the error for a reply, or `None` if the call succeeded."""
    refused = is_unauthorized(response)
    if 200 <= response.status < 300 and not refused:
        return None
    data = _json(response)
    body = redactor.excerpt(response.content) if data is None else redactor.value(data)
    sentence = wire.find_sentence_in_text(str(body)) if data is None else wire.find_sentence(body)
    if refused:
        words = f": {sentence}" if sentence else ""
        return AuthenticationError(
            f"the service does not accept the token{words}; if each login ends the account's older tokens, share one"
            " login among all processes of the account: see token_store",
            status=response.status,
            body=body,
        )
    return _status_error(response, redactor, sentence, body)


def login_error(response: Response, redactor: Redactor) -> APIStatusError | None:
    """Map the reply to a login to an error, or to none.

    A rejection ends all logins, so it needs a JSON object with a reason and without a token, and a suitable status. The
    reply may contain a token that is not known yet: the error quotes one sentence, and masks words that could be one.
    """
    data = _json(response)
    sentence = wire.find_sentence(redactor.value(data)) if isinstance(data, dict) else None
    if sentence is not None:
        sentence = re.sub(r"\S+", lambda found: MASK if re.search(_TOKEN, found.group()) else found.group(), sentence)
    body: object = None if sentence is None else {"message": sentence}
    if response.status in _REJECTED and wire.is_rejection(data):
        reason = (sentence or "it gave no reason").rstrip(".")
        return LoginRejectedError(
            f"the service rejected the email or password: {reason}", status=response.status, body=body
        )
    # A login sends no token that could be refused, so the status decides.
    if 200 <= response.status < 300:
        return None
    error = _status_error(response, redactor, sentence, body)
    if isinstance(error, NotFoundError):
        error.args = (f"{error.message}; base_url may be wrong",)
    return error


def _status_error(response: Response, redactor: Redactor, sentence: str | None, body: object) -> APIStatusError:
    status = response.status
    # A refused login is not tried again at a time that the service names.
    wait = None if status == 401 else retry_after(response)
    kind, what = _MEANINGS.get(status, (APIStatusError, "the service refused the call"))
    if status == 429:
        until = "" if wait is None else f", and to wait {format_seconds(wait)}"
        kind, what = RateLimitedError, f"the service asks for fewer calls{until}"
    elif status >= 500:
        kind, what = ServerError, "the service failed"
    elif 300 <= status < 400:
        origin = re.match(r"https?://[\w.-]+(:\d+)?(?=[/?#]|$)", response.header("location") or "")
        target = f" to {redactor.text(origin[0])}" if origin else ""
        what = f"the service redirects{target}, and redirects are never followed: check base_url"
    return kind(f"{what}: {sentence}" if sentence else what, status=status, body=body, retry_after=wait)


_MEANINGS: Final[dict[int, tuple[type[APIStatusError], str]]] = {
    **dict.fromkeys((400, 413, 422), (BadRequestError, "the service found the request wrong")),
    401: (AuthenticationError, "the login was refused"),
    404: (NotFoundError, "the service has nothing there"),
    407: (APIStatusError, "a proxy asks for a user and password: put them into the proxy's URL"),
    # This is not a refusal: the outcome of a write is unknown.
    408: (APIStatusError, "the service gave up waiting for the request"),
}


def _json(response: Response) -> object:
    """Return the body as JSON; `None` if it is not JSON, or too long to parse."""
    if len(response.content) > _MAX_PARSED:
        return None
    try:
        return wire.parse(response.content)
    except DecodeError:
        return None


# Attempts


async def outcome(call: Call, request: Request, call_next: Send) -> object:
    """Turn a reply into a result, or into a described and masked error. It is a middleware.

    A write that has begun to leave is in doubt until its reply shows its effect or its refusal, even after an error.
    An attempt that may be repeated ends with an error that is not settled.
    """
    call.stopped = False
    reply: Response | None = None
    try:
        response = await call_next(call, request)
        # A middleware's answer proves nothing about a write: the network's own reply decides.
        reply = call.reply if call.in_doubt else response
        if reply is None:
            raise TransportError("a middleware answered for a write that has no reply")
        map_error = login_error if call.kind is RequestKind.LOGIN else error_of
        error = map_error(reply, call.redactor)
        if error is None:
            return call.read(response, partial(describe, call=call, response=reply))
    except Exception as failure:  # noqa: BLE001  # a bug of a middleware too: the outcome of the write matters more
        _raise(call, failure, reply)
    finally:
        # After its middleware has returned, nothing of this attempt may be sent.
        call.stopped = True
    describe(error, call, reply)
    raise error


def _raise(call: Call, failure: Exception, reply: Response | None) -> NoReturn:
    if not isinstance(failure, FreightExchangeError):
        if not call.in_doubt:
            raise failure
        message = f"{type(failure).__name__} was raised after the request began to leave"
        raise outcome_unknown(call, message) from failure
    if failure.settled and not call.in_doubt:
        raise failure
    # The frames of the decoder contain the reply, which may repeat a token.
    failure.__traceback__ = None
    # Only this call's own state counts: a settled error is a middleware's, about another call.
    if not failure.settled and isinstance(failure, TransportError | DecodeError | DeadlineExceededError):
        describe(failure, call, reply)
        # The reply to a login contains a token that is not known yet, and cannot be masked.
        if reply is not None and call.kind is not RequestKind.LOGIN:
            failure.body = call.redactor.excerpt(reply.content)
    if call.in_doubt:
        place = f" at {failure.path}" if isinstance(failure, DecodeError) and failure.path != "$" else ""
        raise outcome_unknown(call, f"{failure.message}{place}", None if failure.settled else failure) from None
    failure.settled = not isinstance(failure, TransportError | DecodeError)
    raise failure from None


def outcome_unknown(call: Call, message: str, cause: FreightExchangeError | None = None) -> OutcomeUnknownError:
    error = OutcomeUnknownError(
        f"{message}; whether it was carried out is not known",
        write=call.write,
        _exchange=call.reconciler,
        status=None if cause is None else cause.status,
        body=None if cause is None else cause.body,
        headers=NO_HEADERS if cause is None else cause.headers,
        settled=True,
    )
    describe(error, call)
    return error


def describe(error: FreightExchangeError, call: Call, response: Response | None = None) -> None:
    """Complete an error with the circumstances of its call, and mask it."""
    error.method, error.call_id = call.method, call.call_id
    if isinstance(error, DecodeError):
        error.request_path = call.path
        redact_decode_error(error, call.redactor)
    else:
        error.path = call.path
    error.attempts = call.sends
    error.elapsed = anyio.current_time() - call.started
    if response is not None:
        is_login = call.kind is RequestKind.LOGIN
        error.status = response.status
        error.headers = reply_headers(response.headers, call.redactor, login=is_login)


class Rule(NamedTuple):
    """Consequence of a failed attempt: how many `attempts` the call may have, and what the next one costs.

    If the write `is_in_doubt`, it may have been carried out, so there is no other attempt, ever.
    """

    attempts: int = 1
    wait: float = 0.0
    is_in_doubt: bool = False
    cost: int = 14


_STOP: Final = Rule()
_DOUBT: Final = Rule(is_in_doubt=True)
_THROTTLED_COST: Final = 5


def rule_of(error: FreightExchangeError, kind: RequestKind, policy: RetryPolicy) -> Rule:
    """Return the rule for a failed attempt: the whole retry matrix."""
    is_read, is_write = kind is RequestKind.READ, kind is RequestKind.WRITE
    many, once = policy.attempts, min(2, policy.attempts)
    if is_write and not policy.trust_refusals and isinstance(error, AuthenticationError | RateLimitedError):
        return _DOUBT
    match error:
        case TransportError(permanent=True):
            # The request cannot be sent: a certificate that is not valid, for example.
            return _DOUBT if is_write and not error.unsent else _STOP
        case TransportError(unsent=True):
            return Rule(many)
        case RateLimitedError(retry_after=None):
            return Rule(many, wait=1.0, cost=_THROTTLED_COST) if is_read else _STOP
        case RateLimitedError(retry_after=float() as wait):
            if wait > MAX_WAIT:
                return _STOP
            return Rule(many if is_read else once, wait=wait, cost=_THROTTLED_COST)
        case APIStatusError(status=int() as status) if 400 <= status < 500 and status != 408:
            return _STOP
        case APIStatusError(status=int() as status) if 200 <= status < 400:
            # A redirect, or a refusal of the token with a status of success.
            return _DOUBT if is_write and status >= 300 else _STOP
    if is_write:
        return _DOUBT
    if isinstance(error, DecodeError):
        return Rule(once) if is_read else _STOP
    wait = getattr(error, "retry_after", None) or 0.0
    return Rule(many if is_read else once, wait=wait) if wait <= MAX_WAIT else _STOP


class Retry:
    """Middleware that repeats an attempt if its rule, the deadline and the client's budget allow it.

    The budget is a token bucket, so that retries do not make an outage worse: with 500 tokens, a thousand calls that
    all fail are at most 1,035 requests.
    """

    def __init__(self, hooks: Hooks, budget: int) -> None:
        self._hooks = hooks
        self._budget = self._tokens = budget

    async def __call__(self, call: Call, request: Request, call_next: Result) -> object:
        # Without tenacity, which takes a tenth of the time of a call that succeeds at once.
        result: object = None
        first: FreightExchangeError | None = None
        try:
            result = await call_next(call, request)
        except FreightExchangeError as failed:
            if failed.settled:
                raise
            first = failed
        # Outside of the handler, so that no later error has the first one as its context.
        if first is not None:
            result = await self._repeated(first, call, request, call_next)
        # Calls that all fail may need logins meanwhile.
        if call.kind is not RequestKind.LOGIN:
            self._tokens = min(self._budget, self._tokens + 1)
        return result

    async def _repeated(self, error: FreightExchangeError, call: Call, request: Request, call_next: Result) -> object:
        rule = _STOP

        async def attempt() -> object:
            number = retrying.statistics["attempt_number"]
            if number == 1:
                raise error
            return await call_next(call, attrs.evolve(request, attempt=number))

        def retry(state: RetryCallState) -> bool:
            nonlocal error, rule
            failure = state.outcome.exception() if state.outcome is not None else None
            if not isinstance(failure, FreightExchangeError) or failure.settled:
                return False
            error = failure
            rule = rule_of(error, call.kind, call.limits.retries)
            return state.attempt_number < rule.attempts and self._tokens >= rule.cost

        def wait(state: RetryCallState) -> float:
            policy = call.limits.retries
            doubled = min(policy.cap, policy.base * 2.0 ** min(state.attempt_number - 1, 60))
            # Never earlier than asked, but with jitter: otherwise all clients would come back in the same second.
            return rule.wait + random.random() * (doubled if not rule.wait else min(1.0, max(doubled, 0.1 * rule.wait)))

        def stop(state: RetryCallState) -> bool:
            return state.upcoming_sleep >= call.ends_at - anyio.current_time()

        async def announce(state: RetryCallState) -> None:
            self._tokens -= rule.cost
            delay = state.upcoming_sleep
            _logger.info("%s; retrying in %.2f s (call %s)", error, delay, call.call_id)
            if self._hooks:
                from freight_exchange.hooks import Retry as Event

                facts: Any = {"method": call.method, "path": call.path, "number": call.sends, "call_id": call.call_id}
                await self._hooks.emit(Event(delay=delay, error=error, **facts))
            call.reset()

        retrying = AsyncRetrying(
            retry=retry, wait=wait, stop=stop, before_sleep=announce, sleep=anyio.sleep, reraise=True
        )
        try:
            return await retrying(attempt)
        except FreightExchangeError as failure:
            if failure.settled:
                raise
        if rule_of(error, call.kind, call.limits.retries).is_in_doubt:
            raise outcome_unknown(call, error.message, error)
        call.reset()
        error.settled = True
        raise error.with_traceback(None)


class Deadline:
    """Middleware that cancels the call when its deadline has passed, or when its client is closed."""

    def __init__(self) -> None:
        self.running: dict[anyio.CancelScope, int] = {}
        """Scopes of the running calls, with the tasks that they run in."""
        self.is_closed = False

    async def __call__(self, call: Call, request: Request, call_next: Result) -> object:
        with anyio.CancelScope(deadline=call.ends_at) as call.scope:
            self.running[call.scope] = anyio.get_current_task().id
            try:
                if call.ends_at > anyio.current_time():
                    return await call_next(call, request)
            finally:
                call.stopped = True
                del self.running[call.scope]
        passed = f"the deadline of {call.limits.deadline:g} s has passed"
        message = "the client was closed during the call" if self.is_closed else passed
        if call.in_doubt:
            raise outcome_unknown(call, f"{message} after the request began to leave")
        error: FreightExchangeError = DeadlineExceededError(f"{message}{call.queue}; nothing took effect", settled=True)
        if self.is_closed:
            error = TransportError(message, permanent=True, unsent=not call.began, settled=True)
        describe(error, call)
        raise error

    async def aclose(self, seconds: float) -> None:
        """Cancel the running calls and wait for their ends, except for a call whose hook closes the client."""
        self.is_closed = True
        own = anyio.get_current_task().id
        for scope, task in self.running.items():
            if task != own:
                scope.cancel()
        with anyio.move_on_after(seconds, shield=True):
            # Polled, as an event would cost every call.
            while any(task != own for task in self.running.values()):  # noqa: ASYNC110
                await anyio.sleep(0.001)
