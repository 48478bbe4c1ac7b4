"""Connection pool: the SDK's own connections, each used by one request at a time.

httpcore's pool examines all connections for each request, and polls idle ones. This pool only reuses the most recent
connection, since the limiter admits no more callers than there are connections. httpcore makes the connections: the
`create_connection` of its pool supports proxies, and its `network_backend` sets the options of sockets.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from freight_exchange.transport.http.trace import close
from freight_exchange.transport.http.unread_bytes import has_leftover

__all__ = ["REPEATABLE", "Pool", "Reply"]

REPEATABLE = "freight_exchange.repeatable"
"""Request extension of reads: repeat a request that fails on a reused connection before a byte of the reply came.

A server may close an idle connection just as a request is sent on it. The repeat does not count as an attempt.
"""

_BROKEN = frozenset({"ReadError", "WriteError", "RemoteProtocolError"})


class _Headers(NamedTuple):
    raw: list[tuple[bytes, bytes]]


class Reply:
    """Reply with the attributes of an httpx response, but cheaper."""

    __slots__ = ("headers", "is_stream_consumed", "status_code", "stream")

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], stream: _ReplyStream) -> None:
        self.status_code = status
        self.headers = _Headers(headers)
        self.stream = stream
        self.is_stream_consumed = False


class Pool:
    """Pool that sends each request over an idle connection or a new one; closing a reply's stream returns it."""

    def __init__(self, connect: Callable[[], Any], *, keepalive: float) -> None:
        """Create the pool.

        Args:
            connect: Makes a connection of httpcore, which connects when the first request is sent.
            keepalive: Seconds for which an idle connection is kept; 0 keeps none.
        """
        self._connect = connect
        self._keepalive = keepalive
        # The most recent connection is at the right end, and reused first, so unneeded ones expire at the left.
        self._idle: deque[_PooledConnection] = deque()
        self._closed = False

    async def handle_async_request(self, request: Any) -> Reply:
        pooled = await self._idle_connection()
        if pooled is not None:
            try:
                return await self._send(pooled, request)
            except Exception as error:
                if not (pooled.is_stale(error) and request.extensions.get(REPEATABLE)):
                    raise
        return await self._send(_PooledConnection(self._connect()), request)

    async def _idle_connection(self) -> _PooledConnection | None:
        while self._idle:
            pooled = self._idle.pop()
            if pooled.is_usable:
                return pooled
            await close(pooled.connection)
        return None

    async def _send(self, pooled: _PooledConnection, request: Any) -> Reply:
        try:
            response = await pooled.send(request)
        except BaseException:
            # The state of the connection is unknown: if it hangs, reuse would block every call.
            await close(pooled.connection)
            raise
        return Reply(response.status, response.headers, _ReplyStream(response.stream, self, pooled))

    async def put_back(self, pooled: _PooledConnection) -> None:
        """Return a connection to the pool after its reply was read."""
        if self._closed or not self._keepalive or pooled.has_leftover:
            await close(pooled.connection)
            return
        pooled.idle_since = now = time.monotonic()
        self._idle.append(pooled)
        if self._idle[0].idle_since < now - self._keepalive:
            await close(self._idle.popleft().connection)

    async def aclose(self) -> None:
        """Close idle connections now, and the others when they are returned."""
        self._closed = True
        while self._idle:
            await close(self._idle.pop().connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _PooledConnection:
    """Connection, and the network stream under it once it has received a reply."""

    __slots__ = ("connection", "idle_since", "stream")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.stream: Any = None
        self.idle_since = 0.0

    async def send(self, request: Any) -> Any:
        if self.stream is not None:
            self.stream.received = False
        response = await self.connection.handle_async_request(request)
        # A mock of the library has no stream. Its connection is never idle, so it is never reused.
        self.stream = response.extensions.get("network_stream")
        return response

    def is_stale(self, error: Exception) -> bool:
        """Return whether a request failed because a reused connection broke before a byte of its reply came."""
        return type(error).__name__ in _BROKEN and not self.stream.received

    @property
    def is_usable(self) -> bool:
        """Return whether another request may be sent: it is not closed, not expired, and has no unexpected bytes."""
        return self.connection.is_idle() and not self.connection.has_expired() and self.stream.is_quiet

    @property
    def has_leftover(self) -> bool:
        """Return whether the connection is closed, or has bytes with which the next reply would begin."""
        if self.stream is None or not self.connection.is_idle():
            return True
        return has_leftover(self.connection)


class _ReplyStream:
    """Stream of a reply, with its connection."""

    __slots__ = ("_chunks", "_is_complete", "_pool", "_pooled", "_stream")

    def __init__(self, stream: Any, pool: Pool, pooled: _PooledConnection) -> None:
        self._stream = stream
        self._chunks: Any = None
        self._pool = pool
        self._pooled: _PooledConnection | None = pooled
        self._is_complete = False

    def __aiter__(self) -> Self:
        self._chunks = aiter(self._stream)
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk: bytes = await self._chunks.__anext__()
        except StopAsyncIteration:
            self._is_complete = True
            raise
        return chunk

    async def aclose(self) -> None:
        pooled, self._pooled = self._pooled, None
        if pooled is None:
            return
        if self._is_complete and pooled.stream is not None:
            pooled.stream.finish()
        try:
            await self._stream.aclose()
        except BaseException:
            await close(pooled.connection)
            raise
        await self._pool.put_back(pooled)
