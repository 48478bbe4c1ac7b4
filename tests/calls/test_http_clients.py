"""Tests of a caller's own HTTP client: httpx, httpx2, httpx over aiohttp, HTTP/2, and transports with flaws."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from types import ModuleType
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from httpx_aiohttp import HttpxAiohttpClient
from tests.calls.servers import serving_h2
from tests.calls.support import (
    BRISK,
    EMAIL,
    LOGGED_IN,
    PASSWORD,
    REQUEST,
    URL,
    CallResult,
    Kind,
    Next,
    arm,
    call_result,
    is_on_asyncio,
    outcome,
    patient,
    perform,
    served,
    stocked,
)

from freight_exchange import (
    APIStatusError,
    DeadlineExceededError,
    FreightExchange,
    OutcomeUnknownError,
    Request,
    Response,
    Timeouts,
)
from freight_exchange.testing import Sandbox

CLIENTS: dict[str, Callable[..., Any]] = {
    "httpx": httpx.AsyncClient,
    "httpx2": httpx2.AsyncClient,
    "aiohttp": HttpxAiohttpClient,
}
BID = {"bid": {"index": 4, "offer": {"index": 9, "offerAmount": 5, "currencyIndex": 840, "status": "pending"}}}


@contextlib.asynccontextmanager
async def sending_through(library: str, sandbox: Sandbox, **options: Any) -> AsyncIterator[FreightExchange]:
    """Serve the sandbox, and create a client over a caller's HTTP client. aiohttp runs on asyncio alone."""
    if library == "aiohttp" and not is_on_asyncio():
        library = "httpx"
    settings = {"retries": BRISK, **options}
    async with (
        served(sandbox) as face,
        CLIENTS[library](trust_env=False) as http_client,
        patient(sandbox, url=face.url, http_client=http_client, **settings) as exchange,
    ):
        yield exchange


# The same cases for each library.


@pytest.mark.parametrize("library", CLIENTS)
@pytest.mark.parametrize(
    ("fault", "write", "read"),
    [
        ("reset_after_send", CallResult("OutcomeUnknownError", 1, 0), CallResult("ok", 2, 1)),
        ("reset_after_processing", CallResult("OutcomeUnknownError", 1, 1), CallResult("ok", 2, 2)),
        ("truncated_length", CallResult("OutcomeUnknownError", 1, 1), CallResult("ok", 2, 2)),
        ("server_error", CallResult("OutcomeUnknownError", 1, 0), CallResult("ok", 2, 1)),
        ("redirect", CallResult("OutcomeUnknownError", 1, 0), CallResult("APIStatusError", 1, 0)),
        ("gzip_bomb", CallResult("OutcomeUnknownError", 1, 1), CallResult("ok", 2, 2)),
    ],
)
async def test_fault_has_its_documented_effect(library: str, fault: str, write: CallResult, read: CallResult) -> None:
    sandbox = stocked()
    async with sending_through(library, sandbox) as exchange:
        await exchange.login()
        for kind, expected in ((Kind.WRITE, write), (Kind.READ, read)):
            arm(sandbox, fault, kind)
            assert await call_result(sandbox, exchange, kind) == expected
    assert len(sandbox.audit_log.offers) == write.processed


@pytest.mark.parametrize("library", CLIENTS)
async def test_client_of_the_caller_is_never_closed(library: str) -> None:
    sandbox = stocked()
    if library == "aiohttp" and not is_on_asyncio():
        library = "httpx"
    async with served(sandbox) as face, CLIENTS[library](trust_env=False) as http_client:
        for _ in range(2):
            async with patient(sandbox, url=face.url, http_client=http_client) as exchange:
                await exchange.login()
        assert not http_client.is_closed


# HTTP/2


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_http_2_write_that_is_cut_is_a_doubt_and_a_read_is_repeated(library: ModuleType) -> None:
    received: list[str] = []

    def answer(path: str) -> tuple[int, dict[str, str], bytes] | None:
        received.append(path)
        if path == "quote/submitoffer" or received.count("quote/getrequests") == 1:
            return None if path != "login" else (200, {}, json.dumps(LOGGED_IN).encode())
        found = {"raterequests": [{"index": REQUEST}]} if path != "login" else LOGGED_IN
        return 200, {"content-type": "application/json"}, json.dumps(found).encode()

    async with (
        serving_h2(answer) as (url, trusting),
        library.AsyncClient(trust_env=False, http2=True, verify=trusting) as http_client,
        FreightExchange(url, email=EMAIL, password=PASSWORD, http_client=http_client, retries=BRISK) as exchange,
    ):
        with pytest.raises(OutcomeUnknownError):
            await perform(exchange, Kind.WRITE)
        assert await outcome(exchange, Kind.READ) == "ok"
    assert received.count("quote/submitoffer") == 1
    assert received.count("quote/getrequests") == 2


