"""Tests of the ASGI interface, in process and under uvicorn."""

from __future__ import annotations

import signal
from typing import Any

import httpx
import pytest
from tests.unit.sandbox.faces.test_parity import LOGIN, STALLS, libraries, outcome, over_tcp, struck, timeouts_for

from freight_exchange.sandbox.core.exchange import Exchange
from freight_exchange.sandbox.faces.asgi import app, serve
from freight_exchange.sandbox.model.messages import Cut

# Where the ASGI face can do no more than say so, the reply is a 500.
UNDER_UVICORN = {
    Cut.RESET_AFTER_SEND: "RemoteProtocolError",
    Cut.RESET_AFTER_PROCESSING: "RemoteProtocolError",
    Cut.RESET_MID_REPLY: "RemoteProtocolError",
    Cut.FIN_NO_BYTES: "RemoteProtocolError",
    Cut.STALL: "ReadTimeout",
    Cut.STALL_MID_REPLY: "ReadTimeout",
    Cut.DRIP: "200",
    Cut.TRUNCATED_LENGTH: "RemoteProtocolError",
    Cut.TRUNCATED_CHUNKS: "RemoteProtocolError",
    Cut.IDLE_FIN: "200",
}


def in_asgi(exchange: Exchange, library: Any) -> Any:
    carrier = library.ASGITransport(app(exchange))
    return library.AsyncClient(base_url="http://sandbox/api/", transport=carrier)


@libraries
async def test_asgi_app_answers_without_a_server(library: Any) -> None:
    exchange = Exchange()
    async with in_asgi(exchange, library) as client:
        assert await outcome(client, library) == "200"
        assert (await client.request("GET", "carrier", params={"index": "1"}, json={"index": 2})).status_code == 401
        assert (await client.get("http://sandbox/elsewhere")).status_code == 404
    assert [call.path for call in exchange.audit_log.calls] == ["login", "carrier"]
    assert exchange.audit_log.calls[1].query == {"index": "1"}
    assert exchange.audit_log.calls[1].body


@libraries
async def test_cut_without_a_server_raises(library: Any) -> None:
    exchange = struck(Cut.RESET_AFTER_PROCESSING)
    async with in_asgi(exchange, library) as client:
        with pytest.raises(ConnectionResetError):
            await client.post("login", json=LOGIN)
    assert [call.processed for call in exchange.audit_log.calls] == [True]


@libraries
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_uvicorn_serves_the_exchange_and_leaves_signals_alone(anyio_backend: str, library: Any) -> None:
    exchange, handler = Exchange(), signal.getsignal(signal.SIGINT)
    async with serve(exchange) as url, over_tcp(url, library) as client:
        assert signal.getsignal(signal.SIGINT) is handler
        assert url.startswith("http://127.0.0.1:")
        assert url.endswith("/api")
        reply = await client.post("login", json=LOGIN)
        assert reply.json()["user"]["access_token"]
        assert (await client.request("GET", "carrier", json={"index": 2})).status_code == 401
    assert [bool(call.body) for call in exchange.audit_log.calls] == [True, True]
    with pytest.raises(httpx.ConnectError):
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get(url)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("cut", Cut)
async def test_cuts_under_uvicorn_are_performed_or_named(anyio_backend: str, cut: Cut) -> None:
    exchange = struck(cut, seconds=0.0001)
    async with serve(exchange) as url, over_tcp(url, httpx) as client:
        timeout = timeouts_for(cut if cut in UNDER_UVICORN and cut in STALLS else None, httpx)
        assert await outcome(client, httpx, timeout=timeout) == UNDER_UVICORN.get(cut, "500")
        assert await outcome(client, httpx) == "200"
    assert [fired.name for fired in exchange.faults.fired] == [cut.value]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_idle_fin_announces_connection_close(anyio_backend: str) -> None:
    async with serve(struck(Cut.IDLE_FIN)) as url, over_tcp(url, httpx) as client:
        replies = [await client.post("login", json=LOGIN) for _ in range(2)]
    assert [reply.headers.get("connection") for reply in replies] == ["close", None]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_unsupported_cut_gets_500_with_its_name(anyio_backend: str) -> None:
    async with serve(struck(Cut.GARBAGE_STATUS)) as url, over_tcp(url, httpx) as client:
        reply = await client.post("login", json=LOGIN)
    assert (reply.status_code, "garbage_status" in reply.json()["message"]) == (500, True)
