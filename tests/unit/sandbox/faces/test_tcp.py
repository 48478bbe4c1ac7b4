"""Tests of the socket interface: counters, kept connections, invalid HTTP, and real effects."""

from __future__ import annotations

import errno
import logging
import re
import socket
from collections.abc import Iterator
from contextlib import suppress

import anyio
import httpx
import pytest
from tests.unit.sandbox.faces.test_parity import LOGIN, outcome, over_tcp, settled, struck

from freight_exchange.sandbox.core.exchange import Exchange
from freight_exchange.sandbox.core.state_file import StateError
from freight_exchange.sandbox.faces.tcp import TcpFace, refused_port, serve_tcp, stalled_listener
from freight_exchange.sandbox.faces.tcp_server import LOGGER, MAX_BODY
from freight_exchange.sandbox.faults.script import Fault, FaultScript
from freight_exchange.sandbox.model.messages import Call, Cut, Reply, WireFault

pytestmark = pytest.mark.both_backends

HEAD = b"GET /api/currency HTTP/1.1\r\nhost: sandbox\r\n"


def address(face: TcpFace) -> tuple[str, int]:
    return "127.0.0.1", int(face.url.rsplit(":", 1)[1].removesuffix("/api"))


async def exchange_bytes(face: TcpFace, *parts: bytes) -> bytes:
    """Send these bytes, and return the server's reply until it closes the connection."""
    received = b""
    async with await anyio.connect_tcp(*address(face)) as stream:
        for part in parts:
            await stream.send(part)
        try:
            while True:
                received += await stream.receive()
        except anyio.EndOfStream:
            return received


async def test_counters_of_connections_and_requests() -> None:
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
    assert len(exchange.audit_log.calls) == 4


async def test_pipelined_requests_are_answered_in_order() -> None:
    exchange = Exchange()
    async with serve_tcp(exchange) as face:
        received = await exchange_bytes(face, (HEAD + b"\r\n") * 2 + HEAD + b"connection: close\r\n\r\n")
    assert received.count(b"HTTP/1.1 401 Unauthorized\r\n") == 3
    assert len(exchange.audit_log.calls) == 3


async def test_request_in_several_packets_is_one_call() -> None:
    exchange = Exchange()
    head = HEAD + b"connection: close\r\ncontent-length: 11\r\n\r\n"
    async with serve_tcp(exchange) as face:
        await exchange_bytes(face, head[:30], head[30:], b'{"index"', b":2}")
    assert [call.body for call in exchange.audit_log.calls] == [b'{"index":2}']


@pytest.mark.parametrize(("more", "status"), [(0, 401), (1, 413)])
async def test_body_over_the_limit_gets_413(more: int, status: int) -> None:
    """The rest of the body is read, so that the reply arrives, and is not stored."""
    exchange = Exchange()
    async with serve_tcp(exchange) as face, over_tcp(face.url, httpx) as client:
        assert (await client.post("currency", content=b"x" * (MAX_BODY + more))).status_code == status
        assert await outcome(client, httpx) == "200"
        assert face.connections == 1
    assert [call.path for call in exchange.audit_log.calls] == ["currency", "login"][more:]


async def test_bytes_that_are_not_http_get_400() -> None:
    exchange = Exchange()
    async with serve_tcp(exchange) as face:
        assert (await exchange_bytes(face, b"\x16\x03\x01\r\n\r\n")).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert (await exchange_bytes(face, b"GET / HTTP/1.1\r\nconnection: close\r\nhost: x\r\n\r\n")).startswith(
            b"HTTP/1.1 404 "
        )
    assert not exchange.audit_log.calls


async def test_incomplete_request_is_no_call() -> None:
    exchange = Exchange()
    async with serve_tcp(exchange) as face:
        async with await anyio.connect_tcp(*address(face)) as stream:
            await stream.send(HEAD + b"content-length: 10\r\n\r\nhalf")
        await settled(lambda: face.connections == 1 and not face.open_connections)
    assert not exchange.audit_log.calls


async def test_connection_closed_while_idle_is_replaced() -> None:
    exchange = Exchange()
    exchange.faults.add(Fault(name="idle", wire=WireFault(Cut.IDLE_FIN, seconds=0.01)))
    async with serve_tcp(exchange) as face, over_tcp(face.url, httpx) as client:
        assert await outcome(client, httpx) == "200"
        await settled(lambda: not face.open_connections)
        assert await outcome(client, httpx) == "200"
        assert face.connections == 2


@pytest.mark.parametrize("cut", [Cut.RESET_BEFORE_HEADERS, Cut.RESET_MID_BODY])
async def test_reset_does_not_wait_for_the_body(cut: Cut) -> None:
    exchange = struck(cut)
    async with serve_tcp(exchange) as face, await anyio.connect_tcp(*address(face)) as stream:
        await stream.send(HEAD + b"content-length: 1000\r\n\r\n")
        with pytest.raises(anyio.BrokenResourceError):
            await stream.receive()
    assert [call.processed for call in exchange.audit_log.calls] == [False]