# A transport's word proves nothing

FAILURES = ["ConnectError", "ConnectTimeout", "PoolTimeout", "ReadError", "WriteError", "InvalidURL", "ProxyError"]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_transport_without_a_trace_never_has_proof(failure: str, library: Any) -> None:
    """The write is carried out. aiohttp reports a reset after the send as a failed connection."""
    sandbox = stocked()
    passing = sandbox.transport(library)

    class Blind(library.AsyncBaseTransport):  # type: ignore[misc]  # the library is a parameter
        async def handle_async_request(self, request: Any) -> Any:
            request.extensions.pop("trace", None)
            response = await passing.handle_async_request(request)
            if request.url.path.endswith(Kind.WRITE.value):
                await response.aread()
                raise getattr(library, failure)("CERTIFICATE_VERIFY_FAILED, and nothing was sent")
            return response

    http_client = library.AsyncClient(transport=Blind())
    async with patient(sandbox, http_client=http_client, retries=BRISK) as exchange:
        with pytest.raises(OutcomeUnknownError) as caught:
            await perform(exchange, Kind.WRITE)
    assert caught.value.attempts == 1
    assert len(sandbox.audit_log.offers) == 1


class Scripted(httpx.AsyncBaseTransport):
    """Transport that logs in, and hands every other request to a function."""

    def __init__(self, answer: Callable[[httpx.Request], Awaitable[httpx.Response]]) -> None:
        self._answer = answer
        self.sent = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/login"):
            return httpx.Response(200, json=LOGGED_IN)
        self.sent += 1
        return await self._answer(request)


def over(transport: httpx.AsyncBaseTransport, **options: Any) -> FreightExchange:
    event_hooks = options.pop("event_hooks", None)
    http_client = httpx.AsyncClient(transport=transport, event_hooks=event_hooks)
    return FreightExchange(URL, email=EMAIL, password=PASSWORD, http_client=http_client, **options)


@pytest.mark.virtual_time
async def test_write_past_its_deadline_over_a_transport_without_a_trace_is_a_doubt() -> None:
    async def hang(_: httpx.Request) -> httpx.Response:
        await anyio.sleep_forever()
        raise AssertionError

    transport = Scripted(hang)
    async with over(transport, deadline=5) as exchange:
        await exchange.login()
        with pytest.raises(OutcomeUnknownError):
            await perform(exchange, Kind.WRITE)
    assert transport.sent == 1


@pytest.mark.virtual_time
async def test_transport_that_is_stopped_and_turns_to_another_way_leaves_a_doubt() -> None:
    async def stubborn(request: httpx.Request) -> httpx.Response:
        await anyio.sleep(0.3)
        with contextlib.suppress(Exception):
            await request.extensions["trace"]("http11.send_request_headers.started", {"request": request})
        raise httpx.ReadError("the other way broke off")

    transport = Scripted(stubborn)
    async with over(transport, deadline=0.35) as exchange:
        await exchange.login()
        with pytest.raises(OutcomeUnknownError):
            await perform(exchange, Kind.WRITE)
    assert transport.sent == 1


@pytest.mark.both_backends
@pytest.mark.virtual_time
async def test_write_whose_caller_has_left_while_it_connects_is_never_sent() -> None:
    """On asyncio the request goes on in a task of its own."""
    begun: list[httpx.Request] = []

    async def connect(request: httpx.Request) -> httpx.Response:
        trace = request.extensions["trace"]
        await trace("connection.connect_tcp.started", {})
        await anyio.sleep(1)
        await trace("http11.send_request_headers.started", {"request": request})
        begun.append(request)
        return httpx.Response(200, json={"bid": {"index": REQUEST, "offer": {"index": 9}}})

    async with over(Scripted(connect)) as exchange:
        await exchange.login()
        with anyio.move_on_after(0.5):
            await perform(exchange, Kind.WRITE)
        await anyio.sleep(5)
        assert begun == []
        await perform(exchange, Kind.WRITE)
    assert len(begun) == 1


