"""One request on a simulated connection: its steps, its timeouts, and the cuts that break the connection."""

from __future__ import annotations

import math
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import anyio
import anyio.lowlevel
import attrs

from freight_exchange.sandbox.faces.http_framing import HALVED, NOT_FOUND, RESETS, frame_headers, half, reason_phrase
from freight_exchange.sandbox.model.messages import Call, Cut, Reply, WireFault

if TYPE_CHECKING:
    from freight_exchange.sandbox.core.exchange import Exchange

__all__ = ["Connection", "SimulatedRequest", "TraceStep"]

_TLS = frozenset({Cut.TLS_STALL, Cut.BAD_CERTIFICATE})
_CONNECTING = frozenset({Cut.REFUSED, Cut.DNS, Cut.CONNECT_STALL}) | _TLS
_ILLEGAL_IN_HEADER = re.compile(rb"[\x00\r\n]|^[ \t]|[ \t]$")
_DISTRUSTED = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate"
_CHUNK = 65_536


@attrs.define(eq=False)
class Connection:
    """Simulated connection. It stays open between two requests until its server closes it."""

    dead_on_use: bool = False
    open_until: float = math.inf


class TraceStep:
    """Step of a request, reported to the `trace` callback of the request."""

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


class SimulatedRequest:
    """One request on a simulated HTTP/1.1 connection, step by step."""

    def __init__(
        self, exchange: Exchange, library: Any, clock: Callable[[], float], request: Any, call: Call | None
    ) -> None:
        self.request = request
        self._exchange = exchange
        self._errors = library
        self._clock = clock
        self._call = call
        self._trace = request.extensions.get("trace")
        self._timeouts = request.extensions.get("timeout", {})

    def step(self, name: str, info: dict[str, Any] | None = None) -> TraceStep:
        return TraceStep(self._trace, name, {"request": self.request} if info is None else info)

    def _strike(self, *cuts: Cut) -> Cut | None:
        """Record the call as struck if one of these cuts is due for it.

        Each step checks anew, because a concurrent call may take the fault first.
        """
        cut = self._due_cut()
        if self._call is None or cut not in cuts:
            return None
        self._exchange.handle(self._call, self._clock())
        return cut

    def _due_cut(self) -> Cut | None:
        fault = None if self._call is None else self._exchange.faults.peek(self._call)
        return None if fault is None or fault.wire is None else fault.wire.cut

    async def wait(self, seconds: float, phase: Literal["pool", "connect", "read"]) -> None:
        """Sleep for `seconds`; at the timeout of the phase, raise the library's error instead."""
        limit = self._timeouts.get(phase)
        if limit is not None and limit <= seconds:
            await anyio.sleep(limit)
            raise getattr(self._errors, f"{phase.capitalize()}Timeout")("")
        if seconds == math.inf:
            await anyio.sleep_forever()
        await anyio.sleep(seconds)

    async def acquire_slot(self) -> None:
        if self._strike(Cut.POOL_EXHAUSTED):
            await self.wait(math.inf, "pool")

    @property
    def needs_new_connection(self) -> bool:
        """`True` if the due fault strikes only new connections."""
        return self._due_cut() in _CONNECTING

    async def connect(self) -> Connection:
        url, limit = self.request.url, self._timeouts.get("connect")
        port = url.port or {"https": 443}.get(url.scheme, 80)
        address = {"host": url.host, "port": port, "local_address": None, "timeout": limit}
        async with self.step("connection.connect_tcp", {**address, "socket_options": None}):
            await anyio.lowlevel.checkpoint()
            match self._strike(Cut.REFUSED, Cut.DNS, Cut.CONNECT_STALL):
                case Cut.REFUSED:
                    raise self._connect_error(ConnectionRefusedError("All connection attempts failed"))
                case Cut.DNS:
                    raise self._connect_error(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
                case Cut.CONNECT_STALL:
                    await self.wait(math.inf, "connect")
                case _:
                    pass
        if url.scheme == "https" or self._due_cut() in _TLS:
            await self._handshake({"ssl_context": None, "server_hostname": url.host, "timeout": limit})
        return Connection()

    async def _handshake(self, info: dict[str, Any]) -> None:
        async with self.step("connection.start_tls", info):
            await anyio.lowlevel.checkpoint()
            match self._strike(*_TLS):
                case Cut.TLS_STALL:
                    await self.wait(math.inf, "connect")
                case Cut.BAD_CERTIFICATE:
                    raise self._connect_error(ssl.SSLCertVerificationError(1, _DISTRUSTED))
                case _:
                    pass

    def _connect_error(self, origin: OSError) -> Exception:
        """Return the error of a failed connection. As with httpx, its origin is in the context of its cause.

        So code that follows causes only does not find the origin, as over a real socket.
        """
        error, cause = (self._errors.ConnectError(str(origin)) for _ in range(2))
        cause.__context__, cause.__suppress_context__ = origin, True
        error.__cause__ = cause
        raised: Exception = error
        return raised

    async def send(self, connection: Connection) -> Reply:
        """Send the request. After a failed write the client still waits for a reply, as over a socket."""
        reply = Reply(0, wire=WireFault(Cut.RESET_AFTER_SEND))
        has_body = bool(self.request.content)
        try:
            async with self.step("http11.send_request_headers"):
                self._check_headers()
                await anyio.lowlevel.checkpoint()
                if self._strike(Cut.RESET_BEFORE_HEADERS):
                    raise self._errors.WriteError("")
                if not has_body:  # the server has the whole request by now
                    reply = self._handle(connection)
            async with self.step("http11.send_request_body"):
                await anyio.lowlevel.checkpoint()
                if has_body:
                    if self._strike(Cut.RESET_MID_BODY):
                        raise self._errors.WriteError("")
                    reply = self._handle(connection)
        except self._errors.WriteError:
            pass
        return reply

    def _handle(self, connection: Connection) -> Reply:
        if connection.dead_on_use:
            return Reply(0, wire=WireFault(Cut.FIN_NO_BYTES))
        return NOT_FOUND if self._call is None else self._exchange.handle(self._call, self._clock())

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
                await self._apply_cut(reply, reply.wire)
            headers = frame_headers(reply)
            step.value = (b"HTTP/1.1", reply.status, reason_phrase(reply.status), headers)
            return headers

    async def _apply_cut(self, reply: Reply, wire: WireFault) -> None:
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
                for _ in range(sum(len(name) + len(value) + 4 for name, value in frame_headers(reply)) + 19):
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

    async def close_response(self) -> None:
        with anyio.CancelScope(shield=True):
            async with self.step("http11.response_closed"):
                pass
