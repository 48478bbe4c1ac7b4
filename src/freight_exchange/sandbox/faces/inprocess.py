"""The sandbox exchange behind an httpx (or httpx2) transport: no sockets, on asyncio and trio alike.

It tells the `trace` extension the same story as a socket would, so that whoever reads proof from it (was
anything sent?) reads here what a network would have told. It raises the same errors and obeys the same
`timeout` extension. The exchange sees a call once its last byte is out, as a real server does: a request
given up before that never happened, one given up after it did.
"""

from __future__ import annotations

import importlib
import math
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from functools import cache
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import anyio
import anyio.lowlevel
import attrs

from freight_exchange.sandbox.core.messages import Call, Reply
from freight_exchange.sandbox.faces.http_framing import (
    BASE_PATH,
    HALVED,
    NOT_FOUND,
    RESETS,
    call_of,
    framed,
    half,
    phrase,
)
from freight_exchange.sandbox.faults.script import Cut, WireFault

if TYPE_CHECKING:
    import httpx

    from freight_exchange.sandbox.core.exchange import Exchange

__all__ = ["transport"]

_TLS = frozenset({Cut.TLS_STALL, Cut.BAD_CERTIFICATE})
_CONNECTING = frozenset({Cut.REFUSED, Cut.DNS, Cut.CONNECT_STALL}) | _TLS
_ILLEGAL_IN_HEADER = re.compile(rb"[\x00\r\n]|^[ \t]|[ \t]$")
_DISTRUSTED = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate"
_CHUNK = 65_536


def transport(
    exchange: Exchange,
    *,
    library: ModuleType | None = None,
    clock: Callable[[], float] | None = None,
    base_path: str = BASE_PATH,
    keep_alive: bool = True,
) -> httpx.AsyncBaseTransport:
    """A transport that carries requests to `exchange` within the process.

    `library` is the module whose client will use it: `httpx` unless told, or `httpx2`, whose classes are
    unrelated (the transport returned is then one of httpx2's). `clock` gives the exchange its seconds since
    the epoch, the machine's unless told. What lies outside `base_path` is answered 404 in HTML, as a wrong
    address would be. `keep_alive=False` opens a connection for each request, as a pool that keeps none does.

    A TLS fault shows its handshake on a plain `http` address too, so that no script of faults needs `https`.
    """
    module = importlib.import_module("httpx") if library is None else library
    kind, _ = _classes(module)
    made = kind(exchange, module, time.time if clock is None else clock, base_path, keep_alive)
    return cast("httpx.AsyncBaseTransport", made)


@cache
def _classes(library: ModuleType) -> tuple[type[_Transport], type[_Body]]:
    """The transport and body classes of one library, which each insist on their own base classes."""
    return (
        type("SandboxTransport", (_Transport, library.AsyncBaseTransport), {}),
        type("SandboxBody", (_Body, library.AsyncByteStream), {}),
    )


class _Trace:
    """One step of a request, told to the request's `trace` callback."""

    __slots__ = ("_callback", "_info", "_name", "value")

    def __init__(self, callback: Any, name: str, info: dict[str, Any]) -> None:
        self._callback = callback
        self._name = name
        self._info = info
        self.value: object = None

    async def __aenter__(self) -> Self:
        if self._callback is not None:
            await self._callback(f"{self._name}.started", self._info)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._callback is None:
            return
        if error is None:
            await self._callback(f"{self._name}.complete", {"return_value": self.value})
        else:
            await self._callback(f"{self._name}.failed", {"exception": error})


@attrs.define(eq=False)
class _Connection:
    """A connection that stays open between two requests, until its server closes it."""

    dead_on_use: bool = False
    open_until: float = math.inf


class _Transport:
    """Behaves as a pool of HTTP/1.1 connections; mixed with the library's own base class."""

    def __init__(
        self, exchange: Exchange, library: Any, clock: Callable[[], float], base_path: str, keep_alive: bool
    ) -> None:
        self.exchange = exchange
        self.library = library
        self.clock = clock
        self.base_path = base_path
        self._keep_alive = keep_alive
        self._idle: list[_Connection] = []

    async def handle_async_request(self, request: Any) -> Any:
        url, body = request.url, await request.aread()
        query = url.query.decode("ascii")
        call = call_of(request.method, url.path, query, request.headers.raw, body, self.base_path)
        trip = _Trip(self, request, call)
        await trip.queue()
        connection = None if trip.must_connect else self._kept()
        connection = connection or await trip.connect()
        try:
            reply = await trip.send(connection)
            headers = await trip.receive_head(reply)
        except BaseException:
            await trip.closed()
            raise
        _, body_class = _classes(self.library)
        return self.library.Response(
            reply.status,
            headers=headers,
            stream=body_class(trip, connection, reply),
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": phrase(reply.status)},
        )

    def keep(self, connection: _Connection, request: Any) -> None:
        if self._keep_alive and request.headers.get("connection", "").lower() != "close":
            self._idle.append(connection)

    def _kept(self) -> _Connection | None:
        now = anyio.current_time() if self._idle else 0.0
        while self._idle:
            connection = self._idle.pop()
            if now < connection.open_until:
                return connection
        return None

    async def aclose(self) -> None:
        self._idle.clear()