async def test_drip_sends_single_bytes() -> None:
    async with (
        serve_tcp(struck(Cut.DRIP, seconds=0.001)) as face,
        await anyio.connect_tcp(*address(face)) as stream,
    ):
        await stream.send(HEAD + b"\r\n")
        assert await stream.receive(1_000) == b"H"


async def test_server_ends_stalled_calls_on_exit() -> None:
    with anyio.fail_after(60):
        async with serve_tcp(struck(Cut.STALL)) as face, await anyio.connect_tcp(*address(face)) as stream:
            await stream.send(HEAD + b"\r\n")
            await settled(lambda: face.requests)


async def test_refused_port_refuses_and_stalled_listener_never_answers() -> None:
    with refused_port() as port, socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.1", port))
    with stalled_listener() as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"anyone?")
            with anyio.move_on_after(0.05) as scope:
                await stream.receive()
            assert scope.cancelled_caught


async def test_fifty_concurrent_connections() -> None:
    exchange = Exchange()
    async with serve_tcp(exchange) as face:
        async with (
            httpx.AsyncClient(trust_env=False, timeout=30) as client,
            anyio.create_task_group() as tasks,
        ):
            for _ in range(50):
                tasks.start_soon(lambda: client.post(face.url + "/login", json=LOGIN))
        await settled(lambda: face.open_connections == 0)
    assert len(exchange.audit_log.calls) == 50


# What goes wrong in the server itself


@pytest.fixture
def flaws(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Return the lines that the server logs about its own bugs, which the test provokes."""
    logger = logging.getLogger(LOGGER)
    handlers, logger.handlers = logger.handlers, []
    yield caplog
    logger.handlers = handlers


class Flawed(Exchange):
    """Exchange that raises at a call to `flaw`, and at the head of one to `flaw/head`."""

    class Script(FaultScript):
        def peek(self, call: Call) -> Fault | None:
            if call.path == "flaw/head":
                raise LookupError("of a head")
            return super().peek(call)

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.faults = self.Script()
        self.error = error

    def handle(self, call: Call, now: float) -> Reply:
        if call.path == "flaw":
            raise self.error
        return super().handle(call, now)


async def broken_site(call: Call) -> Reply:
    if call.path == "board":
        await anyio.lowlevel.checkpoint()
        raise LookupError("of a page")
    return Reply(204)


async def test_exchange_error_gets_500_and_next_call_succeeds(flaws: pytest.LogCaptureFixture) -> None:
    flaw = b"POST /api/flaw?password=secret HTTP/1.1\r\nhost: sandbox\r\ncontent-length: 0\r\n\r\n"
    async with serve_tcp(Flawed(LookupError("of a call"))) as face:
        received = await exchange_bytes(face, flaw + HEAD + b"connection: close\r\n\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+) ", received) == [b"500", b"401"]
    assert b"because of a bug of its own" in received
    (record,) = flaws.records
    assert record.getMessage() == "sandbox failed on POST /api/flaw; the reply is a 500"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "of a call"


async def test_site_error_gets_500_and_next_call_succeeds(flaws: pytest.LogCaptureFixture) -> None:
    async with serve_tcp(Exchange(), site=broken_site) as face:
        page = b"GET /board HTTP/1.1\r\nhost: sandbox\r\n\r\n"
        received = await exchange_bytes(face, page + HEAD + b"connection: close\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 500 ")
    assert b"HTTP/1.1 401 " in received
    assert [record.getMessage() for record in flaws.records] == ["sandbox failed on GET /board; the reply is a 500"]


async def test_failed_connection_does_not_affect_the_next(flaws: pytest.LogCaptureFixture) -> None:
    async with serve_tcp(Flawed(LookupError())) as face:
        assert await exchange_bytes(face, b"GET /api/flaw/head HTTP/1.1\r\nhost: sandbox\r\n\r\n") == b""
        await settled(lambda: not face.open_connections)
        assert (await exchange_bytes(face, HEAD + b"connection: close\r\n\r\n")).startswith(b"HTTP/1.1 401 ")
    assert [record.getMessage() for record in flaws.records] == [
        "sandbox failed on a connection; the connection is closed"
    ]


async def test_state_error_ends_the_server() -> None:
    async def ask() -> None:
        async with serve_tcp(Flawed(StateError("no space left"))) as face:
            with suppress(anyio.BrokenResourceError):
                await exchange_bytes(face, b"GET /api/flaw HTTP/1.1\r\nhost: sandbox\r\n\r\n")
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await ask()
    assert caught.group_contains(StateError, match="no space left")


async def test_server_waits_when_file_descriptors_run_out(
    flaws: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, lacking = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files")]

    def scarce(listener: socket.socket) -> tuple[socket.socket, object]:
        if lacking:
            raise lacking.pop()
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", scarce)
    async with serve_tcp(Exchange()) as face:
        assert (await exchange_bytes(face, HEAD + b"connection: close\r\n\r\n")).startswith(b"HTTP/1.1 401 ")
    (record,) = flaws.records
    assert "Too many open files" in record.getMessage()
