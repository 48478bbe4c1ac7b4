"""Tests of the proxy between the replicas of a trial and their servers."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tools.fleet_trial.tcp_proxy import TcpProxy


@contextmanager
def stalled() -> Iterator[tuple[TcpProxy, socket.socket, socket.socket]]:
    """Connect a client through a stalled proxy; yield the proxy, the client and the server's end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = TcpProxy(listener.getsockname()[1])
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            server, _ = listener.accept()
            proxy.stall()
            with server:
                yield proxy, client, server
        proxy.close()


def test_stalled_proxy_delivers_nothing_of_a_client_that_left() -> None:
    with stalled() as (proxy, client, server):
        client.sendall(b"head of an offer")
        # The proxy takes the head; the body waits unread behind it.
        time.sleep(0.05)
        client.sendall(b"body of an offer")
        client.close()
        proxy.resume()
        received = b""
        with contextlib.suppress(ConnectionResetError):
            received = server.recv(100)
    assert received == b""


def test_stalled_proxy_delivers_what_a_client_that_stays_has_sent() -> None:
    with stalled() as (proxy, client, server):
        client.sendall(b"offer")
        proxy.resume()
        received = server.recv(100)
    assert received == b"offer"
