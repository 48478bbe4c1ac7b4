"""Closing the connection of a TLS handshake that fails or is cancelled.

The HTTP libraries close it where the handshake fails, and forget it where it is cancelled: the socket then stays open
until the collector comes by, and a thousand impatient callers of a server that stalls are a thousand descriptors.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import anyio

__all__ = ["Backend", "Handshake", "Tunnel", "close"]

_OPENED = (".connect_tcp.complete", ".connect_unix_socket.complete", ".start_tls.complete")
_CLOSING = 1.0
"""Seconds that closing may take: of a bare socket it takes none, of one within another's TLS a farewell."""


class Backend:
    """A network backend of httpcore whose connections do so by themselves."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.sleep = backend.sleep

    async def connect_tcp(self, *arguments: Any, **options: Any) -> _Stream:
        return _Stream(await self._backend.connect_tcp(*arguments, **options))


class _Stream:
    """A connection: the library's own but for the handshake."""

    __slots__ = ("_stream", "aclose", "get_extra_info", "read", "write")

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        # Taken over and not wrapped: reading and writing cost what they did.
        self.read = stream.read
        self.write = stream.write
        self.aclose = stream.aclose
        self.get_extra_info = stream.get_extra_info

    async def start_tls(self, *arguments: Any, **options: Any) -> _Stream:
        try:
            return _Stream(await self._stream.start_tls(*arguments, **options))
        except BaseException:
            await close(self._stream)
            raise


class Tunnel:
    """A connection of httpcore through a proxy that is over when a request on it has failed.

    The library's own takes itself for busy for ever if the handshake behind the proxy fails or is cancelled, and so
    takes a place in the pool along: after as many, nothing is ever sent again.
    """

    def __init__(self, connection: Any, occupied: type[Exception]) -> None:
        """`occupied` is what it raises for a request when it is under way for another, whose it stays."""
        self._connection = connection
        self._occupied = occupied

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def handle_async_request(self, request: Any) -> Any:
        try:
            return await self._connection.handle_async_request(request)
        except BaseException as error:
            if not isinstance(error, self._occupied):
                await close(self._connection)
            raise


class Handshake:
    """Does the same by the trace of a request, for clients that are the caller's."""

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream: Any = None

    async def trace(self, event: str, info: object) -> None:
        """Take in one event of the transport's trace."""
        if event.endswith(_OPENED):
            self._stream = info.get("return_value") if isinstance(info, dict) else None
        elif event.endswith(".start_tls.failed") and self._stream is not None:
            stream, self._stream = self._stream, None
            await close(stream)


async def close(stream: Any) -> None:
    """Close a connection, or what holds one, whatever is cancelled; how that goes is nobody's loss."""
    # Shielded: what ended the handshake would end this as well.
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        with anyio.move_on_after(_CLOSING, shield=True):
            await stream.aclose()
