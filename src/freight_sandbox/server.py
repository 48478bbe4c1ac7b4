"""Player of scripts over sockets: an HTTP server that can end a connection with a reset, on asyncio and trio.

Server libraries close connections cleanly and cannot send an RST, so this server controls its sockets itself.
"""

from __future__ import annotations

import math
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, TaskGroup
from anyio.streams.tls import TLSStream

from freight_sandbox.wire import NOT_FOUND, Answering, Call, Conversation, End, Reply

Site = Callable[[Call], Awaitable[Reply]]
"""Handler of requests outside of the API. The paths of its calls are relative to the server's root."""


@asynccontextmanager
async def serve(
    exchange: Answering,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    clock: Callable[[], float] = time.time,
    site: Site | None = None,
) -> AsyncIterator[Server]:
    """Serve `exchange` until the end of the context.

    Port 0, the default, takes a free port. `site` answers paths outside of the API, which are otherwise a 404.

    What `exchange` or `site` raises ends the server: a change that cannot be saved must not be answered.

    Faults before there is a connection are a 500 with their names. For these use `refused_port`, `stalled_listener`, a
    name that does not resolve, or a `tls` context with an untrusted certificate.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=1024) as listener:
        listener.setblocking(False)
        name = f"[{host}]" if ":" in host else host
        url = f"http{'s' if tls else ''}://{name}:{listener.getsockname()[1]}/api"
        server = Server(url, exchange, clock, tls, site)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server._accept, listener, tasks)
            yield server
            tasks.cancel_scope.cancel()


@contextmanager
def refused_port(host: str = "127.0.0.1") -> Iterator[int]:
    """Yield a port that refuses connections. It is bound, so that no other program takes it, but does not listen."""
    with socket.socket() as bound:
        bound.bind((host, 0))
        yield bound.getsockname()[1]


@contextmanager
def stalled_listener(host: str = "127.0.0.1", port: int = 0, *, connects: bool = True) -> Iterator[int]:
    """Yield a port that never answers.

    With `connects`, the system completes the TCP handshake, but sent data, such as a TLS hello, is not answered.
    Without it, the accept queue is full: connecting hangs on Linux, and may be refused on other systems.
    """
    with socket.create_server((host, port), backlog=128 if connects else 0) as listener:
        fillers = [] if connects else [socket.socket() for _ in range(4)]
        with ExitStack() as stack:
            for waiting in map(stack.enter_context, fillers):
                waiting.setblocking(False)
                waiting.connect_ex(listener.getsockname())
            yield listener.getsockname()[1]


class Server:
    """Running server.

    Attributes:
        url: The API root, `http://127.0.0.1:PORT/api`.
        connections: Number of connections accepted.
        open_connections: Number of connections that are open now.
        requests: Number of requests whose head was read, also if they were cut short.
    """

    def __init__(
        self, url: str, exchange: Answering, clock: Callable[[], float], tls: ssl.SSLContext | None, site: Site | None
    ) -> None:
        self.url = url
        self.connections = self.open_connections = self.requests = 0
        self._exchange, self._clock, self._tls, self._site = exchange, clock, tls, site

    async def _accept(self, listener: socket.socket, tasks: TaskGroup) -> None:
        while True:
            await anyio.wait_readable(listener)
            try:
                accepted, _ = listener.accept()
            except (BlockingIOError, ConnectionError):
                continue
            self.connections += 1
            tasks.start_soon(self._serve, accepted)

    async def _serve(self, accepted: socket.socket) -> None:
        self.open_connections += 1
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream: ByteStream = _SocketStream(accepted)
            if self._tls is not None:
                stream = await TLSStream.wrap(stream, server_side=True, ssl_context=self._tls)
            if await self._converse(stream) is End.RST:
                # Closing sends an RST when the linger time is 0.
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ssl.SSLError):
            pass  # the client has closed the connection, as it may
        finally:
            # The socket is closed directly, as closing TLS would send a close_notify, which does not belong to a cut.
            accepted.close()
            self.open_connections -= 1

    async def _converse(self, stream: ByteStream) -> End:
        """Answer one request after another, and return the end of the connection."""
        conversation = Conversation(self._exchange, self._clock)
        data = b""
        while True:
            heads = conversation.heads
            answer = conversation.feed(data)
            self.requests += conversation.heads - heads
            if isinstance(answer, Call):
                answer = conversation.say(NOT_FOUND if self._site is None else await self._site(answer))
            data = b"" if answer is not None else await stream.receive()
            if answer is None:
                continue
            for at, part in enumerate(answer, 1):
                if isinstance(part, End):
                    return part
                if isinstance(part, bytes):
                    await stream.send(part)
                elif part == math.inf:
                    while True:
                        await stream.receive()  # until the client has closed the connection
                elif answer[at:] == [End.FIN]:
                    with anyio.move_on_after(part) as idle:
                        data = await stream.receive()
                    if not idle.cancelled_caught:
                        break
                else:
                    await anyio.sleep(part)


class _SocketStream(ByteStream):
    """Byte stream on a socket, without the buffers of an event loop."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        while True:
            await anyio.wait_readable(self._raw)
            try:
                if data := self._raw.recv(max_bytes):
                    return data
                raise anyio.EndOfStream
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[self._raw.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._raw)
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        self._raw.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        self._raw.close()
