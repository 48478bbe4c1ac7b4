"""Connections that are kept alive, each lent to one request at a time.

The HTTP library has such a pool, which looks at every connection on every request, and asks the system about each that
is idle: of ten callers each pays for ten. The limiter lets no more callers through than there are connections, so that
all a pool has to do is to lend the one that was used last; and of the library's own, each here holds one connection.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Self

from freight_exchange.transport.handshake import close

__all__ = ["KEPT", "Pool"]

KEPT: Final = 5.0
"""Seconds that an idle connection is kept."""


class Pool:
    """Sends each request over a connection that is idle, or a new one; the reply's stream, closed, gives it back."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        """`connect` makes a transport of the HTTP library that holds one connection, and opens it when it is needed."""
        self._connect = connect
        # The last one used is at the right end, and lent first: those that are not needed come to lie at the left.
        self._idle: deque[tuple[float, Any]] = deque()
        self._closed = False

    async def handle_async_request(self, native: Any) -> Any:
        transport = self._idle.pop()[1] if self._idle else self._connect()
        try:
            reply = await transport.handle_async_request(native)
        except BaseException:
            # What it is in now only the library knows: were it lent again, one that hangs would hang every call.
            await close(transport)
            raise
        reply.stream = _Lent(reply.stream, self, transport)
        return reply

    async def give_back(self, transport: Any) -> None:
        """The reply is read: another request may have the connection."""
        if self._closed:
            await close(transport)
            return
        now = time.monotonic()
        self._idle.append((now, transport))
        if self._idle[0][0] < now - KEPT:
            await close(self._idle.popleft()[1])

    async def aclose(self) -> None:
        """Close what is idle now, and what is lent as soon as it comes back."""
        self._closed = True
        while self._idle:
            await close(self._idle.pop()[1])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Lent:
    """The stream of a reply, with the connection that it comes over."""

    __slots__ = ("_pool", "_stream", "_transport")

    def __init__(self, stream: Any, pool: Pool, transport: Any) -> None:
        self._stream = stream
        self._pool = pool
        self._transport = transport

    def __aiter__(self) -> AsyncIterator[bytes]:
        chunks: AsyncIterator[bytes] = aiter(self._stream)
        return chunks

    async def aclose(self) -> None:
        transport, self._transport = self._transport, None
        if transport is None:
            return
        try:
            await self._stream.aclose()
        except BaseException:
            await close(transport)
            raise
        await self._pool.give_back(transport)
