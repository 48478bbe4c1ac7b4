"""Network backend of the SDK's own connections: socket options, and unread bytes.

Everything else is httpcore's own backend, given to its pool through the public `network_backend` argument.
"""

from __future__ import annotations

import struct
import sys
from contextlib import suppress
from socket import IPPROTO_TCP, SO_LINGER, SOL_SOCKET
from typing import Any, Final

from freight_exchange.transport.http.leftover import is_tls_leftover
from freight_exchange.transport.http.trace import close

__all__ = ["SEND_TIMEOUT", "Backend", "Stream"]

SEND_TIMEOUT: Final = 10
"""Seconds that the kernel continues to send bytes that the peer does not acknowledge.

Without a limit it does so for up to a quarter of an hour, even after the process is dead: an offer could arrive long
after `reconcile()` has proven its absence. It must stay well under the settle time of that proof, which is 30 seconds.
"""

# Python names the option on Linux only. On the others its unit is the second.
_DARWIN_TCP_RXT_CONNDROPTIME = 0x80
_WINDOWS_TCP_MAXRT = 5


def _send_timeout() -> tuple[tuple[int, int, int], ...]:
    if sys.platform == "linux":
        from socket import TCP_USER_TIMEOUT

        return ((IPPROTO_TCP, TCP_USER_TIMEOUT, SEND_TIMEOUT * 1000),)
    if sys.platform == "darwin":
        return ((IPPROTO_TCP, _DARWIN_TCP_RXT_CONNDROPTIME, SEND_TIMEOUT),)
    if sys.platform == "win32":
        return ((IPPROTO_TCP, _WINDOWS_TCP_MAXRT, SEND_TIMEOUT),)
    return ()


_SEND_TIMEOUT = _send_timeout()
# Windows has two shorts where the others have two integers.
_LINGER = "hh" if sys.platform == "win32" else "ii"
_ABORT = struct.pack(_LINGER, 1, 0)
_FINISH = struct.pack(_LINGER, 0, 0)


class Backend:
    """Network backend of httpcore that sets socket options and closes the connection of a failed TLS handshake."""

    def __init__(self, *, writes: bool) -> None:
        """Create it; with `writes`, closing a connection, or the death of the process, discards unsent bytes."""
        # Imported here: a program that sends nothing need not load it.
        import httpcore

        trio = sys.modules.get("trio")
        in_trio = trio is not None and trio.lowlevel.in_trio_run()
        self._backend: Any = httpcore.TrioBackend() if in_trio else httpcore.AnyIOBackend()
        self.sleep = self._backend.sleep
        self._writes = writes

    async def connect_tcp(self, *arguments: Any, **options: Any) -> Stream:
        stream = Stream(await self._backend.connect_tcp(*arguments, **options))
        for option in _SEND_TIMEOUT:
            stream.set_option(*option)
        if self._writes:
            stream.set_option(SOL_SOCKET, SO_LINGER, _ABORT)
        return stream


class Stream:
    """Connection of the library, which also shows whether bytes were received and are unread."""

    __slots__ = ("_stream", "aclose", "get_extra_info", "received", "write")

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.received = False
        """`True` once bytes came since this was last set to false."""
        # Copied, not wrapped: a wrapper would slow down each write.
        self.write = stream.write
        self.aclose = stream.aclose
        self.get_extra_info = stream.get_extra_info

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = await self._stream.read(max_bytes, timeout)
        if data:
            self.received = True
        return data

    async def start_tls(self, *arguments: Any, **options: Any) -> Stream:
        # The library forgets the connection where the handshake is cancelled: the socket would stay open until the
        # garbage collector runs, one for each caller that gives up on a stalled server.
        try:
            return Stream(await self._stream.start_tls(*arguments, **options))
        except BaseException:
            await close(self._stream)
            raise

    @property
    def is_quiet(self) -> bool:
        """`True` if nothing is unread: no bytes, and no end of the connection."""
        return not self.get_extra_info("is_readable") and not is_tls_leftover(self)

    def finish(self) -> None:
        """Let a later close end the connection in order, without a reset: the reply is complete."""
        self.set_option(SOL_SOCKET, SO_LINGER, _FINISH)

    def set_option(self, level: int, option: int, value: int | bytes) -> None:
        # Refused by a system that lacks the option, and by a socket that is closed.
        with suppress(OSError):
            self.get_extra_info("socket").setsockopt(level, option, value)