class _Trip:
    """The way of one request, step by step."""

    def __init__(self, pool: _Transport, request: Any, call: Call | None) -> None:
        self.pool = pool
        self.request = request
        self._call = call
        self._errors = pool.library
        self._trace = request.extensions.get("trace")
        self._timeouts = request.extensions.get("timeout", {})

    def step(self, name: str, info: dict[str, Any] | None = None) -> _Trace:
        return _Trace(self._trace, name, {"request": self.request} if info is None else info)

    def _strike(self, *cuts: Cut) -> Cut | None:
        """Has the exchange record the call as struck, if one of these faults is due for it.

        Asked anew at each step: a call in flight beside this one may have met the fault first, and this one,
        told of it too early, would then be processed without having been sent.
        """
        cut = self._due()
        if self._call is None or cut not in cuts:
            return None
        self.pool.exchange.handle(self._call, self.pool.clock())
        return cut

    def _due(self) -> Cut | None:
        fault = None if self._call is None else self.pool.exchange.faults.peek(self._call)
        return None if fault is None or fault.wire is None else fault.wire.cut

    async def wait(self, seconds: float, phase: Literal["pool", "connect", "read"]) -> None:
        """Sleeps, for ever if need be, or until the timeout of this phase, then the library's error."""
        limit = self._timeouts.get(phase)
        if limit is not None and limit <= seconds:
            await anyio.sleep(limit)
            raise getattr(self._errors, f"{phase.capitalize()}Timeout")("")
        if seconds == math.inf:
            await anyio.sleep_forever()
        await anyio.sleep(seconds)

    async def queue(self) -> None:
        if self._strike(Cut.POOL_EXHAUSTED):
            await self.wait(math.inf, "pool")

    @property
    def must_connect(self) -> bool:
        """Whether a fault is due that strikes new connections only: a kept one would let it pass unseen."""
        return self._due() in _CONNECTING

    async def connect(self) -> _Connection:
        url, limit = self.request.url, self._timeouts.get("connect")
        port = url.port or {"https": 443}.get(url.scheme, 80)
        address = {"host": url.host, "port": port, "local_address": None, "timeout": limit}
        async with self.step("connection.connect_tcp", {**address, "socket_options": None}):
            await anyio.lowlevel.checkpoint()
            match self._strike(Cut.REFUSED, Cut.DNS, Cut.CONNECT_STALL):
                case Cut.REFUSED:
                    raise self._unconnected(ConnectionRefusedError("All connection attempts failed"))
                case Cut.DNS:
                    raise self._unconnected(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
                case Cut.CONNECT_STALL:
                    await self.wait(math.inf, "connect")
                case _:
                    pass
        if url.scheme == "https" or self._due() in _TLS:
            await self._handshake({"ssl_context": None, "server_hostname": url.host, "timeout": limit})
        return _Connection()

    async def _handshake(self, info: dict[str, Any]) -> None:
        async with self.step("connection.start_tls", info):
            await anyio.lowlevel.checkpoint()
            match self._strike(*_TLS):
                case Cut.TLS_STALL:
                    await self.wait(math.inf, "connect")
                case Cut.BAD_CERTIFICATE:
                    raise self._unconnected(ssl.SSLCertVerificationError(1, _DISTRUSTED))
                case _:
                    pass

    def _unconnected(self, origin: OSError) -> Exception:
        """The error of a failed connection, its origin where a pool leaves it: in the context of its cause.

        Whoever looks for it among the causes alone shall be found out here as well.
        """
        error, cause = (self._errors.ConnectError(str(origin)) for _ in range(2))
        cause.__context__, cause.__suppress_context__ = origin, True
        error.__cause__ = cause
        raised: Exception = error
        return raised

    async def send(self, connection: _Connection) -> Reply:
        """Sends the request. A failed write does not end it: over a socket too, a reply is awaited then."""
        reply = Reply(0, wire=WireFault(Cut.RESET_AFTER_SEND))
        has_body = bool(self.request.content)
        try:
            async with self.step("http11.send_request_headers"):
                self._check_headers()
                await anyio.lowlevel.checkpoint()
                if self._strike(Cut.RESET_BEFORE_HEADERS):
                    raise self._errors.WriteError("")
                if not has_body:  # the server has the whole request by now
                    reply = self._handled(connection)
            async with self.step("http11.send_request_body"):
                await anyio.lowlevel.checkpoint()
                if has_body:
                    if self._strike(Cut.RESET_MID_BODY):
                        raise self._errors.WriteError("")
                    reply = self._handled(connection)
        except self._errors.WriteError:
            pass
        return reply

    def _handled(self, connection: _Connection) -> Reply:
        if connection.dead_on_use:
            return Reply(0, wire=WireFault(Cut.FIN_NO_BYTES))
        return NOT_FOUND if self._call is None else self.pool.exchange.handle(self._call, self.pool.clock())

    def _check_headers(self) -> None:
        for name, value in self.request.headers.raw:
            if _ILLEGAL_IN_HEADER.search(value) or _ILLEGAL_IN_HEADER.search(name):
                raise self._errors.LocalProtocolError(f"Illegal header value {value!r}")

    async def receive_head(self, reply: Reply) -> list[tuple[bytes, bytes]]:
        async with self.step("http11.receive_response_headers") as step:
            await anyio.lowlevel.checkpoint()
            if reply.delay:
                await self.wait(reply.delay, "read")
            if reply.wire is not None:
                await self._receive_cut(reply, reply.wire)
            headers = framed(reply)
            step.value = (b"HTTP/1.1", reply.status, phrase(reply.status), headers)
            return headers

    async def _receive_cut(self, reply: Reply, wire: WireFault) -> None:
        if wire.cut in RESETS:
            raise self._errors.ReadError("")
        match wire.cut:
            case Cut.FIN_NO_BYTES:
                raise self._errors.RemoteProtocolError("Server disconnected without sending a response.")
            case Cut.STALL:
                await self.wait(math.inf, "read")
            case Cut.GARBAGE_STATUS:
                raise self._errors.RemoteProtocolError("illegal status line")
            case Cut.HEADER_FLOOD:
                raise self._errors.RemoteProtocolError("Receive buffer too long")
            case Cut.DRIP:
                for _ in range(sum(len(name) + len(value) + 4 for name, value in framed(reply)) + 19):
                    await self.wait(wire.seconds, "read")
            case _:
                pass

    async def receive_body(self, reply: Reply) -> AsyncIterator[bytes]:
        body, wire = reply.body, reply.wire
        if wire is not None and wire.cut is Cut.DRIP:
            for at in range(len(body)):
                await self.wait(wire.seconds, "read")
                yield body[at : at + 1]
            return
        halved = wire is not None and wire.cut in HALVED
        part = half(reply) if halved else body
        for at in range(0, len(part), _CHUNK):
            yield part[at : at + _CHUNK]
        if wire is not None and halved:
            await self._break_body(wire.cut, len(part), max(len(body), 1))

    async def _break_body(self, cut: Cut, received: int, expected: int) -> None:
        cause = "incomplete chunked read"
        match cut:
            case Cut.RESET_MID_REPLY:
                raise self._errors.ReadError("")
            case Cut.STALL_MID_REPLY:
                await self.wait(math.inf, "read")
            case Cut.TRUNCATED_LENGTH:
                cause = f"received {received} bytes, expected {expected}"
            case _:
                pass
        raise self._errors.RemoteProtocolError(
            f"peer closed connection without sending complete message body ({cause})"
        )

    async def closed(self) -> None:
        with anyio.CancelScope(shield=True):
            async with self.step("http11.response_closed"):
                pass


class _Body:
    """The body of a reply as it comes in; mixed with the library's own base class."""

    def __init__(self, trip: _Trip, connection: _Connection, reply: Reply) -> None:
        self._trip = trip
        self._connection = connection
        self._reply = reply
        self._whole = False
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async with self._trip.step("http11.receive_response_body"):
                await anyio.lowlevel.checkpoint()
                async for part in self._trip.receive_body(self._reply):
                    yield part
                self._whole = True
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        wire = self._reply.wire
        # What is left on a connection would answer its next request: a pool that keeps it is none to imitate.
        if self._whole and (wire is None or wire.cut is not Cut.BYTES_AFTER_REPLY):
            if wire is not None and wire.cut is Cut.IDLE_FIN:
                self._connection.dead_on_use = not wire.seconds
                if wire.seconds:
                    self._connection.open_until = anyio.current_time() + wire.seconds
            self._trip.pool.keep(self._connection, self._trip.request)
        await self._trip.closed()
