"""HTTP proxy for the pages about proxies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream

__all__ = ["serve_proxy"]


@asynccontextmanager
async def serve_proxy() -> AsyncIterator[tuple[str, list[str]]]:
    """Serve an HTTP proxy; yield its URL, and the list of requested targets."""
    targets: list[str] = []

    async def relay(source: ByteStream, sink: ByteStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for piece in source:
                await sink.send(piece)
            await sink.send_eof()

    async def serve(stream: SocketStream) -> None:
        async with stream:
            head = b""
            while b"\r\n" not in head:
                head += await stream.receive()
            line, _, rest = head.partition(b"\r\n")
            method, target, version = line.decode().split(" ")
            targets.append(target)
            url = urlsplit(target)
            assert url.hostname is not None
            assert url.port is not None
            async with await anyio.connect_tcp(url.hostname, url.port) as there:
                # One request a connection: a second one would come with a target of its own.
                await there.send(f"{method} {url.path} {version}\r\nConnection: close\r\n".encode() + rest)
                async with anyio.create_task_group() as both:
                    both.start_soon(relay, stream, there)
                    await relay(there, stream)
                    both.cancel_scope.cancel()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}", targets
        tasks.cancel_scope.cancel()
