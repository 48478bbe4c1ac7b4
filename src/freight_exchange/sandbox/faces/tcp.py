"""The sandbox exchange on real sockets, with faults below HTTP: resets, stalls, drips and false lengths.

Server libraries close connections cleanly and cannot send an RST, so this server controls its sockets itself. It runs
on asyncio and trio.
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
from freight_exchange.sandbox.faces.tcp_server import (
    LOGGER,
    Answering,
    Server,
    ServerConnection,
    Site,
    SocketStream,
    TcpFace,
)

__all__ = ["Answering", "Site", "TcpFace", "refused_port", "serve_tcp", "stalled_listener"]

_ACCEPT_RETRY_DELAY = 0.5
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
    """Serve `exchange` until the end of the context.

    Port 0, the default, takes a free port. `site` answers paths outside of the API, which are otherwise a 404.

    If `exchange` or `site` raises, the reply is a 500, and the logger `freight_exchange_sandbox` logs the traceback.
    Only a `StateError` ends the server, since a change that cannot be saved must not be answered.

    The server performs all network faults that begin on an open connection. For earlier ones, such as a refused
    connection, the reply is a 500 with the name of the fault. For these use `refused_port`, `stalled_listener`, a name
    that does not resolve, or a `tls` context with an untrusted certificate.

    A reset within a request is sent after its head was read, because the head identifies the call. An idle FIN after 0
    seconds closes the connection just when the next request arrives, which no client can avoid. With more seconds, it
    closes a connection that was idle for that long.
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
    """Yield a port that refuses connections. It is bound, so that no other program takes it, but does not listen."""
    with socket.socket() as bound:
        bound.bind((host, 0))
        yield bound.getsockname()[1]


@contextmanager
def stalled_listener(host: str = "127.0.0.1", *, connects: bool = True) -> Iterator[int]:
    """Yield a port that never answers.

    With `connects`, the system completes the TCP handshake, but sent data, such as a TLS hello, is not answered.
    Without it, the accept queue is full: connecting hangs on Linux, and may be refused on other systems.
    """
    with socket.socket() as listener:
        listener.bind((host, 0))
        listener.listen(128 if connects else 0)
        fillers = [] if connects else [socket.socket() for _ in range(4)]
        try:
            for waiting in fillers:
                waiting.setblocking(False)
                waiting.connect_ex(listener.getsockname())
            yield listener.getsockname()[1]
        finally:
            for waiting in fillers:
                waiting.close()


async def _accept(listener: socket.socket, server: Server, tasks: anyio.abc.TaskGroup) -> None:
    while True:
        await anyio.wait_readable(listener)
        try:
            accepted, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            continue
        except OSError as error:
            # Usually there are too many open files: wait until some are closed.
            _logger.warning("sandbox cannot accept a connection: %s; retrying in %g s", error, _ACCEPT_RETRY_DELAY)
            await anyio.sleep(_ACCEPT_RETRY_DELAY)
            continue
        server.face.connections += 1
        tasks.start_soon(_serve_connection, accepted, server)


async def _serve_connection(accepted: socket.socket, server: Server) -> None:
    link = SocketStream(accepted)
    server.face.open_connections += 1
    try:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream: ByteStream = link
        if server.tls is not None:
            stream = await TLSStream.wrap(link, server_side=True, ssl_context=server.tls)
        await ServerConnection(server, link, stream).run()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ssl.SSLError):
        pass  # the client has closed the connection, as it may
    except StateError:
        raise
    except Exception:
        _logger.exception("sandbox failed on a connection; the connection is closed")
    finally:
        # The socket is closed directly, as closing TLS would send a close_notify, which does not belong to a cut.
        accepted.close()
        server.face.open_connections -= 1
