"""Tests of writes whose connection is cut after the send: unknown, and sent once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
import respx
from httpx_aiohttp import HttpxAiohttpClient
from tests.faults.connections.h2_server import serve_h2
from tests.faults.support import BRISK, CallResult, Kind, arm, call_result, patient, perform, stocked

from freight_exchange import FreightExchange, OutcomeUnknownError
from freight_exchange.testing import Sandbox
from freight_sandbox.memory import transport
from freight_sandbox.server import serve

pytestmark = pytest.mark.both_backends

Carrier = Callable[[Sandbox], AbstractAsyncContextManager[FreightExchange]]
CARRIERS: dict[str, Carrier] = {}


def carrier(make: Carrier) -> Carrier:
    CARRIERS[getattr(make, "__name__")] = make  # noqa: B009 - a Callable has no name for a type checker
    return make


@carrier
@asynccontextmanager
async def own_connections(sandbox: Sandbox) -> AsyncIterator[FreightExchange]:
    async with serve(sandbox.exchange) as face, patient(sandbox, url=face.url, retries=BRISK) as exchange:
        yield exchange


@asynccontextmanager
async def over_tcp(sandbox: Sandbox, http_client: Any) -> AsyncIterator[FreightExchange]:
    async with (
        serve(sandbox.exchange) as face,
        http_client,
        patient(sandbox, url=face.url, http_client=http_client, retries=BRISK) as exchange,
    ):
        yield exchange


@carrier
def a_callers_httpx(sandbox: Sandbox) -> AbstractAsyncContextManager[FreightExchange]:
    return over_tcp(sandbox, httpx.AsyncClient(trust_env=False))


@carrier
def a_callers_httpx2(sandbox: Sandbox) -> AbstractAsyncContextManager[FreightExchange]:
    return over_tcp(sandbox, httpx2.AsyncClient(trust_env=False))


@carrier
def httpx_over_aiohttp(sandbox: Sandbox) -> AbstractAsyncContextManager[FreightExchange]:
    return over_tcp(sandbox, HttpxAiohttpClient(trust_env=False))


@carrier
@asynccontextmanager
async def http_2(sandbox: Sandbox) -> AsyncIterator[FreightExchange]:
    async with (
        serve_h2(sandbox.exchange) as (url, trusting),
        httpx.AsyncClient(trust_env=False, http2=True, verify=trusting) as http_client,
        patient(sandbox, url=url, http_client=http_client, retries=BRISK) as exchange,
    ):
        yield exchange


@asynccontextmanager
async def in_process(sandbox: Sandbox, http_client: Any) -> AsyncIterator[FreightExchange]:
    async with http_client, patient(sandbox, http_client=http_client, retries=BRISK) as exchange:
        yield exchange


@carrier
def sandbox_in_process(sandbox: Sandbox) -> AbstractAsyncContextManager[FreightExchange]:
    return in_process(sandbox, sandbox.http_client())


@carrier
def sandbox_in_process_httpx2(sandbox: Sandbox) -> AbstractAsyncContextManager[FreightExchange]:
    mount: Any = transport(sandbox.exchange, library=httpx2, clock=sandbox.now)
    return in_process(sandbox, httpx2.AsyncClient(transport=mount))


_ON_ASYNCIO_ALONE = {"httpx_over_aiohttp"}
_EVERYWHERE = [
    pytest.param(name, backend, id=f"{name}-{backend}")
    for name in CARRIERS
    for backend in ("asyncio", "trio")
    if backend == "asyncio" or name not in _ON_ASYNCIO_ALONE
]


@pytest.mark.parametrize(("name", "anyio_backend"), _EVERYWHERE)
@pytest.mark.parametrize(("fault", "processed"), [("reset_after_send", 0), ("reset_after_processing", 1)])
async def test_a_write_cut_after_the_send(name: str, fault: str, processed: int) -> None:
    sandbox = stocked(Sandbox())
    async with CARRIERS[name](sandbox) as exchange:
        assert await call_result(sandbox, exchange, Kind.WRITE) == CallResult("ok", 1, 1)
        arm(sandbox, fault, Kind.WRITE)
        assert await call_result(sandbox, exchange, Kind.WRITE) == CallResult("OutcomeUnknownError", 1, processed)
        # A read in the same plight is simply sent again.
        arm(sandbox, fault, Kind.READ)
        assert await call_result(sandbox, exchange, Kind.READ) == CallResult("ok", 2, 1 + processed)
    assert len(sandbox.audit_log.offers) == 1 + processed


_FAILURES = [
    "ConnectError",
    "ConnectTimeout",
    "PoolTimeout",
    "ReadError",
    "ReadTimeout",
    "RemoteProtocolError",
    "WriteError",
    "WriteTimeout",
]


@pytest.mark.parametrize("failure", _FAILURES)
async def test_a_mock_proves_nothing(failure: str) -> None:
    """The client does not trust the transport's own report.

    Aiohttp reports a reset after the send as a failed connection.
    """
    sandbox = stocked(Sandbox())
    token = sandbox.exchange.token(sandbox.forwarder, sandbox.now())
    with respx.mock(base_url="https://exchange.example/api", assert_all_called=False) as router:
        router.post("/login").respond(json={"user": {"access_token": token, "expires_on": 3600}})
        submit = router.post("/quote/submitoffer").mock(side_effect=getattr(httpx, failure))
        async with patient(sandbox, url="https://exchange.example/api", retries=BRISK) as exchange:
            with pytest.raises(OutcomeUnknownError):
                await perform(exchange, Kind.WRITE)
        assert submit.call_count == 1


@pytest.mark.parametrize("failure", _FAILURES)
@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_a_transport_without_a_trace_never_has_proof(failure: str, library: Any) -> None:
    sandbox = stocked(Sandbox())
    inner = transport(sandbox.exchange, library=library, clock=sandbox.now)

    class Blind(library.AsyncBaseTransport):  # type: ignore[misc]  # the library is a parameter
        async def handle_async_request(self, request: Any) -> Any:
            request.extensions.pop("trace", None)
            response = await inner.handle_async_request(request)
            if request.url.path.endswith("/quote/submitoffer"):
                await response.aread()
                raise getattr(library, failure)("an error of a request that was carried out", request=request)
            return response

    async with in_process(sandbox, library.AsyncClient(transport=Blind())) as exchange:
        with pytest.raises(OutcomeUnknownError) as caught:
            await perform(exchange, Kind.WRITE)
    assert caught.value.attempts == 1
    assert len(sandbox.audit_log.offers) == 1
