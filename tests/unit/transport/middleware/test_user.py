"""Tests of users' middleware: order, and a single send of a write."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import httpx
import pytest

from freight_exchange.errors import ConfigurationError, DeadlineExceededError, TransportError
from freight_exchange.options import Timeouts
from freight_exchange.transport.chain import compose_layers
from freight_exchange.transport.message import Middleware, Next, Request, RequestKind, Response
from freight_exchange.transport.middleware.user import guard_middleware


def request(kind: RequestKind) -> Request:
    return Request(method="POST", path="quote/submitoffer", kind=kind, timeouts=Timeouts())


class Sender:
    def __init__(self) -> None:
        self.sent: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.sent.append(request)
        return Response(status=200, content=b"{}")


async def twice(request: Request, call_next: Next) -> Response:
    await call_next(request)
    return await call_next(request)


async def insisting(request: Request, call_next: Next) -> Response:
    try:
        return await call_next(request)
    except TransportError:
        return await call_next(request)


async def test_the_first_is_outermost() -> None:
    def marking(mark: str) -> Middleware:
        async def layer(request: Request, call_next: Next) -> Response:
            response = await call_next(request.with_header("in", mark))
            return Response(status=200, content=response.content + mark.encode())

        return layer

    sender = Sender()
    response = await compose_layers([marking("a"), marking("b")], sender)(request(RequestKind.READ))
    assert sender.sent[0].headers == (("in", "a"), ("in", "b"))
    assert response.content == b"{}ba"
    assert compose_layers([], sender) is sender


async def test_a_write_passes_once() -> None:
    sender = Sender()
    with pytest.raises(ConfigurationError, match="only once"):
        await compose_layers([guard_middleware(twice)], sender)(request(RequestKind.WRITE))
    assert len(sender.sent) == 1


async def test_a_write_is_not_repeated_after_a_failure_either() -> None:
    sent = 0

    async def failing(request: Request) -> Response:
        nonlocal sent
        sent += 1
        raise TransportError("reset")

    with pytest.raises(ConfigurationError):
        await compose_layers([guard_middleware(insisting)], failing)(request(RequestKind.WRITE))
    assert sent == 1


@pytest.mark.parametrize("kind", [RequestKind.READ, RequestKind.LOGIN])
async def test_reads_and_logins_may_be_sent_repeatedly(kind: RequestKind) -> None:
    sender = Sender()
    await compose_layers([guard_middleware(twice)], sender)(request(kind))
    assert len(sender.sent) == 2


async def answering(request: Request, call_next: Next) -> Response:
    try:
        return await call_next(request)
    except TransportError:
        return Response(status=429, content=b"{}", headers=[(b"Retry-After", b"0")])


@pytest.mark.parametrize("kind", list(RequestKind))
@pytest.mark.parametrize("begun", [True, False])
async def test_no_answer_stands_for_a_write_that_was_sent_without_a_reply(kind: RequestKind, begun: bool) -> None:
    async def failing(request: Request) -> Response:
        if begun:
            request.progress.record_send()
        raise TransportError("reset")

    send = compose_layers([guard_middleware(answering)], failing)
    if kind is RequestKind.WRITE and begun:
        with pytest.raises(TransportError, match="answering") as caught:
            await send(request(kind))
        assert not caught.value.unsent
    else:
        assert (await send(request(kind))).status == 429


@pytest.mark.parametrize("fails", [True, False])
async def test_no_answer_stands_for_a_write_that_is_being_sent(fails: bool) -> None:
    sending, sent = anyio.Event(), anyio.Event()

    async def slow(request: Request) -> Response:
        sending.set()
        await sent.wait()
        return Response(status=200, content=b"{}")

    async with anyio.create_task_group() as tasks:

        async def impatient(request: Request, call_next: Next) -> Response:
            async def in_background() -> None:
                await call_next(request)

            tasks.start_soon(in_background)
            await sending.wait()
            if fails:
                raise DeadlineExceededError("it takes too long")
            return Response(status=429, content=b"{}", headers=[(b"Retry-After", b"0")])

        with pytest.raises(TransportError, match="impatient") as caught:
            await compose_layers([guard_middleware(impatient)], slow)(request(RequestKind.WRITE))
        assert not caught.value.unsent
        sent.set()


async def forgetful(request: Request, call_next: Next) -> Any:
    await call_next(request)


async def native(request: Request, call_next: Next) -> Any:
    return httpx.Response(200)


def synchronous(request: Request, call_next: Next) -> Any:
    return Response(status=200, content=b"{}").content


class Stateful:
    async def __call__(self, request: Request, call_next: Next) -> Any:
        return b"{}"


@pytest.mark.parametrize(
    ("layer", "name", "result"),
    [
        (forgetful, "forgetful", "NoneType"),
        (native, "native", "Response"),
        (synchronous, "synchronous", "bytes"),
        (Stateful(), "Stateful", "bytes"),
        (partial(forgetful), "partial", "NoneType"),
    ],
)
@pytest.mark.parametrize("kind", list(RequestKind))
async def test_result_that_is_no_response_is_refused_with_the_name_of_the_middleware(
    kind: RequestKind, layer: Any, name: str, result: str
) -> None:
    with pytest.raises(ConfigurationError, match=rf"the middleware {name} must .* not .*{result}$"):
        await compose_layers([guard_middleware(layer)], Sender())(request(kind))


async def test_each_write_may_be_sent_once() -> None:
    async def plain(request: Request, call_next: Next) -> Response:
        return await call_next(request)

    sender = Sender()
    send = compose_layers([guard_middleware(plain)], sender)
    for _ in range(3):
        await send(request(RequestKind.WRITE))
    assert len(sender.sent) == 3
