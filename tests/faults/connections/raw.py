"""Raw TCP server and tunnel proxy that answer with scripted bytes."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import attrs
from anyio.abc import ByteStream, Listener, SocketAttribute, SocketStream
from anyio.streams.tls import TLSStream

__all__ = ["LOGGED_IN", "Proxy", "Server", "body_of", "proxying", "reply", "serving"]

Answer = Callable[["Server", ByteStream, bytes], Awaitable[bool]]
"""Answers one request, and returns whether the connection stays open."""

_BROKEN = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ssl.SSLError)
_USER = {"access_token": "tok-raw-1", "expires_on": 3600, "firstname": "A", "lastname": "B", "email": "a@b.example"}


def reply(body: object, *, status: str = "200 OK", version: str = "1.1", length: int | None = None) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/{version} {status}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content) if length is None else length}\r\n\r\n".encode() + content


LOGGED_IN = reply({"user": _USER})


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


def body_of(request: bytes) -> Any:
    return json.loads(request.partition(b"\r\n\r\n")[2] or b"null")


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
    server = Server(answer, logs_in)

    async def meet(stream: SocketStream) -> None:
        if tls is None:
            await server.meet(stream)
            return
        with contextlib.suppress(*_BROKEN):
            async with stream:
                await server.meet(await TLSStream.wrap(stream, ssl_context=tls, standard_compatible=False))

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, meet)
        server.url = f"http{'' if tls is None else 's'}://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/api"
        yield server
        tasks.cancel_scope.cancel()


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
    proxy = Proxy(list(answers))

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_serve, listener, proxy)
        proxy.url = f"http://{user and user + '@'}127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        yield proxy
        tasks.cancel_scope.cancel()


async def _serve(listener: Listener[SocketStream], proxy: Proxy) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, proxy.meet)
        await proxy.stops.wait()
        tasks.cancel_scope.cancel()
    await listener.aclose()
    proxy.stopped.set()
