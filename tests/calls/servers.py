"""Servers that reply with scripted bytes: raw TCP with or without TLS, a tunnel proxy, and HTTP/2."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import anyio
import anyio.abc
import attrs
import h2.config
import h2.connection
import h2.events
import trustme
from anyio.abc import ByteStream, Listener, SocketAttribute, SocketStream
from anyio.streams.tls import TLSStream

from freight_exchange import FreightExchange

Answer = Callable[["Server", ByteStream, bytes], Awaitable[bool]]
"""Answers one request, and returns whether the connection stays open."""

_BROKEN = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ssl.SSLError)
_USER = {"access_token": "tok-raw-1", "expires_on": 3600, "firstname": "A", "lastname": "B", "email": "a@b.example"}


def respond(
    body: object,
    *,
    status: str = "200 OK",
    version: str = "1.1",
    length: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Write a reply."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {
        "Content-Type": "application/json",
        **(headers or {}),
        "Content-Length": str(len(content) if length is None else length),
    }
    lines = [f"HTTP/{version} {status}", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


LOGGED_IN = respond({"user": _USER})


def trust() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the TLS contexts of a server and of a client that trusts it."""
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


def body_of(request: bytes) -> Any:
    return json.loads(request.partition(b"\r\n\r\n")[2] or b"null")


def reset(stream: ByteStream) -> None:
    """Have the closing of the connection send an RST."""
    raw: socket.socket = stream.extra(SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@attrs.define
class Server:
    """Server that reads requests one by one, answers each login, and passes the others to `answer`."""

    answer: Answer
    logs_in: bool = True
    url: str = ""
    connections: int = 0
    requests: list[tuple[int, bytes]] = attrs.field(factory=list)
    """Connection, counted from 1, and bytes of each request, without the logins."""

    async def meet(self, stream: ByteStream) -> None:
        self.connections += 1
        number = self.connections
        with contextlib.suppress(*_BROKEN):
            async with stream:
                while (request := await _request(stream)) is not None:
                    if self.logs_in and b"/login " in request.partition(b"\r\n")[0]:
                        await stream.send(LOGGED_IN)
                        continue
                    self.requests.append((number, request))
                    if not await self.answer(self, stream, request):
                        return


async def _request(stream: ByteStream) -> bytes | None:
    data = b""
    while True:
        head, end, body = data.partition(b"\r\n\r\n")
        if end:
            lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            if len(body) >= (int(lengths[0].split(b":")[1]) if lengths else 0):
                return data
        try:
            data += await stream.receive()
        except anyio.EndOfStream:
            return None


@contextlib.asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None, *, logs_in: bool = True) -> AsyncIterator[Server]:
    """Serve on a free port of this machine."""
    server = Server(answer, logs_in)

    async def meet_one(stream: SocketStream) -> None:
        if tls is None:
            await server.meet(stream)
            return
        with contextlib.suppress(*_BROKEN):
            async with stream:
                await server.meet(await TLSStream.wrap(stream, ssl_context=tls, standard_compatible=False))

    async with _listening(meet_one) as port:
        server.url = f"http{'' if tls is None else 's'}://127.0.0.1:{port}/api"
        yield server


