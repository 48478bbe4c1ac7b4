"""Proxy to the tests' database that forwards a number of bytes."""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import closing, suppress

from psycopg.conninfo import make_conninfo
from tests.unit.store.postgres.databases import database_url

from freight_exchange.store.postgres.connection import DatabaseConnection

__all__ = ["Cutter"]


class Cutter:
    """Proxy that forwards a number of bytes from a client, and then nothing, not even the end of the connection."""

    def __init__(self) -> None:
        with closing(DatabaseConnection(database_url())) as database:
            info = database._open().info
            self._target = (info.host, info.port)
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = make_conninfo(database_url(), host="127.0.0.1", port=listener.getsockname()[1])
        self.left = sys.maxsize
        self._sockets = [listener]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                for target, two in ((self._forward, (client, server)), (self._return, (server, client))):
                    threading.Thread(target=target, args=two, daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536)[: self.left]:
                self.left -= len(data)
                server.sendall(data)

    def _return(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
