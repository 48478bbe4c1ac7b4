"""Network backend of the SDK's own connections: sets socket options, and detects unread bytes.

Everything else is httpcore's own backend. httpcore accepts it by the public argument `network_backend`.
"""

from __future__ import annotations

import struct
import sys
from contextlib import suppress
from socket import IPPROTO_TCP, SO_LINGER, SOL_SOCKET
from typing import TYPE_CHECKING, Any, Final

from freight_exchange.transport.http.trace import close
from freight_exchange.transport.http.unread_bytes import is_tls_leftover

if TYPE_CHECKING:
    import httpcore

__all__ = ["SEND_TIMEOUT", "Backend", "Stream"]

SEND_TIMEOUT: Final = 10
"""Seconds that the kernel continues to send bytes that the peer does not acknowledge.

Without a limit the kernel continues for up to a quarter of an hour, even after the end of the process. An offer could
then arrive long after `reconcile()` has proven its absence. The limit must be well under the settle time of that proof,
which is 30 seconds.
"""

# Python has the name of the option on Linux only. On other systems the unit is a second.
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
# Two shorts on Windows, two integers elsewhere.
_LINGER = "hh" if sys.platform == "win32" else "ii"
_ABORT = struct.pack(_LINGER, 1, 0)
_FINISH = struct.pack(_LINGER, 0, 0)


class Backend:
    """Network backend of httpcore that sets socket options and closes the connection of a failed TLS handshake."""

    def __init__(self, backend: httpcore.AsyncNetworkBackend | None = None, *, writes: bool) -> None:
        """Create the backend over another one, by default that of the event loop.

        `writes` discards unsent bytes when a connection is closed or the process ends.
        """
        self._backend: Any = _loop_backend() if backend is None else backend
        self.sleep = self._backend.sleep
        self._writes = writes

    async def connect_tcp(self, *arguments: Any, **options: Any) -> Stream:
        stream = Stream(await self._backend.connect_tcp(*arguments, **options))
        for option in _SEND_TIMEOUT:
            stream.set_option(*option)
        if self._writes:
            stream.set_option(SOL_SOCKET, SO_LINGER, _ABORT)
        return stream


def _loop_backend() -> Any:
    # Imported here, as a program that sends nothing need not load it.
    import httpcore

    trio = sys.modules.get("trio")
    in_trio = trio is not None and trio.lowlevel.in_trio_run()
    return httpcore.TrioBackend() if in_trio else httpcore.AnyIOBackend()


class Stream:
    """Connection of the library that also detects whether bytes were received, and whether some are unread."""

    __slots__ = ("_stream", "aclose", "get_extra_info", "received", "write")

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.received = False
        """`True` if bytes came since this was last set to `False`."""
        # Copied, since a wrapper would slow down each write.
        self.write = stream.write
        self.aclose = stream.aclose
        self.get_extra_info = stream.get_extra_info

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = await self._stream.read(max_bytes, timeout)
        if data:
            self.received = True
        return data

    async def start_tls(self, *arguments: Any, **options: Any) -> Stream:
        # When the handshake is cancelled, the library forgets the connection. Each caller that gives up on a stalled
        # server would leave a socket open until the garbage collector runs.
        try:
            return Stream(await self._stream.start_tls(*arguments, **options))
        except BaseException:
            await close(self._stream)
            raise

    @property
    def is_quiet(self) -> bool:
        """Return whether the socket has nothing to read: no bytes, and no end of the connection."""
        return not self.get_extra_info("is_readable") and not is_tls_leftover(self)

    def finish(self) -> None:
        """After a complete reply, let a later close end the connection without a reset."""
        self.set_option(SOL_SOCKET, SO_LINGER, _FINISH)

    def set_option(self, level: int, option: int, value: int | bytes) -> None:
        # A system without the option refuses it, as does a closed socket. A network may have no sockets.
        if (sock := self.get_extra_info("socket")) is not None:
            with suppress(OSError):
                sock.setsockopt(level, option, value)
