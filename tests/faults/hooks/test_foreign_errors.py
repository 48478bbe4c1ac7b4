"""Tests of exceptions of foreign transports: doubt after a write began, `TransportError` for a read."""

from __future__ import annotations

import json
import socket
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from httpx_aiohttp import AiohttpTransport

from freight_exchange import FreightExchange, FreightExchangeError, OutcomeUnknownError, TransportError

TOKEN, PASSWORD = "canary-token-4711", "canary-password-4711"
LOGIN = json.dumps({"user": {"access_token": TOKEN, "expires_on": 3600}}).encode()
GARBAGE = [
    b"HTTP/1.1 2OO OK\r\n\r\n",
    b"\x00\x01\x02\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nbroken header\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
]


@contextmanager
def raw_server(reply: bytes) -> Iterator[str]:
    """Serve logins, answer all other requests with these bytes, and close each connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                request = connection.recv(65536)
                head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(LOGIN)
                connection.sendall(head + LOGIN if b"/login" in request else reply)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/api"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def formatted(error: BaseException) -> str:
    """Format an error and its causes as a traceback with local variables."""
    chain = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(chain.format()) + repr(error) + str(error)


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("number", range(len(GARBAGE)))
async def test_garbage_over_aiohttp_is_no_foreign_error(number: int) -> None:
    with raw_server(GARBAGE[number]) as url:
        async with (
            httpx.AsyncClient(transport=AiohttpTransport()) as http_client,
            FreightExchange(url, email="a@b.example", password=PASSWORD, http_client=http_client) as exchange,
        ):
            with pytest.raises(OutcomeUnknownError) as write:
                await exchange.bids.submit(4, amount=5, currency=840)
            with pytest.raises(FreightExchangeError) as read:
                await exchange.with_options(deadline=5).carriers.get(1)
    for error in (write.value, read.value):
        assert TOKEN not in formatted(error)
        assert PASSWORD not in formatted(error)


class Raising(httpx.AsyncBaseTransport):
    """Transport that accepts logins, and raises the given error with the request's headers in it."""

    def __init__(self, kind: type[Exception]) -> None:
        self._kind = kind
        self.sends = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/login"):
            return httpx.Response(200, content=LOGIN)
        self.sends += 1
        raise self._kind(f"cannot cope with {request.headers.raw}")


class OfALibrary(Exception):
    """Undocumented error of an HTTP library."""


@pytest.mark.parametrize("kind", [ValueError, KeyError, OfALibrary, AssertionError])
async def test_undocumented_error_of_a_transport(kind: type[Exception]) -> None:
    transport = Raising(kind)
    async with (
        httpx.AsyncClient(transport=transport) as http_client,
        FreightExchange(
            "https://host.example/api", email="a@b.example", password=PASSWORD, http_client=http_client
        ) as fx,
    ):
        with pytest.raises(OutcomeUnknownError, match=kind.__name__) as write:
            await fx.bids.submit(4, amount=5, currency=840)
        assert transport.sends == 1
        with pytest.raises(TransportError, match=rf"{kind.__name__} in test_foreign_errors.py, line \d+") as read:
            await fx.carriers.get(1)
        # A builtin type is a bug, which no retry solves.
        assert transport.sends == (4 if kind is OfALibrary else 2)
    assert TOKEN not in formatted(write.value) + formatted(read.value)


BID = json.dumps({"bid": {"index": 4, "offer": {"index": 9, "offerAmount": 5, "currencyIndex": 840}}}).encode()


def service(answers: list[bytes], hook: Callable[[httpx.Response], Awaitable[None]]) -> httpx.AsyncClient:
    """Make a client with an event hook. Its service gives one of these answers to each request except logins."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=LOGIN if request.url.path.endswith("/login") else answers.pop(0))

    return httpx.AsyncClient(transport=httpx.MockTransport(answer), event_hooks={"response": [hook]})


@pytest.mark.parametrize("status", [400, 401, 404, 429])
async def test_status_of_a_request_that_an_event_hook_makes_proves_nothing_about_the_write(status: int) -> None:
    beside = httpx.MockTransport(lambda _: httpx.Response(status, headers={"Retry-After": "0"}))

    async def count(response: httpx.Response) -> None:
        if response.request.url.path.endswith("/submitoffer"):
            async with httpx.AsyncClient(transport=beside) as other:
                (await other.get("https://metrics.example/")).raise_for_status()

    answers = [BID, BID]
    async with (
        service(answers, count) as http_client,
        FreightExchange(
            "https://host.example/api", email="a@b.example", password=PASSWORD, http_client=http_client
        ) as exchange,
    ):
        with pytest.raises(OutcomeUnknownError, match="HTTPStatusError"):
            await exchange.bids.submit(4, amount=5, currency=840)
    assert answers == [BID]


@pytest.mark.parametrize("reads", [False, True])
async def test_event_hook_that_raises_leaves_outcome_of_a_write_unknown(reads: bool) -> None:
    async def check(response: httpx.Response) -> None:
        if response.request.url.path.endswith("/approveoffer"):
            if reads:
                await response.aread()
            raise httpx.HTTPStatusError("no", request=response.request, response=response)

    async with (
        service([b'{"error": "not yours"}'], check) as http_client,
        FreightExchange(
            "https://host.example/api", email="a@b.example", password=PASSWORD, http_client=http_client
        ) as exchange,
    ):
        with pytest.raises(OutcomeUnknownError):
            await exchange.offers.decline(3)


async def test_status_error_of_no_request_is_a_doubt() -> None:
    async def refuse(response: httpx.Response) -> None:
        if response.request.url.path.endswith("/submitoffer"):
            raise httpx.HTTPStatusError("no", request=response.request, response=httpx.Response(400))

    async with (
        service([BID], refuse) as http_client,
        FreightExchange(
            "https://host.example/api", email="a@b.example", password=PASSWORD, http_client=http_client
        ) as exchange,
    ):
        with pytest.raises(OutcomeUnknownError):
            await exchange.bids.submit(4, amount=5, currency=840)
