"""The SDK's own connections, each lent to one request at a time.

httpcore's pool looks at every connection on every request, and polls each that is idle: of ten callers each pays for
ten. The limiter lets no more callers through than there are connections, so that all a pool has to do is to lend the
one that was used last. httpcore makes the connections: its pool's `create_connection` knows proxies, and its
`network_backend` argument takes the sockets' options.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from freight_exchange.transport.http.leftover import has_leftover
from freight_exchange.transport.http.trace import close

__all__ = ["REPEATABLE", "Pool", "Reply"]

REPEATABLE = "freight_exchange.repeatable"
"""Request extension of reads: repeat what fails on a reused connection before a byte of the reply came.

A server may close a kept connection just as a request is sent on it: that costs no attempt.
"""

_BROKEN = frozenset({"ReadError", "WriteError", "RemoteProtocolError"})


class _Headers(NamedTuple):
    raw: list[tuple[bytes, bytes]]


class Reply:
    """A reply as the adapter reads it: the shape of an httpx response, without its cost."""

    __slots__ = ("headers", "is_stream_consumed", "status_code", "stream")

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], stream: _Lent) -> None:
        self.status_code = status
        self.headers = _Headers(headers)
        self.stream = stream
        self.is_stream_consumed = False


class Pool:
    """Sends each request over an idle connection or a new one; closing the reply's stream returns the connection."""

    def __init__(self, connect: Callable[[], Any], *, keepalive: float) -> None:
        """Use `connect` to make a connection of httpcore; it connects when the first request is sent.

        `keepalive` is how many seconds an idle connection is kept; 0 keeps none.
        """
        self._connect = connect
        self._keepalive = keepalive
        # The last one used is at the right end, and lent first: those that are not needed come to lie at the left.
        self._idle: deque[_Lane] = deque()
        self._closed = False

    async def handle_async_request(self, request: Any) -> Reply:
        lane = await self._idle_lane()
        if lane is not None:
            try:
                return await self._send(lane, request)
            except Exception as error:
                if not (lane.is_stale(error) and request.extensions.get(REPEATABLE)):
                    raise
        return await self._send(_Lane(self._connect()), request)

    async def _idle_lane(self) -> _Lane | None:
        while self._idle:
            lane = self._idle.pop()
            if lane.is_usable:
                return lane
            await close(lane.connection)
        return None

    async def _send(self, lane: _Lane, request: Any) -> Reply:
        try:
            response = await lane.send(request)
        except BaseException:
            # Only the library knows its state now: were it lent again, one that hangs would hang every call.
            await close(lane.connection)
            raise
        return Reply(response.status, response.headers, _Lent(response.stream, self, lane))

    async def give_back(self, lane: _Lane) -> None:
        """Take back the connection of a reply that was read."""
        if self._closed or not self._keepalive or lane.has_leftover:
            await close(lane.connection)
            return
        lane.idle_since = now = time.monotonic()
        self._idle.append(lane)
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


class _Lane:
    """A connection, and the network stream under it once it has received a reply."""

    __slots__ = ("connection", "idle_since", "stream")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.stream: Any = None
        self.idle_since = 0.0

    async def send(self, request: Any) -> Any:
        if self.stream is not None:
            self.stream.received = False
        response = await self.connection.handle_async_request(request)
        # A mock in the library's place has none; its connection is never idle, and so never lent again.
        self.stream = response.extensions.get("network_stream")
        return response

    def is_stale(self, error: Exception) -> bool:
        """Whether the failed request found a kept connection broken before a byte of its reply came."""
        return type(error).__name__ in _BROKEN and not self.stream.received

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent: not closed, not expired, and nothing came that no request asked for."""
        return self.connection.is_idle() and not self.connection.has_expired() and self.stream.is_quiet

    @property
    def has_leftover(self) -> bool:
        """Whether the connection is closed, or has bytes beyond the reply's end, with which the next would begin."""
        if self.stream is None or not self.connection.is_idle():
            return True
        return has_leftover(self.connection)


class _Lent:
    """The stream of a reply, with the connection that it comes over."""

    __slots__ = ("_chunks", "_lane", "_pool", "_stream", "_whole")

    def __init__(self, stream: Any, pool: Pool, lane: _Lane) -> None:
        self._stream = stream
        self._chunks: Any = None
        self._pool = pool
        self._lane: _Lane | None = lane
        self._whole = False

    def __aiter__(self) -> Self:
        self._chunks = aiter(self._stream)
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk: bytes = await self._chunks.__anext__()
        except StopAsyncIteration:
            self._whole = True
            raise
        return chunk

    async def aclose(self) -> None:
        lane, self._lane = self._lane, None
        if lane is None:
            return
        if self._whole and lane.stream is not None:
            lane.stream.finish()
        try:
            await self._stream.aclose()
        except BaseException:
            await close(lane.connection)
            raise
        await self._pool.give_back(lane)