# Event hooks of the caller's client


@pytest.mark.parametrize("status", [400, 401, 404, 429])
@pytest.mark.parametrize("beside", [False, True], ids=["of-no-request", "of-another-request"])
async def test_status_error_of_an_event_hook_proves_nothing_about_the_write(status: int, beside: bool) -> None:
    metrics = httpx.MockTransport(lambda _: httpx.Response(status, headers={"Retry-After": "0"}))

    async def count(response: httpx.Response) -> None:
        if not response.request.url.path.endswith(Kind.WRITE.value):
            return
        if beside:
            async with httpx.AsyncClient(transport=metrics) as other:
                (await other.get("https://metrics.example/")).raise_for_status()
        raise httpx.HTTPStatusError("no", request=response.request, response=httpx.Response(status))

    async def good(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=BID)

    transport = Scripted(good)
    async with over(transport, event_hooks={"response": [count]}) as exchange:
        with pytest.raises(OutcomeUnknownError):
            await exchange.bids.submit(4, amount=5, currency=840)
    assert transport.sent == 1


# What is used of the caller's client, and what is not


@pytest.mark.parametrize("kind", list(Kind))
async def test_no_credential_follows_a_redirect(kind: Kind) -> None:
    """The caller's client follows redirects, keeps cookies and authenticates by itself."""
    sandbox = stocked()
    inner = sandbox.transport()
    requests: list[httpx.Request] = []

    class Watching(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            requests.append(request)
            return await inner.handle_async_request(request)

    arm(sandbox, "login_redirect" if kind is Kind.LOGIN else "redirect", kind)
    http_client = httpx.AsyncClient(
        transport=Watching(),
        follow_redirects=True,
        auth=("someone", "else"),
        headers={"X-Theirs": "1"},
        cookies={"c": "1"},
        params={"p": "1"},
    )
    async with patient(sandbox, http_client=http_client) as exchange:
        with pytest.raises(OutcomeUnknownError if kind is Kind.WRITE else APIStatusError):
            await perform(exchange, kind)
    assert sandbox.exchange.faults.fired
    assert {request.url.host for request in requests} == {"127.0.0.1"}
    assert {request.url.query for request in requests} == {b""}
    for request in requests:
        assert "Basic" not in request.headers.get("authorization", "")
        assert not {"x-theirs", "cookie"} & set(request.headers)


@pytest.mark.parametrize(("places", "expected"), [(20, OutcomeUnknownError), (1, DeadlineExceededError)])
async def test_pool_without_a_free_connection(places: int, expected: type[Exception]) -> None:
    """An SDK that knows the size of the pool waits outside it, and can prove that nothing was sent."""
    sandbox = stocked()
    limits = httpx.Limits(max_connections=1)
    async with (
        served(sandbox) as face,
        httpx.AsyncClient(trust_env=False, limits=limits) as http_client,
        patient(sandbox, url=face.url, http_client=http_client, max_connections=places, deadline=0.4) as exchange,
        anyio.create_task_group() as tasks,
    ):
        await exchange.with_options(deadline=20).login()
        arm(sandbox, "slow", Kind.READ, seconds=10.0)
        hogging = exchange.with_options(deadline=20, timeouts=Timeouts(read=20))
        tasks.start_soon(perform, hogging, Kind.READ)
        while not sandbox.exchange.faults.fired:  # noqa: ASYNC110 - the sandbox has no event to wait for
            await anyio.sleep(0.01)
        with pytest.raises(expected):
            await perform(exchange, Kind.WRITE)
        with pytest.raises(DeadlineExceededError):
            await perform(exchange, Kind.READ)
        tasks.cancel_scope.cancel()
    assert not sandbox.audit_log.calls_to("POST", Kind.WRITE.value)


@pytest.mark.parametrize("library", CLIENTS)
async def test_error_of_a_middleware_after_a_write_leaves_its_outcome_unknown(library: str) -> None:
    async def stumble(request: Request, call_next: Next) -> Response:
        response = await call_next(request)
        if request.path == Kind.WRITE.value:
            raise KeyError("tenant")
        return response

    sandbox = stocked()
    async with sending_through(library, sandbox, middleware=[stumble]) as exchange:
        with pytest.raises(OutcomeUnknownError) as caught:
            await perform(exchange, Kind.WRITE)
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.write is not None
    assert len(sandbox.audit_log.offers) == 1
