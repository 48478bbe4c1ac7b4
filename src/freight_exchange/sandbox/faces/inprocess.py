"""The sandbox exchange behind an httpx (or httpx2) transport: no sockets, on asyncio and trio alike.

The transport raises the errors, obeys the `timeout` extension and reports the `trace` events of a real socket. So code
that decides by them whether anything was sent finds the same evidence. As with a real server, the exchange receives a
call with its last byte: a request that is cancelled before has no effect, a request that is cancelled later has one.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import AsyncIterator, Callable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.lowlevel

from freight_exchange.sandbox.faces.http_framing import BASE_PATH, parse_call, reason_phrase
from freight_exchange.sandbox.faces.simulated_request import Connection, SimulatedRequest
from freight_exchange.sandbox.model.messages import Cut, Reply

if TYPE_CHECKING:
    import httpx

    from freight_exchange.sandbox.core.exchange import Exchange

__all__ = ["transport"]


def transport(
    exchange: Exchange,
    *,
    library: ModuleType | None = None,
    clock: Callable[[], float] | None = None,
    base_path: str = BASE_PATH,
    keep_alive: bool = True,
) -> httpx.AsyncBaseTransport:
    """Make a transport that carries requests to `exchange` within the process.

    A TLS fault shows its handshake on a plain `http` address too, so that no fault script needs `https`.

    Args:
        exchange: The exchange.
        library: The client's library, `httpx` (default) or `httpx2`. The transport is of that library's class.
        clock: The exchange's time in seconds since the epoch, default the machine's.
        base_path: The path of the API. Paths outside it get a 404 page in HTML.
        keep_alive: Whether connections are reused. `False` opens one for each request.
    """
    module = importlib.import_module("httpx") if library is None else library
    kind, _ = _classes(module)
    made_transport = kind(exchange, module, time.time if clock is None else clock, base_path, keep_alive)
    return cast("httpx.AsyncBaseTransport", made_transport)


@cache
def _classes(library: ModuleType) -> tuple[type[_Transport], type[_Body]]:
    """Make the transport and body classes of a library, whose clients accept only subclasses of its own."""
    return (
        type("SandboxTransport", (_Transport, library.AsyncBaseTransport), {}),
        type("SandboxBody", (_Body, library.AsyncByteStream), {}),
    )


class _Transport:
    """Pool of simulated HTTP/1.1 connections; `_classes` mixes it with the library's base class."""

    def __init__(
        self, exchange: Exchange, library: Any, clock: Callable[[], float], base_path: str, keep_alive: bool
    ) -> None:
        self.exchange = exchange
        self.library = library
        self.clock = clock
        self.base_path = base_path
        self._keep_alive = keep_alive
        self._idle: list[Connection] = []

    async def handle_async_request(self, request: Any) -> Any:
        url, body = request.url, await request.aread()
        query = url.query.decode("ascii")
        call = parse_call(request.method, url.path, query, request.headers.raw, body, self.base_path)
        simulated = SimulatedRequest(self.exchange, self.library, self.clock, request, call)
        await simulated.acquire_slot()
        connection = None if simulated.needs_new_connection else self._take_idle()
        connection = connection or await simulated.connect()
        try:
            reply = await simulated.send(connection)
            headers = await simulated.receive_head(reply)
        except BaseException:
            await simulated.close_response()
            raise
        _, body_class = _classes(self.library)
        return self.library.Response(
            reply.status,
            headers=headers,
            stream=body_class(self, simulated, connection, reply),
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": reason_phrase(reply.status)},
        )

    def put_back(self, connection: Connection, request: Any) -> None:
        if self._keep_alive and request.headers.get("connection", "").lower() != "close":
            self._idle.append(connection)

    def _take_idle(self) -> Connection | None:
        now = anyio.current_time() if self._idle else 0.0
        while self._idle:
            connection = self._idle.pop()
            if now < connection.open_until:
                return connection
        return None

    async def aclose(self) -> None:
        self._idle.clear()


class _Body:
    """Stream of a reply's body; `_classes` mixes it with the library's base class."""

    def __init__(self, pool: _Transport, request: SimulatedRequest, connection: Connection, reply: Reply) -> None:
        self._pool = pool
        self._request = request
        self._connection = connection
        self._reply = reply
        self._is_complete = False
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async with self._request.step("http11.receive_response_body"):
                await anyio.lowlevel.checkpoint()
                async for part in self._request.receive_body(self._reply):
                    yield part
                self._is_complete = True
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        wire = self._reply.wire
        # Bytes left on a connection would answer its next request, so a correct pool does not keep the connection.
        if self._is_complete and (wire is None or wire.cut is not Cut.BYTES_AFTER_REPLY):
            if wire is not None and wire.cut is Cut.IDLE_FIN:
                self._connection.dead_on_use = not wire.seconds
                if wire.seconds:
                    self._connection.open_until = anyio.current_time() + wire.seconds
            self._pool.put_back(self._connection, self._request.request)
        await self._request.close_response()
