"""Tests of hooks and middleware that fail: no write is sent twice, or reported as not sent."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import httpx2
import pytest

from freight_exchange import FreightExchange, OutcomeUnknownError, Request, Response, TransportError
from freight_exchange.hooks import Attempt, Event, Hook
from freight_exchange.testing import FAULTS, Sandbox
from freight_exchange.transport.call import Middleware, Next, RequestKind

SUBMIT = "quote/submitoffer"


def client(sandbox: Sandbox, *, middleware: Middleware | None = None, hook: Hook | None = None,
           http_client: Any = None, deadline: float = 60) -> FreightExchange:  # fmt: skip
    return FreightExchange(
        sandbox.url,
        email=sandbox.forwarder.email,
        password=sandbox.forwarder.password,
        http_client=sandbox.http_client() if http_client is None else http_client,
        middleware=[] if middleware is None else [middleware],
        hooks=[] if hook is None else [hook],
        deadline=deadline,
    )


async def offer(exchange: FreightExchange, request: int) -> None:
    async with exchange:
        await exchange.bids.submit(request, amount=1840, currency=840)


async def test_hook_that_raises_an_error_of_this_package_changes_no_outcome() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()

    def report(event: Event) -> None:
        if isinstance(event, Attempt) and event.path == SUBMIT:
            raise TransportError("the metrics sink is down", unsent=True)

    await offer(client(sandbox, hook=report), request)
    assert len(sandbox.audit_log.offers_on(request)) == 1


@pytest.mark.virtual_time
async def test_hook_that_hangs_past_the_deadline_changes_no_outcome() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()

    async def hang(event: Event) -> None:
        if isinstance(event, Attempt) and event.path == SUBMIT:
            await anyio.sleep_forever()

    async with client(sandbox, hook=hang) as exchange:
        await exchange.login()
        currency = await exchange.currencies.by_code("USD")
        quick = exchange.with_options(deadline=2)
        began = anyio.current_time()
        bid = await quick.bids.submit(request, amount=1840, currency=currency)
        assert bid.amount == 1840
        assert anyio.current_time() - began == pytest.approx(2)
    assert len(sandbox.audit_log.offers_on(request)) == 1


async def test_bug_of_a_middleware_beside_a_write_is_a_doubt() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()

    async def stumble(request: Request, call_next: Next) -> Response:
        response = await call_next(request)
        if request.path == SUBMIT:
            raise KeyError("tenant")
        return response

    with pytest.raises(OutcomeUnknownError, match="KeyError") as caught:
        await offer(client(sandbox, middleware=stumble), request)
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.write is not None
    assert len(sandbox.audit_log.offers_on(request)) == 1


@pytest.mark.parametrize("settled", [False, True])
async def test_a_middleware_cannot_talk_a_write_undone(settled: bool) -> None:
    sandbox = Sandbox()
    request = sandbox.publish()

    async def lie(request: Request, call_next: Next) -> Response:
        response = await call_next(request)
        if request.path == SUBMIT:
            error = TransportError("nothing was sent, honestly", unsent=True)
            error.settled = settled
            raise error
        return response

    with pytest.raises(OutcomeUnknownError):
        await offer(client(sandbox, middleware=lie), request)
    assert len(sandbox.audit_log.offers_on(request)) == 1


async def test_a_middleware_that_returns_nothing_after_the_send_does_not_undo_it() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()

    async def forgetful(request: Request, call_next: Next) -> Any:
        response = await call_next(request)
        return response if request.path != SUBMIT else None

    with pytest.raises(OutcomeUnknownError, match=r"the middleware .*forgetful must be async and return a Response"):
        await offer(client(sandbox, middleware=forgetful), request)
    assert len(sandbox.audit_log.offers_on(request)) == 1


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
@pytest.mark.parametrize(
    ("name", "words"),
    [("InvalidURL", "no URL"), ("UnsupportedProtocol", "no scheme"), ("ConnectError", "CERTIFICATE_VERIFY_FAILED")],
)
async def test_error_of_a_transport_without_trace_leaves_a_write_in_doubt(library: Any, name: str, words: str) -> None:
    """The transport sends the request before it raises a connection error."""
    sandbox = Sandbox()
    request = sandbox.publish()
    passing = sandbox.transport(library)

    class Silent(library.AsyncBaseTransport):  # type: ignore[misc]  # the library is a parameter
        async def handle_async_request(self, request: Any) -> Any:
            request.extensions.pop("trace", None)
            response = await passing.handle_async_request(request)
            if request.url.path.endswith(SUBMIT):
                raise getattr(library, name)(words)
            return response

    async with library.AsyncClient(transport=Silent()) as http_client:
        with pytest.raises(OutcomeUnknownError):
            await offer(client(sandbox, http_client=http_client), request)
    assert len(sandbox.audit_log.offers_on(request)) == 1


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", [RequestKind.WRITE, RequestKind.READ])
async def test_request_that_a_middleware_makes_anew_counts_as_the_original(kind: RequestKind) -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    sandbox.strike(*FAULTS["stall"](path=SUBMIT, processed=True, times=None))

    async def rebuild(request: Request, call_next: Next) -> Response:
        if request.path != SUBMIT:
            return await call_next(request)
        return await call_next(
            Request(
                method=request.method, path=request.path, kind=kind, timeouts=request.timeouts, content=request.content
            )
        )

    with pytest.raises(OutcomeUnknownError):
        await offer(client(sandbox, middleware=rebuild, deadline=5), request)
    assert len(sandbox.audit_log.offers_on(request)) == 1


@pytest.mark.virtual_time
async def test_a_deadline_bounds_the_look_up_of_a_currency_and_the_offer_together() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    sandbox.strike(*FAULTS["slow"](path="currency", seconds=4), *FAULTS["slow"](path=SUBMIT, seconds=4))
    started = anyio.current_time()
    async with client(sandbox, deadline=5) as exchange:
        with pytest.raises(OutcomeUnknownError):
            await exchange.bids.submit(request, amount=1840, currency="USD")
        assert anyio.current_time() - started == pytest.approx(5)


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
async def test_a_callers_http_client_is_never_closed(library: str) -> None:
    sandbox = Sandbox()
    module = pytest.importorskip(library)
    http_client = module.AsyncClient(transport=sandbox.transport(module))
    exchange = FreightExchange(
        sandbox.url, email=sandbox.forwarder.email, password=sandbox.forwarder.password, http_client=http_client
    )
    async with exchange:
        await exchange.login()
    assert not http_client.is_closed
    await http_client.aclose()
