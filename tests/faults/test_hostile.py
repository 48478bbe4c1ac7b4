"""Tests of hostile transports, hooks and servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import httpx
import pytest

from freight_exchange import (
    AuthenticationError,
    DecodeError,
    FreightExchange,
    OutcomeUnknownError,
    RetryPolicy,
    StillUnknown,
    TransportError,
)
from freight_exchange.models import SubmitOffer
from freight_exchange.testing import FAULTS, Sandbox
from freight_sandbox import Exchange
from freight_sandbox.server import serve

LOGIN = {"user": {"access_token": "token-1", "expires_on": 3600}}


def client(http_client: httpx.AsyncClient, **options: Any) -> FreightExchange:
    return FreightExchange(
        "http://127.0.0.1/api", email="a@b.example", password="pw", http_client=http_client, **options
    )


class Standby(httpx.AsyncBaseTransport):
    """Transport that falls back to another server without tracing the connection."""

    def __init__(self, *, wraps: bool = False, sends: bool = True) -> None:
        self._first = httpx.AsyncHTTPTransport()
        self._wraps = wraps
        self._sends = sends
        self.sent = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/login"):
            return httpx.Response(200, json={"user": {"access_token": "token", "expires_on": 3600}})
        try:
            return await self._first.handle_async_request(request)
        except httpx.ConnectError as error:
            if not self._sends:
                raise httpx.ConnectError("no server there") from (error if self._wraps else None)
        self.sent += 1
        raise httpx.ConnectTimeout("the standby reset the connection after the request was sent")


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize(
    ("transport", "expected"),
    [
        (Standby(), OutcomeUnknownError),
        (Standby(sends=False), OutcomeUnknownError),
        (Standby(sends=False, wraps=True), TransportError),
    ],
    ids=["sent", "unexplained", "unsent"],
)
async def test_an_error_of_connecting_counts_only_for_the_connection_that_failed(
    transport: Standby, expected: type[Exception], free_tcp_port: int
) -> None:
    http = httpx.AsyncClient(transport=transport)
    async with FreightExchange(
        f"http://127.0.0.1:{free_tcp_port}/api",
        email="a@b.example",
        password="pw",
        http_client=http,
        retries=RetryPolicy(base=0.001),
    ) as exchange:
        with pytest.raises(expected):
            await exchange.bids.submit(4, amount=5, currency=840)
    assert transport.sent <= 1


@pytest.mark.virtual_time
async def test_a_transport_that_is_stopped_and_turns_to_another_way_leaves_a_doubt() -> None:
    class Stubborn(httpx.AsyncBaseTransport):
        sent = 0

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/login"):
                return httpx.Response(200, json={"user": {"access_token": "token", "expires_on": 3600}})
            await anyio.sleep(0.3)
            with contextlib.suppress(Exception):
                await request.extensions["trace"]("http11.send_request_headers.started", {"request": request})
            self.sent += 1
            raise httpx.ReadError("the other way broke off")

    transport = Stubborn()
    http = httpx.AsyncClient(transport=transport)
    async with client(http, deadline=0.35) as exchange:
        await exchange.login()
        with pytest.raises(OutcomeUnknownError):
            await exchange.bids.submit(4, amount=5, currency=840)
    assert transport.sent == 1


async def test_a_failover_transport_that_stops_tracing_clears_no_write() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    silent = sandbox.transport()
    standing: list[str] = []

    class Failover(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if (trace := request.extensions.get("trace")) is not None:
                await trace("connection.connect_tcp.started", {})
                await trace("connection.connect_tcp.failed", {})
            request.extensions = {}
            reply = await silent.handle_async_request(request)
            if request.url.path.endswith("submitoffer"):
                standing.append("sent")
                raise httpx.ReadError("the standby broke off")
            return reply

    account = sandbox.forwarder
    http = httpx.AsyncClient(transport=Failover())
    async with FreightExchange(
        sandbox.url, email=account.email, password=account.password, http_client=http
    ) as exchange:
        with pytest.raises(OutcomeUnknownError):
            await exchange.bids.submit(request, amount=5, currency=840)
    assert standing == ["sent"]


# On trio the library's generators, which here never wait and so cannot be cancelled, are left to the collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_body_without_end_that_never_waits_is_refused() -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield b"x" * 1_000_000

    def reply(request: httpx.Request) -> httpx.Response:
        return (
            httpx.Response(200, json=LOGIN)
            if request.url.path.endswith("login")
            else httpx.Response(200, content=endless())
        )

    async with client(httpx.AsyncClient(transport=httpx.MockTransport(reply))) as exchange:
        with pytest.raises(DecodeError, match="larger"):
            await exchange.requests.get(4)
    assert read < 40


async def test_event_hooks_that_read_replies_and_raise_for_statuses() -> None:
    server = Exchange()
    index = server.publish(server.shipper, 1.8e9)

    async def look(response: httpx.Response) -> None:
        await response.aread()
        response.raise_for_status()

    async with (
        serve(server, clock=lambda: 1.8e9) as face,
        httpx.AsyncClient(event_hooks={"response": [look]}) as http,
    ):
        options: dict[str, Any] = {"email": server.forwarder.email, "password": server.forwarder.password}
        async with FreightExchange(face.url, http_client=http, **options) as exchange:
            assert (await exchange.requests.get(index)).index == index
            server.expire_tokens()
            assert (await exchange.requests.get(index)).index == index
            server.faults.add(*FAULTS["unauthorized_forever"]())
            with pytest.raises(AuthenticationError):
                await exchange.requests.get(index)


@pytest.mark.virtual_time
async def test_a_listing_without_end_leaves_doubt_in_bounded_time() -> None:
    served = 0

    async def reply(request: httpx.Request) -> httpx.Response:
        nonlocal served
        if request.url.path.endswith("login"):
            return httpx.Response(200, json=LOGIN)
        await anyio.sleep(1)
        served += 100
        rows = [{"index": served + place, "price": 5, "currencyIndex": 840} for place in range(100)]
        return httpx.Response(200, json={"bids": rows})

    async with client(httpx.AsyncClient(transport=httpx.MockTransport(reply))) as exchange:
        started = anyio.current_time()
        write = SubmitOffer(request=10**9, amount=Decimal(5), currency=840)
        found = await exchange.reconcile(write, settle=timedelta(seconds=5))
        assert isinstance(found, StillUnknown)
        assert anyio.current_time() - started <= 4 * 5 + 61


async def test_a_refusal_with_a_long_body_renews() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    refusals = 0

    class Verbose(httpx.AsyncBaseTransport):
        inner = sandbox.transport()

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            nonlocal refusals
            if not request.url.path.endswith("login") and not refusals:
                refusals += 1
                return httpx.Response(403, json={"Unauthorized": "denied", "trace": "x" * 9000})
            return await self.inner.handle_async_request(request)

    account = sandbox.forwarder
    http = httpx.AsyncClient(transport=Verbose())
    async with FreightExchange(
        sandbox.url, email=account.email, password=account.password, http_client=http
    ) as exchange:
        assert (await exchange.requests.get(request)).index == request
    assert len(sandbox.audit_log.calls_to("POST", "login")) == 2


def test_tasks_cancelled_before_their_first_step_leave_the_client_whole() -> None:
    """Some shutdown code cancels every task of the loop, as `asyncio.run` does."""

    async def main() -> int:
        sandbox = Sandbox()
        request = sandbox.publish()
        async with sandbox.client() as exchange:
            for _ in range(30):
                call = asyncio.ensure_future(exchange.requests.get(request))
                await asyncio.sleep(0)
                for task in asyncio.all_tasks() - {asyncio.current_task()}:
                    task.cancel()
                await asyncio.gather(call, return_exceptions=True)
            with anyio.fail_after(20):
                return (await exchange.requests.get(request)).index

    assert asyncio.run(main()) == 1