@contextlib.asynccontextmanager
async def _listening(meet_one: Callable[[SocketStream], Awaitable[None]]) -> AsyncIterator[int]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, meet_one)
        yield listener.extra(SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def meet(answer: Answer, *, tls: bool = False, **options: Any) -> AsyncIterator[tuple[Server, FreightExchange]]:
    """Serve, and yield a client with the SDK's own connections."""
    server_side, client_side = trust() if tls else (None, None)
    if client_side is not None:
        options["verify"] = client_side
    async with (
        serving(answer, server_side) as server,
        FreightExchange(server.url, email="a@b.example", password="pw-raw-1", **options) as exchange,
    ):
        yield server, exchange


@attrs.define
class Proxy:
    """Proxy that connects to the target of CONNECT, or answers from `answers` in turn; an empty answer connects."""

    answers: list[bytes] = attrs.field(factory=list)
    url: str = ""
    requests: list[bytes] = attrs.field(factory=list)
    reroute: int | None = None
    """Port to which every tunnel leads instead of the requested one."""
    stalls: bool = False
    stops: anyio.Event = attrs.field(factory=anyio.Event)
    """Set to stop the listener."""
    stopped: anyio.Event = attrs.field(factory=anyio.Event)

    @property
    def at(self) -> str:
        return self.url.rsplit("/", 1)[1].rsplit("@", 1)[-1]

    async def meet(self, stream: SocketStream) -> None:
        with contextlib.suppress(*_BROKEN):
            async with stream:
                request = await _request(stream)
                if request is None:
                    return
                self.requests.append(request)
                if self.stalls:
                    await anyio.sleep_forever()
                answer = self.answers.pop(0) if self.answers else b""
                if answer:
                    await stream.send(answer)
                    with contextlib.suppress(anyio.EndOfStream):
                        await stream.receive()
                    return
                host, port = request.split(b" ")[1].decode().rsplit(":", 1)
                async with await anyio.connect_tcp(host, self.reroute or int(port)) as behind:
                    await stream.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(_pump, stream, behind)
                        await _pump(behind, stream)


async def _pump(source: SocketStream, sink: SocketStream) -> None:
    with contextlib.suppress(*_BROKEN):
        async for data in source:
            await sink.send(data)
    with contextlib.suppress(*_BROKEN):
        await sink.send_eof()


@contextlib.asynccontextmanager
async def proxying(*answers: bytes, user: str = "") -> AsyncIterator[Proxy]:
    """Run a proxy on a free port of this machine."""
    proxy = Proxy(list(answers))
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(_serve_proxy, listener, proxy)
        proxy.url = f"http://{user and user + '@'}127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        yield proxy
        tasks.cancel_scope.cancel()


async def _serve_proxy(listener: Listener[SocketStream], proxy: Proxy) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, proxy.meet)
        await proxy.stops.wait()
        tasks.cancel_scope.cancel()
    await listener.aclose()
    proxy.stopped.set()


H2Reply = tuple[int, dict[str, str], bytes] | None
"""Status, headers and body; `None` resets the connection."""


@contextlib.asynccontextmanager
async def serving_h2(answer: Callable[[str], H2Reply]) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """Serve HTTP/2; yield the API root and the TLS context of a client. `answer` is given the path of each request."""
    tls, client = trust()
    tls.set_alpn_protocols(["h2"])

    async def converse(plain: SocketStream) -> None:
        with contextlib.suppress(*_BROKEN):
            async with plain, await TLSStream.wrap(plain, ssl_context=tls, standard_compatible=False) as stream:
                await _converse(stream, answer)

    async with _listening(converse) as port:
        yield f"https://127.0.0.1:{port}/api", client


async def _converse(stream: TLSStream, answer: Callable[[str], H2Reply]) -> None:
    link = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
    paths: dict[int, str] = {}
    link.initiate_connection()
    while True:
        await stream.send(link.data_to_send())
        for event in _received(link, await stream.receive()):
            if isinstance(event, h2.events.RequestReceived):
                assert event.stream_id is not None
                paths[event.stream_id] = bytes(dict(event.headers or ())[b":path"]).decode()
            elif isinstance(event, h2.events.StreamEnded):
                assert event.stream_id is not None
                reply = answer(paths.pop(event.stream_id).removeprefix("/api/"))
                if reply is None:
                    reset(stream)
                    raw: socket.socket = stream.extra(SocketAttribute.raw_socket)
                    raw.shutdown(socket.SHUT_RDWR)
                    return
                status, headers, body = reply
                head = [(b":status", b"%d" % status), *((k.encode(), v.encode()) for k, v in headers.items())]
                link.send_headers(event.stream_id, head)
                link.send_data(event.stream_id, body, end_stream=True)


def _received(link: h2.connection.H2Connection, data: bytes) -> list[h2.events.Event]:
    # The client in this process has the same logger, and is not to answer for what this end of the wire logs.
    logger = logging.getLogger("hpack.hpack")
    logger.disabled = True
    try:
        return list(link.receive_data(data))
    finally:
        logger.disabled = False
