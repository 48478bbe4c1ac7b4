"""The in-process face by itself: waiting, keeping connections, addresses, what the exchange gets to see."""

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

FOR_EVER = {"timeout": None}


@pytest.mark.virtual_time
@libraries
@pytest.mark.parametrize("cut", [Cut.POOL_EXHAUSTED, Cut.CONNECT_STALL, Cut.TLS_STALL, Cut.STALL])
async def test_a_stall_without_a_timeout_lasts_until_it_is_given_up(cut: Cut, library: Any) -> None:
    exchange = struck(cut)
    async with in_process(exchange, library) as client:
        with anyio.move_on_after(86_400) as scope:
            await ask(client, "POST", **FOR_EVER)
        assert scope.cancelled_caught
        assert [call.processed for call in exchange.audit_log.calls] == [not cut.early]
        assert await outcome(client, library) == "200"


@pytest.mark.virtual_time
@libraries
async def test_a_drip_outlasts_a_read_timeout_longer_than_its_pause(library: Any) -> None:
    async with in_process(struck(Cut.DRIP, seconds=1), library) as client:
        assert await outcome(client, library, timeout=library.Timeout(None, read=2)) == "200"
    async with in_process(struck(Cut.DRIP, seconds=2), library) as client:
        assert await outcome(client, library, timeout=library.Timeout(None, read=1)) == "ReadTimeout"


@pytest.mark.virtual_time
@libraries
async def test_a_slow_server_has_processed_what_the_client_gives_up(library: Any) -> None:
    exchange = Exchange()
    exchange.faults.add(Fault(name="slow", delay=10.0, times=2))
    async with in_process(exchange, library) as client:
        assert await outcome(client, library, timeout=library.Timeout(None, read=5)) == "ReadTimeout"
        assert await outcome(client, library, timeout=library.Timeout(None, read=20)) == "200"
    assert [call.processed for call in exchange.audit_log.calls] == [True, True]


async def connects(client: Any) -> bool:
    """Makes a call. Says whether it took a new connection."""
    trace = Trace()
    await ask(client, "POST", extensions=traced(trace))
    return NORMAL[0] in trace.names


@libraries
async def test_connections_are_kept(library: Any) -> None:
    async with in_process(Exchange(), library) as client:
        assert [await connects(client) for _ in range(3)] == [True, False, False]
        await ask(client, "POST", headers={"connection": "close"})
        assert await connects(client)
    async with in_process(Exchange(), library, keep_alive=False) as client:
        assert [await connects(client) for _ in range(2)] == [True, True]


@libraries
async def test_calls_side_by_side_have_a_connection_each(library: Any) -> None:
    exchange = Exchange()
    async with in_process(exchange, library) as client:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask, client, "POST")
        assert len(exchange.audit_log.calls) == 3
        assert not await connects(client)


@pytest.mark.virtual_time
@libraries
async def test_an_idle_fin(library: Any) -> None:
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
async def test_a_body_left_unread_costs_its_connection(library: Any) -> None:
    async with in_process(Exchange(), library) as client:
        async with client.stream("POST", "login", json=LOGIN) as reply:
            assert reply.status_code == 200
        assert await connects(client)


async def test_a_fault_is_met_once_by_calls_side_by_side() -> None:
    # The loser of the race must be handled as the plain call that it is, or must not be handled at all.
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


@libraries
async def test_what_the_exchange_gets(library: Any) -> None:
    exchange = Exchange()
    async with in_process(exchange, library, clock=lambda: 1_700_000_000.5) as client:
        await client.request("GET", "carrier", params={"index": "1", "origin": "Hong Kong"}, json={"index": 2})
    [call] = exchange.audit_log.calls
    assert (call.method, call.path, call.time) == ("GET", "carrier", 1_700_000_000.5)
    assert call.query == {"index": "1", "origin": "Hong Kong"}
    assert call.body.replace(b" ", b"") == b'{"index":2}'


@libraries
async def test_what_lies_outside_the_api_is_not_found(library: Any) -> None:
    exchange = Exchange()
    async with in_process(exchange, library) as client:
        reply = await client.get("http://sandbox/somewhere")
    assert (reply.status_code, reply.headers["content-type"]) == (404, "text/html")
    assert not exchange.audit_log.calls
    async with in_process(exchange, library, base_path="/freight/api/") as client:
        assert (await client.post("http://sandbox/freight/api/login", json=LOGIN)).status_code == 200
        assert (await client.post("http://sandbox/api/login", json=LOGIN)).status_code == 404


@libraries
async def test_a_header_that_http_forbids_is_not_sent(library: Any) -> None:
    exchange = Exchange()
    async with in_process(exchange, library) as client:
        assert await outcome(client, library, headers={"authorization": "Bearer a\nb"}) == "LocalProtocolError"
    assert not exchange.audit_log.calls


async def test_https_shakes_hands() -> None:
    trace = Trace()
    async with httpx.AsyncClient(transport=transport(Exchange())) as client:
        await client.post("https://sandbox/api/login", json=LOGIN, extensions=traced(trace))
    assert trace.names[2:4] == ["connection.start_tls.started", "connection.start_tls.complete"]
