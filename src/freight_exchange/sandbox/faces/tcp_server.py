"""HTTP/1.1 server on plain sockets, one connection after another, with the cuts that break them."""

from __future__ import annotations

import logging
import math
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import Protocol
from urllib.parse import unquote

import anyio
import anyio.lowlevel
import attrs
import h11
from anyio.abc import ByteStream

from freight_exchange.sandbox.core.state_file import StateError
from freight_exchange.sandbox.faces.http_framing import (
    BASE_PATH,
    EARLY_RESETS,
    HALVED,
    NOT_FOUND,
    RESETS,
    frame_headers,
    half,
    parse_call,
    reason_phrase,
    unsupported_cut,
)
from freight_exchange.sandbox.faults.script import FaultScript
from freight_exchange.sandbox.model.messages import Call, Cut, Reply, WireFault

__all__ = ["LOGGER", "MAX_BODY", "Answering", "Server", "ServerConnection", "Site", "SocketStream", "TcpFace"]

MAX_BODY = 8 * 1024 * 1024
"""Maximum size of a request's body in bytes, far above any real one."""
TOO_LONG = Reply(413, (("content-type", "application/json"),), b'{"message": "The body is too long."}')
_GARBAGE = b"\x16\x03\x01 this is not HTTP\r\n\r\n"
# Twice the head size at which the most lenient client gives up.
_FLOOD = 262_144
FAILED = Reply(
    500,
    (("content-type", "application/json"),),
    b'{"message": "The sandbox failed on this call, because of a bug of its own. Its log has the traceback."}',
)
# Not a child of the package's logger, which is silent by default, since bugs of the server must be visible.
LOGGER = "freight_exchange_sandbox"
_logger = logging.getLogger(LOGGER)


class Answering(Protocol):
    """Served object: an `Exchange`, or a `BoardController` in front of one."""

    @property
    def faults(self) -> FaultScript: ...

    def handle(self, call: Call, now: float) -> Reply: ...


Site = Callable[[Call], Awaitable[Reply]]
"""Handler of paths outside the API. The paths of its calls are relative to the server's root."""


@attrs.define(eq=False)
class TcpFace:
    """Running server: its URL and its counters."""

    url: str
    """The API root, `http://127.0.0.1:PORT/api`."""
    connections: int = 0
    """Connections accepted."""
    open_connections: int = 0
    """Connections that are open now."""
    requests: int = 0
    """Requests whose head was read, including those that were cut short."""


@attrs.frozen
class Server:
    """State that the connections of one server share."""

    exchange: Answering
    clock: Callable[[], float]
    tls: ssl.SSLContext | None
    face: TcpFace
    site: Site | None

    async def answer(self, head: h11.Request, body: bytes) -> Reply:
        try:
            return await self._answer(head, body)
        except StateError:
            raise
        except Exception:
            _logger.exception("sandbox failed on %s; the reply is a 500", _address_of(head))
            return FAILED

    async def _answer(self, head: h11.Request, body: bytes) -> Reply:
        call = _call(head, body)
        if call is not None:
            return self.exchange.handle(call, self.clock())
        elsewhere = _call(head, body, "/")
        return NOT_FOUND if self.site is None or elsewhere is None else await self.site(elsewhere)


