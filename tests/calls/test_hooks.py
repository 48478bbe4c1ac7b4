"""Tests of hooks and middleware: what they receive, and that none sends a write twice or talks it undone."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import attrs
import httpx
import pytest
from tests.calls.support import (
    BID,
    BRISK,
    FOUND,
    ONCE,
    Kind,
    Next,
    arm,
    attempts,
    client,
    is_on_asyncio,
    outcome,
    perform,
    reply,
    scripted,
    stocked,
    stranger,
)

from freight_exchange import (
    APIStatusError,
    ConfigurationError,
    FreightExchange,
    OutcomeUnknownError,
    Request,
    Response,
    TransportError,
)
from freight_exchange.hooks import Attempt, Event, Retry

pytestmark = [pytest.mark.virtual_time]

KINDS = [Kind.READ, Kind.WRITE]
GOOD = reply(200, {**FOUND, **BID})


# What hooks receive


async def test_each_hook_receives_each_record_in_order() -> None:
    seen: list[tuple[str, Event]] = []

    class Recorder:
        async def __call__(self, event: Event) -> None:
            seen.append(("object", event))

    async def awaited(event: Event) -> None:
        seen.append(("async", event))

    with scripted(reply(500), GOOD):
        async with stranger(hooks=[lambda event: seen.append(("sync", event)), awaited, Recorder()]) as exchange:
            await perform(exchange, Kind.READ)
    kinds = [type(event).__name__ for name, event in seen if name == "sync"]
    assert kinds == ["Attempt", "Login", "Attempt", "Retry", "Attempt"]
    assert [name for name, _ in seen] == ["sync", "async", "object"] * 5
    assert len({id(event) for _, event in seen}) == 5


async def test_fields_of_an_attempt_and_a_retry() -> None:
    seen: list[Event] = []
    with scripted(reply(503, {}, {"X-Request-Id": "r-17", "Retry-After": "2"}), GOOD):
        async with stranger(hooks=[seen.append]) as exchange:
            await exchange.login()
            await perform(exchange, Kind.READ)
            await perform(exchange, Kind.WRITE)
    first, second = attempts(seen, Kind.READ)
    assert (first.method, first.path, first.number, first.status) == ("POST", Kind.READ.value, 1, 503)
    assert (first.error, first.abandoned, first.may_have_taken_effect, first.write) == (None, False, False, None)
    assert (first.request_id, first.headers["RETRY-AFTER"]) == ("r-17", "2")
    assert (second.number, second.status, second.call_id) == (2, 200, first.call_id)
    [retry] = [event for event in seen if isinstance(event, Retry)]
    assert (retry.method, retry.path, retry.number, retry.call_id) == (*("POST", Kind.READ.value, 1), first.call_id)
    assert 2 <= retry.delay <= 3
    assert retry.error.status == 503
    [write] = attempts(seen, Kind.WRITE)
    assert (write.status, write.may_have_taken_effect, write.call_id != first.call_id) == (200, True, True)
    assert write.write is not None
    [login] = attempts(seen, Kind.LOGIN)
    assert (login.status, login.write) == (200, None)
    for record in seen:
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            record.elapsed = 0  # type: ignore[misc, union-attr]  # what must fail


async def test_attempt_without_a_reply_has_its_error() -> None:
    seen: list[Event] = []
    with scripted(httpx.ReadError("cut")):
        async with stranger(hooks=[seen.append], retries=ONCE) as exchange:
            for kind in KINDS:
                await outcome(exchange, kind)
    for kind in KINDS:
        [attempt] = attempts(seen, kind)
        assert isinstance(attempt.error, TransportError)
        assert attempt.status is None
        assert attempt.may_have_taken_effect == (kind is Kind.WRITE)


# Hooks that fail


class Sabotage:
    """Hook that does something bad at an attempt of a kind."""

    def __init__(self, act: Callable[[], Any], kind: Kind) -> None:
        self._act, self._kind = act, kind

    def __call__(self, event: Event) -> Any:
        return self._act() if isinstance(event, Attempt) and event.path == self._kind.value else None


def _raise(error: BaseException) -> None:
    raise error


def _await_a_cancelled_task() -> Any:
    if not is_on_asyncio():
        # It has no tasks to await.
        raise KeyError("bug")
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    return task


BAD: dict[str, Callable[[], Any]] = {
    "bug": lambda: _raise(KeyError("bug")),
    "error of this package": lambda: _raise(TransportError("the metrics sink is down", unsent=True)),
    "hangs": anyio.sleep_forever,
    "timeout": lambda: _raise(TimeoutError()),
    "awaits a cancelled task": _await_a_cancelled_task,
}


@pytest.mark.both_backends
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BAD)
async def test_hook_that_fails_changes_no_outcome(name: str, kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, seen = stocked(), list[Event]()
    async with client(sandbox, hooks=[Sabotage(BAD[name], kind), seen.append], deadline=20) as exchange:
        assert [await outcome(exchange, kind) for _ in range(2)] == ["ok", "ok"]
    assert len(attempts(seen, kind)) == 2, "the other hooks run all the same"
    assert len(sandbox.audit_log.calls_to("POST", kind.value)) == 2
    loud = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(loud) == 1, "a hook that fails at each call is reported once"
    assert "Sabotage" in loud[0].getMessage()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (GOOD, ("ok", "ok")), (reply(400), ("BadRequestError",) * 2), (reply(429), ("RateLimitedError",) * 2),
        (reply(500), ("ServerError", "OutcomeUnknownError")),
    ],
)  # fmt: skip
async def test_hook_that_outlasts_the_deadline_loses_no_reply(answer: Any, expected: tuple[str, str]) -> None:
    for kind, name in zip(KINDS, expected, strict=True):
        with scripted(answer) as service:
            async with stranger(hooks=[Sabotage(anyio.sleep_forever, kind)]) as exchange:
                await exchange.login()
                assert await outcome(exchange.with_options(deadline=2), kind) == name
        assert len(service.requests) == 1


# Hooks that close their client


class Closing:
    """Hook that closes its client at an event of its kind."""

    def __init__(self, kind: type[Event], path: str = "") -> None:
        self._kind, self._path = kind, path
        self.exchange: FreightExchange
        self.closed = False

    async def __call__(self, event: Event) -> None:
        if isinstance(event, self._kind) and (not self._path or getattr(event, "path", "") == self._path):
            began = anyio.current_time()
            await self.exchange.aclose()
            self.closed = anyio.current_time() - began <= 1


@pytest.mark.both_backends
@pytest.mark.parametrize("kind", KINDS)
async def test_client_closed_by_its_own_hook_closes_at_once_and_the_reply_counts(kind: Kind) -> None:
    hook = Closing(Attempt, kind.value)
    async with client(stocked(), hooks=[hook]) as exchange:
        hook.exchange = exchange
        await perform(exchange, kind)
        assert hook.closed
        with pytest.raises(ConfigurationError, match="closed"):
            await perform(exchange, Kind.READ)


# Middleware


async def test_middleware_wraps_each_attempt_the_first_outermost() -> None:
    order: list[str] = []

    def layer(name: str) -> Any:
        async def wrap(request: Request, call_next: Next) -> Response:
            order.append(f"{name} {request.path} {request.attempt}")
            return await call_next(request)

        return wrap

    with scripted(reply(500), GOOD):
        async with stranger(middleware=[layer("a"), layer("b")], retries=BRISK) as exchange:
            await exchange.login()
            await perform(exchange, Kind.READ)
    path = Kind.READ.value
    assert order == ["a login 1", "b login 1", f"a {path} 1", f"b {path} 1", f"a {path} 2", f"b {path} 2"]


async def test_middleware_sees_the_request_without_a_token_and_the_whole_response() -> None:
    seen: list[Any] = []

    async def look(request: Request, call_next: Next) -> Response:
        response = await call_next(request)
        seen.extend([request, response])
        return response

    with scripted(reply(200, FOUND, {"X-Cache": "MISS"})):
        async with stranger(middleware=[look]) as exchange:
            await perform(exchange, Kind.READ)
    request, response = seen[-2:]
    assert (request.method, request.path, request.write) == ("POST", Kind.READ.value, None)
    assert b'"index"' in request.content
    assert request.call_id
    assert not any(name.lower() == "authorization" for name, _ in request.headers)
    assert (response.status, response.header("x-cache"), response.header("X-CACHE")) == (200, "MISS", "MISS")
    assert b"raterequests" in response.content


@pytest.mark.parametrize(("kind", "expected"), [(Kind.WRITE, 1), (Kind.READ, 2), (Kind.LOGIN, 2)])
async def test_middleware_may_send_a_write_only_once(kind: Kind, expected: int) -> None:
    async def twice(request: Request, call_next: Next) -> Response:
        first = await call_next(request)
        return first if request.path != kind.value else await call_next(request)

    sandbox = stocked()
    async with client(sandbox, middleware=[twice]) as exchange:
        ended = await outcome(exchange, kind)
    assert ended == ("OutcomeUnknownError" if kind is Kind.WRITE else "ok")
    assert len(sandbox.audit_log.calls_to("POST", kind.value)) == expected


async def test_middleware_may_not_send_a_write_again_after_a_failure_or_later() -> None:
    later: list[Awaitable[Response]] = []

    async def stubborn(request: Request, call_next: Next) -> Response:
        if request.path != Kind.WRITE.value:
            return await call_next(request)
        later.append(call_next(request))
        try:
            return await call_next(request)
        except TransportError:
            return await call_next(request)

    sandbox = stocked()
    async with client(sandbox, middleware=[stubborn]) as exchange:
        await exchange.login()
        arm(sandbox, "reset_after_processing", Kind.WRITE)
        assert await outcome(exchange, Kind.WRITE) == "OutcomeUnknownError"
        with pytest.raises((ConfigurationError, TransportError)):
            await later[0]
    assert len(sandbox.audit_log.offers) == 1


LIES: dict[str, Callable[[], Any]] = {
    "bug": lambda: _raise(KeyError("tenant")),
    "unsent": lambda: _raise(TransportError("nothing was sent, honestly", unsent=True)),
    "refused": lambda: _raise(APIStatusError("refused, honestly", status=400)),
    "configuration": lambda: _raise(ConfigurationError("not entered")),
    "nothing": lambda: None,
    "a refusal": lambda: Response(status=400, content=b"{}"),
    "a success": lambda: Response(status=200, content=b'{"bid": {"index": 3}}'),
    "a refused token": lambda: Response(status=401, content=b"{}"),
    "throttling": lambda: Response(status=429, content=b"{}", headers=[(b"Retry-After", b"1")]),
}


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("fault", ["reset_after_processing", None])
async def test_middleware_cannot_talk_a_sent_write_undone(name: str, fault: str | None) -> None:
    """It answers, or raises, in place of the reply or of the failure of the network."""

    async def lie(request: Request, call_next: Next) -> Any:
        if request.path != Kind.WRITE.value:
            return await call_next(request)
        try:
            await call_next(request)
        except TransportError:
            return LIES[name]()
        return LIES[name]()

    sandbox = stocked()
    async with client(sandbox, middleware=[lie]) as exchange:
        await exchange.login()
        if fault is not None:
            arm(sandbox, fault, Kind.WRITE)
        if fault is None and (name.startswith("a ") or name == "throttling"):
            # A middleware that has the reply may judge it. What it makes of it must not cost a second offer.
            await outcome(exchange, Kind.WRITE)
        else:
            with pytest.raises(OutcomeUnknownError) as caught:
                await perform(exchange, Kind.WRITE)
            assert caught.value.write is not None
            if name == "bug":
                assert isinstance(caught.value.__cause__, KeyError)
    assert len(sandbox.audit_log.offers) == 1


async def test_bug_of_a_middleware_reaches_the_caller_of_a_read_unchanged() -> None:
    async def stumble(request: Request, call_next: Next) -> Response:
        response = await call_next(request)
        if request.path != "login":
            raise KeyError("tenant")
        return response

    with scripted(GOOD) as service:
        async with stranger(middleware=[stumble]) as exchange:
            with pytest.raises(KeyError, match="tenant"):
                await perform(exchange, Kind.READ)
    assert len(service.requests) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_answer_of_a_middleware_was_never_sent(kind: Kind) -> None:
    async def answers(request: Request, call_next: Next) -> Response:
        return Response(status=409, content=b"{}", attempt=7)

    seen: list[Event] = []
    with scripted(GOOD) as service:
        async with stranger(middleware=[answers], hooks=[seen.append]) as exchange:
            with pytest.raises(APIStatusError) as caught:
                await perform(exchange, kind)
    assert (caught.value.attempts, caught.value.may_have_taken_effect) == (0, False)
    assert not attempts(seen, kind)
    assert not service.requests


async def test_request_that_a_middleware_makes_anew_counts_as_the_original() -> None:
    """It is a read by its own word, and is not repeated like one."""

    async def rebuild(request: Request, call_next: Next) -> Response:
        if request.path != Kind.WRITE.value:
            return await call_next(request)
        made = attrs.evolve(request, content=request.content, headers=(("X-New", "1"),))
        return await call_next(made)

    sandbox = stocked()
    arm(sandbox, "stall", Kind.WRITE, processed=True, times=None)
    async with client(sandbox, middleware=[rebuild], deadline=5) as exchange:
        with pytest.raises(OutcomeUnknownError):
            await perform(exchange, Kind.WRITE)
    assert len(sandbox.audit_log.offers) == 1


@pytest.mark.both_backends
async def test_errors_of_concurrent_calls_are_not_mixed() -> None:
    async def refuse(request: httpx.Request) -> httpx.Response:
        number = json.loads(request.content)["n"]
        # The later a call, the sooner its reply.
        await anyio.sleep((100 - number) / 100)
        return reply(400, {"message": f"no {number}."})

    caught: dict[int, APIStatusError] = {}
    with scripted(refuse):
        async with stranger(max_connections=100) as exchange, anyio.create_task_group() as tasks:

            async def call(number: int) -> None:
                with pytest.raises(APIStatusError) as error:
                    await exchange.request("POST", f"quote/{number}", body={"n": number}, repeatable=True)
                caught[number] = error.value

            await exchange.login()
            for number in range(100):
                tasks.start_soon(call, number)
    assert {number: (error.path, error.body) for number, error in caught.items()} == {
        number: (f"quote/{number}", {"message": f"no {number}."}) for number in range(100)
    }
    assert all(f"no {number}." in error.message for number, error in caught.items())
    assert len({error.call_id for error in caught.values()}) == 100
    assert all(error.__context__ is None and error.__cause__ is None for error in caught.values())
