"""The proxy between the replicas of a trial and what they talk to."""

from __future__ import annotations

import contextlib
import socket
import time

from tools.fleet_trial.tcp_proxy import TcpProxy


def test_stalled_proxy_delivers_nothing_of_a_client_that_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = TcpProxy(listener.getsockname()[1])
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            server, _ = listener.accept()
            proxy.stall()
            client.sendall(b"head of an offer")
            # The proxy takes the head; the body waits unread behind it.
            time.sleep(0.05)
            client.sendall(b"body of an offer")
        proxy.resume()
        received = b""
        with server, contextlib.suppress(ConnectionResetError):
            received = server.recv(100)
        proxy.close()
    assert received == b""


def test_stalled_proxy_delivers_the_bytes_of_a_client_that_stays() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = TcpProxy(listener.getsockname()[1])
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            server, _ = listener.accept()
            proxy.stall()
            client.sendall(b"offer")
            proxy.resume()
            with server:
                received = server.recv(100)
        proxy.close()
    assert received == b"offer"
