"""TCP proxy in threads that stalls, drips, resets and delays what it forwards."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["TcpProxy"]

_ABORT: Final = struct.pack("ii", 1, 0)
_DROP: Final = 256
"""Bytes that a dripping proxy forwards at once."""


class TcpProxy:
    """Proxy to a port of this machine.

    Args:
        target: The port.
        origin: Scheme and host that clients of an HTTP proxy write before each path, which the proxy removes.

    Attributes:
        port: Its own port.
        asked: Number of calls whose origin it removed.
    """

    def __init__(self, target: int, origin: bytes = b"") -> None:
        self._target = target
        self._origin = origin
        self._flows = threading.Event()
        self._flows.set()
        self._drips = False
        self.asked = 0
        self._delay: tuple[bytes, float, Callable[[], object]] | None = None
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Stop forwarding in both directions; connections stay open."""
        self._flows.clear()

    def drip(self) -> None:
        """Forward only a few bytes at a time from now on."""
        self._drips = True

    def resume(self) -> None:
        """Forward again, first the bytes that arrived meanwhile, except those of a client that has left."""
        self._drips = False
        self._flows.set()

    def reset(self) -> None:
        """Reset all connections."""
        for one in [*self._sockets]:
            _abort(one)

    def delay(self, pattern: bytes, seconds: float, on_caught: Callable[[], object]) -> None:
        """Delay the next bytes of a client that have a pattern, as a slow gateway does, even if the client dies."""
        self._delay = (pattern, seconds, on_caught)

    def forget(self) -> None:
        """Delay nothing that has not come yet."""
        self._delay = None

    def close(self) -> None:
        """End the proxy and its connections."""
        self._listener.close()
        self.forget()
        self.resume()
        self.reset()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target), 5)
        except OSError:
            _abort(client)
            return
        server.settimeout(None)
        self._sockets |= {client, server}
        threading.Thread(target=self._forward, args=(server, client), daemon=True).start()
        self._forward(client, server, from_client=True)

    def _forward(self, source: socket.socket, target: socket.socket, *, from_client: bool = False) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self._flows.is_set():
                    self._flows.wait()
                    if from_client and _has_left(source):
                        break
                if from_client and self._origin and b" " + self._origin in data:
                    data = data.replace(b" " + self._origin, b" ", 1)
                    self.asked += 1
                delay = self._delay
                if from_client and delay is not None and delay[0] in data:
                    self._delay = None
                    data += _rest(source)
                    delay[2]()
                    time.sleep(delay[1])
                    target.sendall(data)
                    # The server keeps the connection for a while, though the client may be dead.
                    time.sleep(1)
                    continue
                while self._drips and data:
                    target.sendall(data[:_DROP])
                    data = data[_DROP:]
                    time.sleep(0.02)
                target.sendall(data)
        self._flows.wait()
        for one in (source, target):
            self._sockets.discard(one)
            _abort(one)


def _rest(source: socket.socket) -> bytes:
    """Read what a client sends without a pause."""
    data = b""
    source.settimeout(0.1)
    with contextlib.suppress(TimeoutError):
        while more := source.recv(65536):
            data += more
    source.settimeout(None)
    return data


def _has_left(client: socket.socket) -> bool:
    """Return whether a client has closed its connection; without a gateway, a network then discards its bytes."""
    if client.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    return bool(poll.poll(0))


def _abort(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        # Wakes the thread that reads from it; closing alone does not.
        one.shutdown(socket.SHUT_RDWR)
    one.close()
