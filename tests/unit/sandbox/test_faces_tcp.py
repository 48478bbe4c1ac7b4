"""The face on sockets by itself: counters, kept connections, what is not HTTP, and what it does for real."""

from __future__ import annotations

import socket

import anyio
import httpx
import pytest
from tests.unit.sandbox.test_faces_agree import LOGIN, outcome, over_tcp, settled, struck

from freight_exchange.sandbox.core import Exchange
from freight_exchange.sandbox.faults import Cut, Fault, WireFault
from freight_exchange.sandbox.tcp import TcpFace, refused_port, serve_tcp, stalled_listener

HEAD = b"GET /api/currency HTTP/1.1\r\nhost: sandbox\r\n"


def address(face: TcpFace) -> tuple[str, int]:
    return "127.0.0.1", int(face.url.rsplit(":", 1)[1].removesuffix("/api"))


async def said(face: TcpFace, *parts: bytes) -> bytes:
    """What the server says to these bytes until it closes the connection."""
    heard = b""
    async with await anyio.connect_tcp(*address(face)) as stream:
        for part in parts:
            await stream.send(part)
        try:
            while True:
                heard += await stream.receive()
        except anyio.EndOfStream:
            return heard


async def test_counters() -> None:
    exchange = Exchange()
    async with serve_tcp(exchange) as face:
        async with over_tcp(face.url, httpx) as client:
            for _ in range(3):
                assert await outcome(client, httpx) == "200"
            assert (face.connections, face.open_connections, face.requests) == (1, 1, 3)
        await settled(lambda: face.open_connections == 0)
        async with over_tcp(face.url, httpx) as client:
            assert await outcome(client, httpx, headers={"connection": "close"}) == "200"
            await settled(lambda: face.open_connections == 0)
        assert (face.connections, face.requests) == (2, 4)
    assert len(exchange.truth.calls) == 4


async def test_requests_in_one_packet_are_answered_one_by_one() -> None:
    exchange = Exchange()
    async with serve_tcp(exchange) as face:
        heard = await said(face, (HEAD + b"\r\n") * 2 + HEAD + b"connection: close\r\n\r\n")
    assert heard.count(b"HTTP/1.1 401 Unauthorized\r\n") == 3
    assert len(exchange.truth.calls) == 3


async def test_a_request_in_pieces() -> None:
    exchange = Exchange()
    head = HEAD + b"connection: close\r\ncontent-length: 11\r\n\r\n"
    async with serve_tcp(exchange) as face:
        await said(face, head[:30], head[30:], b'{"index"', b":2}")
    assert [call.body for call in exchange.truth.calls] == [b'{"index":2}']


async def test_what_is_not_http_is_refused() -> None:
    exchange = Exchange()
    async with serve_tcp(exchange) as face:
        assert (await said(face, b"\x16\x03\x01\r\n\r\n")).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert (await said(face, b"GET / HTTP/1.1\r\nconnection: close\r\nhost: x\r\n\r\n")).startswith(
            b"HTTP/1.1 404 "
        )
    assert not exchange.truth.calls


async def test_half_a_request_is_none() -> None:
    exchange = Exchange()
    async with serve_tcp(exchange) as face:
        async with await anyio.connect_tcp(*address(face)) as stream:
            await stream.send(HEAD + b"content-length: 10\r\n\r\nhalf")
        await settled(lambda: face.connections == 1 and not face.open_connections)
    assert not exchange.truth.calls


async def test_a_connection_that_closes_openly_costs_nothing() -> None:
    exchange = Exchange()
    exchange.faults.add(Fault(name="idle", wire=WireFault(Cut.IDLE_FIN, seconds=0.01)))
    async with serve_tcp(exchange) as face, over_tcp(face.url, httpx) as client:
        assert await outcome(client, httpx) == "200"
        await settled(lambda: not face.open_connections)
        assert await outcome(client, httpx) == "200"
        assert face.connections == 2


@pytest.mark.parametrize("cut", [Cut.RESET_BEFORE_HEADERS, Cut.RESET_MID_BODY])
async def test_a_reset_does_not_wait_for_the_body(cut: Cut) -> None:
    exchange = struck(cut)
    async with serve_tcp(exchange) as face, await anyio.connect_tcp(*address(face)) as stream:
        await stream.send(HEAD + b"content-length: 1000\r\n\r\n")
        with pytest.raises(anyio.BrokenResourceError):
            await stream.receive()
    assert [call.processed for call in exchange.truth.calls] == [False]


async def test_bytes_drip_one_by_one() -> None:
    async with (
        serve_tcp(struck(Cut.DRIP, seconds=0.001)) as face,
        await anyio.connect_tcp(*address(face)) as stream,
    ):
        await stream.send(HEAD + b"\r\n")
        assert await stream.receive(1_000) == b"H"


async def test_leaving_ends_what_stalls() -> None:
    with anyio.fail_after(5):
        async with serve_tcp(struck(Cut.STALL)) as face, await anyio.connect_tcp(*address(face)) as stream:
            await stream.send(HEAD + b"\r\n")
            await settled(lambda: face.requests)


async def test_ports_without_a_server() -> None:
    with refused_port() as port, socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.1", port))
    with stalled_listener() as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"anyone?")
            with anyio.move_on_after(0.05) as scope:
                await stream.receive()
            assert scope.cancelled_caught


async def test_many_connections_at_once() -> None:
    exchange = Exchange()
    async with serve_tcp(exchange) as face:
        async with (
            httpx.AsyncClient(trust_env=False, timeout=30) as client,
            anyio.create_task_group() as tasks,
        ):
            for _ in range(50):
                tasks.start_soon(lambda: client.post(face.url + "/login", json=LOGIN))
        await settled(lambda: face.open_connections == 0)
    assert len(exchange.truth.calls) == 50
