"""Tests of the order of effects at the end of an attempt: log filter, timing, slots, report."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NoReturn

import anyio
import anyio.lowlevel
import pytest

from freight_exchange.errors import DeadlineExceededError, FreightExchangeError, TransportError
from freight_exchange.hooks import Attempt, Event, Hooks
from freight_exchange.options import RetryPolicy, Timeouts
from freight_exchange.transport.background import BackgroundTasks
from freight_exchange.transport.chain import compose_call_chain
from freight_exchange.transport.message import AbandonedError, CallContext, Next, Request, RequestKind, Response
from freight_exchange.transport.middleware.limiter import Limiter
from freight_exchange.transport.middleware.retry import RetryBudget
from freight_exchange.transport.middleware.throttle import Throttle
from freight_exchange.transport.secrets import Redactor, Secret

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]

READ, WRITE = RequestKind.READ, RequestKind.WRITE
HEADERS = "http11.send_request_headers.started"


def request(kind: RequestKind = READ, deadline: float = 60.0) -> Request:
    ends_at = anyio.current_time() + deadline
    return Request(
        method="POST",
        path="x",
        kind=kind,
        timeouts=Timeouts(),
        deadline=deadline,
        ends_at=ends_at,
        context=CallContext(retries=RetryPolicy(attempts=1)),
    )


def chain(network: Next, limiter: Limiter, hook: Callable[[Event], Awaitable[None] | None]) -> Next:
    """Return the chain of a client with one hook. Its redactor knows one token."""
    redactor = Redactor()
    redactor.add_token(Secret("c4nary-t0ken"))
    return compose_call_chain(
        network,
        budget=RetryBudget(500),
        hooks=Hooks((hook,)),
        redactor=redactor,
        user=(),
        token=None,
        throttle=Throttle(),
        limiter=limiter,
    )


async def reply(request: Request) -> Response:
    request.progress.trace(HEADERS)
    await anyio.sleep(1)
    return Response(status=200, content=b"{}", attempt=request.progress.record_send())


@pytest.mark.parametrize("kind", [READ, WRITE])
@pytest.mark.parametrize("error", [None, TransportError("reset")])
async def test_slot_is_free_and_latency_known_while_hooks_run(kind: RequestKind, error: TransportError | None) -> None:
    limiter, hooks_may_end, sent = Limiter(BackgroundTasks(), reads=1, writes=1), anyio.Event(), 0

    async def hook(_: Event) -> None:
        await hooks_may_end.wait()

    async def network(request: Request) -> Response:
        nonlocal sent
        sent += 1
        response = await reply(request)
        if error is not None:
            raise error
        return response

    async def call() -> None:
        with suppress(FreightExchangeError):
            await chain(network, limiter, hook)(request(kind))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(call)
        await anyio.sleep(10)
        assert sent == 3
        assert limiter.latency.usual == pytest.approx(1.0 if kind is WRITE else 0.0)
        hooks_may_end.set()


async def test_reply_is_known_before_hooks_run() -> None:
    sent, seen = request(), list[bool]()
    limiter = Limiter(BackgroundTasks(), reads=1, writes=1)
    await chain(reply, limiter, lambda _: seen.append(sent.progress.reply is not None))(sent)
    assert seen == [True]


async def test_refusal_before_the_first_byte_is_the_error_of_the_report() -> None:
    events: list[Event] = []
    limiter = Limiter(BackgroundTasks(), reads=1, writes=1)
    limiter.latency.observe(2.0)

    async def connecting(request: Request) -> NoReturn:
        number = request.progress.record_send()
        await anyio.sleep(5)
        with pytest.raises(AbandonedError):
            request.progress.trace(HEADERS)
        # Another connection, after which nothing proves any more that the request was not sent.
        request.progress.trace("connection.connect_tcp.complete")
        failure = TransportError("given up", unsent=True)
        failure.attempts = number
        raise failure

    write = request(WRITE, deadline=7.0)
    with pytest.raises(DeadlineExceededError, match="when its connection was ready") as refusal:
        await chain(connecting, limiter, events.append)(write)
    [attempt] = events
    assert isinstance(attempt, Attempt)
    assert attempt.error is refusal.value
    assert (attempt.number, attempt.may_have_taken_effect, write.progress.may_have_begun) == (1, False, False)


async def test_cancelled_write_is_reported_with_its_slot_free() -> None:
    events: list[Event] = []
    tasks = BackgroundTasks()
    limiter = Limiter(tasks, reads=1, writes=1)

    async def endless(request: Request) -> NoReturn:
        request.progress.record_send()
        request.progress.trace(HEADERS)
        await anyio.sleep_forever()
        raise AssertionError

    async def call() -> None:
        with pytest.raises(FreightExchangeError, match="closed"):
            await chain(endless, limiter, events.append)(request(WRITE))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await anyio.sleep(3)
        tasks.close(anyio.lowlevel.checkpoint)
    [attempt] = events
    assert isinstance(attempt, Attempt)
    assert (attempt.status, attempt.error, attempt.may_have_taken_effect) == (None, None, True)
    assert limiter.latency.usual == pytest.approx(3.0)


async def test_logs_are_masked_while_a_request_is_sent_and_not_in_hooks(caplog: pytest.LogCaptureFixture) -> None:
    limiter = Limiter(BackgroundTasks(), reads=1, writes=1)
    library = logging.getLogger("httpx")
    caplog.set_level(logging.INFO, "httpx")

    async def logging_network(request: Request) -> Response:
        library.info("sent with %s", "c4nary-t0ken")
        return await reply(request)

    await chain(logging_network, limiter, lambda _: library.info("reported with %s", "c4nary-t0ken"))(request())
    sent, reported = (record.getMessage() for record in caplog.records if record.name == "httpx")
    assert "c4nary" not in sent
    assert reported == "reported with c4nary-t0ken"
