"""Loopback sockets with a choice of ends: closed, reset, or closed with unread bytes."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

__all__ = ["BROKEN", "Socket", "listening"]

BROKEN = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ssl.SSLError)
_MOST = 65536


class Socket(ByteStream):
    """Connected socket. The stream of anyio would send a FIN before a reset is possible."""

    def __init__(self, raw: socket.socket) -> None:
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._raw = raw

    async def receive(self, max_bytes: int = _MOST) -> bytes:
        while True:
            try:
                data = self._raw.recv(max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._raw)
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            return data

    async def wait_readable(self) -> None:
        """Wait for bytes without reading them: closing such a socket resets the connection."""
        await anyio.wait_readable(self._raw)

    async def send(self, item: bytes) -> None:
        left = memoryview(item)
        while left:
            try:
                left = left[self._raw.send(left) :]
            except BlockingIOError:
                await anyio.wait_writable(self._raw)
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        with contextlib.suppress(OSError):
            self._raw.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Have `aclose` reset the connection."""
        self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def aclose(self) -> None:
        self._raw.close()
        await anyio.lowlevel.checkpoint()


@contextlib.asynccontextmanager
async def listening(
    meet: Callable[[Socket, ByteStream], Awaitable[None]], tls: ssl.SSLContext | None
) -> AsyncIterator[int]:
    """Pass each connection to `meet`, as a socket and as a stream; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)

        async def converse(connection: Socket) -> None:
            with contextlib.suppress(*BROKEN):
                try:
                    if tls is None:
                        await meet(connection, connection)
                    else:
                        await meet(
                            connection, await TLSStream.wrap(connection, ssl_context=tls, standard_compatible=False)
                        )
                finally:
                    with anyio.CancelScope(shield=True):
                        await connection.aclose()

        async def accept(tasks: anyio.abc.TaskGroup) -> None:
            while True:
                await anyio.wait_readable(listener)
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    tasks.start_soon(converse, Socket(listener.accept()[0]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(accept, tasks)
            yield listener.getsockname()[1]
            tasks.cancel_scope.cancel()
