"""TCP proxy in threads that stalls, drips, resets, cuts off and delays what it forwards."""

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
_DROP_PAUSE: Final = 0.02
_PAUSE: Final = 0.1
_AFTER_DELAY: Final = 1.0
"""Seconds for which the server keeps a connection after delayed bytes, though the client may be dead."""


class TcpProxy:
    """Proxy to a port of this machine.

    Attributes:
        port: Its own port.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._flows = threading.Event()
        self._flows.set()
        self._drips = False
        self._delay: tuple[bytes, float, Callable[[], None]] | None = None
        self._delay_until = 0.0
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

    def delay(self, pattern: bytes, seconds: float, on_caught: Callable[[], None], *, until: float) -> None:
        """Delay the next bytes of a client that have a pattern, as a slow gateway does, even if the client dies.

        Args:
            pattern: Pattern of the bytes.
            seconds: The delay.
            on_caught: Called when they came.
            until: Time until which they may come: later ones may have been held elsewhere already.
        """
        self._delay, self._delay_until = (pattern, seconds, on_caught), until

    def close(self) -> None:
        """End the proxy and its connections."""
        self._listener.close()
        self._delay = None
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
                is_in_time = time.monotonic() <= self._delay_until
                if from_client and is_in_time and self._delay is not None and self._delay[0] in data:
                    _, seconds, on_caught = self._delay
                    self._delay = None
                    data += _rest(source)
                    on_caught()
                    time.sleep(seconds)
                    target.sendall(data)
                    time.sleep(_AFTER_DELAY)
                    continue
                while self._drips and data:
                    target.sendall(data[:_DROP])
                    data = data[_DROP:]
                    time.sleep(_DROP_PAUSE)
                target.sendall(data)
        self._flows.wait()
        for one in (source, target):
            self._sockets.discard(one)
            _abort(one)


def _rest(source: socket.socket) -> bytes:
    """Read what a client sends without a pause."""
    data = b""
    source.settimeout(_PAUSE)
    with contextlib.suppress(TimeoutError):
        while more := source.recv(65536):
            data += more
    source.settimeout(None)
    return data


def _has_left(client: socket.socket) -> bool:
    """Return whether a client has closed its connection; without a gateway, a network then discards its bytes.

    Bytes that the client sent before may still wait to be read.
    """
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
