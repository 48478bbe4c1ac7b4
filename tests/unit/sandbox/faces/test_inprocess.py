"""Tests of the in-process interface: timeouts, connection reuse, addresses, and the requests of the exchange."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest
from tests.unit.sandbox.faces.test_parity import LOGIN, ask, in_process, libraries, outcome, struck
from tests.unit.sandbox.faces.test_simulated_request import NORMAL, Trace, traced

from freight_exchange.sandbox.core.exchange import Exchange
from freight_exchange.sandbox.faces.inprocess import transport
from freight_exchange.sandbox.faults.script import Fault
from freight_exchange.sandbox.model.messages import Cut, WireFault

pytestmark = pytest.mark.both_backends

NO_TIMEOUT = {"timeout": None}


@pytest.mark.virtual_time
@libraries
@pytest.mark.parametrize("cut", [Cut.POOL_EXHAUSTED, Cut.CONNECT_STALL, Cut.TLS_STALL, Cut.STALL])
async def test_stall_without_timeout_lasts_until_cancelled(cut: Cut, library: Any) -> None:
    exchange = struck(cut)
    async with in_process(exchange, library) as client:
        with anyio.move_on_after(86_400) as scope:
            await ask(client, "POST", **NO_TIMEOUT)
        assert scope.cancelled_caught
        assert [call.processed for call in exchange.audit_log.calls] == [not cut.early]
        assert await outcome(client, library) == "200"


@pytest.mark.virtual_time
async def test_drip_times_out_only_if_its_pause_exceeds_the_read_timeout() -> None:
    async with in_process(struck(Cut.DRIP, seconds=1), httpx) as client:
        assert await outcome(client, httpx, timeout=httpx.Timeout(None, read=2)) == "200"
    async with in_process(struck(Cut.DRIP, seconds=2), httpx) as client:
        assert await outcome(client, httpx, timeout=httpx.Timeout(None, read=1)) == "ReadTimeout"


@pytest.mark.virtual_time
async def test_call_that_times_out_is_still_processed() -> None:
    exchange = Exchange()
    exchange.faults.add(Fault(name="slow", delay=10.0, times=2))
    async with in_process(exchange, httpx) as client:
        assert await outcome(client, httpx, timeout=httpx.Timeout(None, read=5)) == "ReadTimeout"
        assert await outcome(client, httpx, timeout=httpx.Timeout(None, read=20)) == "200"
    assert [call.processed for call in exchange.audit_log.calls] == [True, True]


async def connects(client: Any) -> bool:
    """Make a call, and return whether it opened a connection."""
    trace = Trace()
    await ask(client, "POST", extensions=traced(trace))
    return NORMAL[0] in trace.names


@libraries
async def test_connections_are_reused(library: Any) -> None:
    async with in_process(Exchange(), library) as client:
        assert [await connects(client) for _ in range(3)] == [True, False, False]
        await ask(client, "POST", headers={"connection": "close"})
        assert await connects(client)
    async with in_process(Exchange(), library, keep_alive=False) as client:
        assert [await connects(client) for _ in range(2)] == [True, True]


async def test_concurrent_calls_use_separate_connections() -> None:
    exchange = Exchange()
    async with in_process(exchange, httpx) as client:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask, client, "POST")
        assert len(exchange.audit_log.calls) == 3
        assert not await connects(client)


@pytest.mark.virtual_time
@libraries
async def test_idle_fin_loses_the_next_call_or_closes_after_its_time(library: Any) -> None:
    exchange = struck(Cut.IDLE_FIN)
    async with in_process(exchange, library) as client:
        ends = [await outcome(client, library) for _ in range(3)]
    assert ends == ["200", "RemoteProtocolError", "200"]
    assert len(exchange.audit_log.calls) == 2

    exchange = Exchange()
    exchange.faults.add(Fault(name="idle", wire=WireFault(Cut.IDLE_FIN, seconds=10), times=None))
    async with in_process(exchange, library) as client:
        assert await connects(client)
        await anyio.sleep(9)
        assert not await connects(client)
        await anyio.sleep(11)
        assert await connects(client)


@libraries
async def test_unread_body_closes_its_connection(library: Any) -> None:
    async with in_process(Exchange(), library) as client:
        async with client.stream("POST", "login", json=LOGIN) as reply:
            assert reply.status_code == 200
        assert await connects(client)


async def test_concurrent_calls_meet_a_fault_once() -> None:
    # A call that loses the race for the fault is handled as a plain call.
    exchange = struck(Cut.REFUSED)
    ends: list[str] = []
    async with in_process(exchange, httpx) as client:

        async def call() -> None:
            ends.append(await outcome(client, httpx))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(call)
    assert sorted(ends) == ["200", "200", "200", "ConnectError"]
    assert sorted(call.processed for call in exchange.audit_log.calls) == [False, True, True, True]


async def test_exchange_receives_path_query_body_and_time() -> None:
    exchange = Exchange()
    async with in_process(exchange, httpx, clock=lambda: 1_700_000_000.5) as client:
        await client.request("GET", "carrier", params={"index": "1", "origin": "Hong Kong"}, json={"index": 2})
    [call] = exchange.audit_log.calls
    assert (call.method, call.path, call.time) == ("GET", "carrier", 1_700_000_000.5)
    assert call.query == {"index": "1", "origin": "Hong Kong"}
    assert call.body.replace(b" ", b"") == b'{"index":2}'


async def test_path_outside_the_api_gets_404() -> None:
    exchange = Exchange()
    async with in_process(exchange, httpx) as client:
        reply = await client.get("http://sandbox/somewhere")
    assert (reply.status_code, reply.headers["content-type"]) == (404, "text/html")
    assert not exchange.audit_log.calls
    async with in_process(exchange, httpx, base_path="/freight/api/") as client:
        assert (await client.post("http://sandbox/freight/api/login", json=LOGIN)).status_code == 200
        assert (await client.post("http://sandbox/api/login", json=LOGIN)).status_code == 404


@libraries
async def test_illegal_header_value_is_not_sent(library: Any) -> None:
    exchange = Exchange()
    async with in_process(exchange, library) as client:
        assert await outcome(client, library, headers={"authorization": "Bearer a\nb"}) == "LocalProtocolError"
    assert not exchange.audit_log.calls


async def test_https_traces_a_tls_handshake() -> None:
    trace = Trace()
    async with httpx.AsyncClient(transport=transport(Exchange())) as client:
        await client.post("https://sandbox/api/login", json=LOGIN, extensions=traced(trace))
    assert trace.names[2:4] == ["connection.start_tls.started", "connection.start_tls.complete"]
