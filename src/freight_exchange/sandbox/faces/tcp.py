"""The sandbox exchange on real sockets, for what goes wrong below HTTP: resets, stalls, drips, lies about
lengths.

A server written for its faults. It owns its sockets down to the linger option: a polite server library cannot
send an RST, and says goodbye even where it should vanish. Runs under asyncio and trio.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from freight_exchange.sandbox.core.state_file import StateError
from freight_exchange.sandbox.faces.tcp_server import LOGGER, Answering, Conversation, Link, Server, Site, TcpFace

__all__ = ["Answering", "Site", "TcpFace", "refused_port", "serve_tcp", "stalled_listener"]

_BREATH = 0.5
_logger = logging.getLogger(LOGGER)


@asynccontextmanager
async def serve_tcp(
    exchange: Answering,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    clock: Callable[[], float] = time.time,
    site: Site | None = None,
) -> AsyncIterator[TcpFace]:
    """Serves `exchange` until the context is left, from the task that entered it.

    `port` is a free one unless told. `site` answers what lies outside the API, in place of a 404.

    No call ends the server: one at which `exchange` or `site` raises is answered by a 500, and the logger
    `freight_exchange_sandbox` has the traceback. A `StateError` does end it: what cannot be kept must not be answered.

    Performs every cut that begins once a connection stands. What comes before cannot be asked of a server
    that is already there, and is answered by a 500 that names it: `refused_port`, `stalled_listener`, a name
    that does not resolve and a `tls` context with an untrusted certificate are for that.

    A reset in the middle of a request goes out when its head has been read, for a head names the call's
    fault. An idle FIN after 0 seconds crosses with the next request on its connection, which is read and
    lost (the race that no client can win); after more, the connection closes once it has been idle that
    long.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=1024) as listener:
        listener.setblocking(False)
        name = f"[{host}]" if family == socket.AF_INET6 else host
        scheme = "http" if tls is None else "https"
        face = TcpFace(f"{scheme}://{name}:{listener.getsockname()[1]}/api")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_accept, listener, Server(exchange, clock, tls, face, site), tasks)
            yield face
            tasks.cancel_scope.cancel()


@contextmanager
def refused_port(host: str = "127.0.0.1") -> Iterator[int]:
    """A port that refuses connections: bound, so that no other program takes it, and not listening."""
    with socket.socket() as bound:
        bound.bind((host, 0))
        yield bound.getsockname()[1]


@contextmanager
def stalled_listener(host: str = "127.0.0.1", *, connects: bool = True) -> Iterator[int]:
    """A port on which nothing ever happens.

    With `connects` the system completes the TCP handshake and nobody answers what is sent, such as a TLS
    hello. Without it the queue is full and connecting hangs: so it is on Linux, while other systems may
    refuse.
    """
    with socket.socket() as listener:
        listener.bind((host, 0))
        listener.listen(128 if connects else 0)
        crowd = [] if connects else [socket.socket() for _ in range(4)]
        try:
            for waiting in crowd:
                waiting.setblocking(False)
                waiting.connect_ex(listener.getsockname())
            yield listener.getsockname()[1]
        finally:
            for waiting in crowd:
                waiting.close()


async def _accept(listener: socket.socket, server: Server, tasks: anyio.abc.TaskGroup) -> None:
    while True:
        await anyio.wait_readable(listener)
        try:
            accepted, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            continue
        except OSError as error:
            # Too many open files, say: those who have one will give it back.
            _logger.warning("the sandbox cannot take a connection now: %s", error)
            await anyio.sleep(_BREATH)
            continue
        server.face.connections += 1
        tasks.start_soon(_converse, accepted, server)


async def _converse(accepted: socket.socket, server: Server) -> None:
    link = Link(accepted)
    server.face.open_connections += 1
    try:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream: ByteStream = link
        if server.tls is not None:
            stream = await TLSStream.wrap(link, server_side=True, ssl_context=server.tls)
        await Conversation(server, link, stream).run()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ssl.SSLError):
        pass  # the client is gone, which is its right
    except StateError:
        raise
    except Exception:
        _logger.exception("a connection to the sandbox failed")
    finally:
        # Straight to the socket: TLS would say goodbye first, and a goodbye is not what a cut looks like.
        accepted.close()
        server.face.open_connections -= 1
