"""A TCP proxy in threads that stalls, resets and cuts off what it forwards."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Final

__all__ = ["TcpProxy"]

_ABORT: Final = struct.pack("ii", 1, 0)


class TcpProxy:
    """A proxy to a port of this machine.

    Attributes:
        port: Its own port.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Forward nothing from now on, in either direction; connections stay open."""
        self._flows.clear()

    def resume(self) -> None:
        """Forward again, first of all what arrived meanwhile."""
        self._flows.set()

    def reset(self) -> None:
        """Reset all connections."""
        for one in [*self._sockets]:
            _abort(one)

    def close(self) -> None:
        """End the proxy and its connections."""
        self._listener.close()
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
        self._forward(client, server)

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                target.sendall(data)
        self._flows.wait()
        for one in (source, target):
            self._sockets.discard(one)
            _abort(one)


def _abort(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        # Wakes the thread that reads from it; closing alone does not.
        one.shutdown(socket.SHUT_RDWR)
    one.close()