class SocketStream(ByteStream):
    """Byte stream on a socket that can end in an RST."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        while True:
            await anyio.wait_readable(self._raw)
            try:
                data = self._raw.recv(max_bytes)
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            return data

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[self._raw.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._raw)
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        self._raw.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        self._raw.close()

    def reset(self) -> None:
        """End the connection with an RST: closing sends one when the linger time is 0."""
        self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._raw.close()


class ServerConnection:
    """Connection of a client, with one request after another."""

    def __init__(self, server: Server, link: SocketStream, stream: ByteStream) -> None:
        self._server = server
        self._link = link
        self._stream = stream
        self._unread = b""

    async def run(self) -> None:
        dying: WireFault | None = None
        while True:
            timeout = dying.seconds if dying is not None and dying.seconds else math.inf
            with anyio.move_on_after(timeout):
                if not self._unread:
                    self._unread = await self._stream.receive()
            if not self._unread:
                return
            lost = dying is not None and not dying.seconds
            answered = await self._exchange_one(lost=lost)
            if answered is None:
                return
            dying = answered.wire if answered.wire is not None and answered.wire.cut is Cut.IDLE_FIN else None

    async def _exchange_one(self, *, lost: bool) -> Reply | None:
        """Answer one request. Return its reply, or `None` at the end of the connection."""
        parser = h11.Connection(h11.SERVER)
        parser.receive_data(self._unread)
        head: h11.Request | None = None
        body = bytearray()
        while True:
            try:
                event = parser.next_event()
            except h11.RemoteProtocolError:
                await self._write(Reply(400, (("connection", "close"),)))
                return None
            if event is h11.NEED_DATA:
                parser.receive_data(await self._stream.receive())
            elif isinstance(event, h11.Request):
                head = event
                self._server.face.requests += 1
                if not lost and self._reset_at_head(head):
                    return None
            elif isinstance(event, h11.Data):
                # The rest is read too, since a client that still sends would not read the reply.
                if len(body) <= MAX_BODY:
                    body += event.data
            else:
                break
        self._unread = parser.trailing_data[0]
        if head is None or lost:
            return None
        reply = TOO_LONG if len(body) > MAX_BODY else await self._server.answer(head, bytes(body))
        is_open = await self._deliver(reply)
        return reply if is_open and parser.their_state is not h11.MUST_CLOSE else None

    def _reset_at_head(self, head: h11.Request) -> bool:
        """Reset the connection before the body is read if the call's fault does that, and record the call."""
        call = _call(head, b"")
        fault = None if call is None else self._server.exchange.faults.peek(call)
        if call is None or fault is None or fault.wire is None:
            return False
        if fault.wire.cut not in EARLY_RESETS:
            return False
        self._server.exchange.handle(call, self._server.clock())
        self._link.reset()
        return True

    async def _deliver(self, reply: Reply) -> bool:
        """Send the reply, or perform its cut. Return whether the connection stays open."""
        await anyio.sleep(reply.delay)
        cut = None if reply.wire is None else reply.wire.cut
        if cut is None or reply.wire is None or cut is Cut.IDLE_FIN:
            await self._write(reply)
            return True
        if cut in RESETS:
            self._link.reset()
        elif cut in HALVED:
            await self._write_half(reply, cut)
        elif cut.early:
            await self._write(unsupported_cut("TCP", cut))
            return True
        else:
            return await self._perform_cut(reply, reply.wire)
        return False

    async def _perform_cut(self, reply: Reply, wire: WireFault) -> bool:
        match wire.cut:
            case Cut.DRIP:
                for byte in _head(reply) + reply.body:
                    await self._stream.send(bytes((byte,)))
                    await anyio.sleep(wire.seconds)
                return True
            case Cut.BYTES_AFTER_REPLY:
                # Sent in one write, so that the rest is in the buffer of a client that reads the reply.
                await self._stream.send(2 * (_head(reply) + reply.body))
                return True
            case Cut.GARBAGE_STATUS:
                await self._stream.send(_GARBAGE)
            case Cut.HEADER_FLOOD:
                line = b"x-flood: " + b"a" * 1_000 + b"\r\n"
                lines = max(wire.size, _FLOOD) // len(line) + 1
                await self._stream.send(b"HTTP/1.1 200 OK\r\n" + line * lines)
                await self._wait_for_disconnect()
            case Cut.STALL:
                await self._wait_for_disconnect()
            case _:
                pass  # FIN_NO_BYTES: the caller closes
        return False

    async def _write_half(self, reply: Reply, cut: Cut) -> None:
        part = half(reply)
        if cut is Cut.TRUNCATED_CHUNKS and part:
            part = b"%x\r\n%b\r\n" % (len(part), part)
        await self._stream.send(_head(reply) + part)
        if cut is Cut.STALL_MID_REPLY:
            await self._wait_for_disconnect()
        elif cut is Cut.RESET_MID_REPLY:
            # On some systems an RST discards what the client has not read yet.
            await anyio.sleep(0.05)
            self._link.reset()

    async def _write(self, reply: Reply) -> None:
        await self._stream.send(_head(reply) + reply.body)

    async def _wait_for_disconnect(self) -> None:
        while True:
            await self._stream.receive()


def _call(head: h11.Request, body: bytes, base_path: str = BASE_PATH) -> Call | None:
    path, _, query = head.target.decode("latin-1").partition("?")
    return parse_call(head.method.decode("ascii"), unquote(path), query, head.headers, body, base_path)


def _head(reply: Reply) -> bytes:
    fields = b"".join(b"%b: %b\r\n" % field for field in frame_headers(reply))
    return b"HTTP/1.1 %d %b\r\n%b\r\n" % (reply.status, reason_phrase(reply.status), fields)


def _address_of(head: h11.Request) -> str:
    """Return the method and path, without the query, which may hold secrets."""
    return f"{head.method.decode('ascii')} {head.target.partition(b'?')[0][:200].decode('latin-1')}"
