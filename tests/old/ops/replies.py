"""Replies of the operator's port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import attrs
from anyio.abc import SocketStream
from tests.old.ops.statuses import STATUS

from freight_exchange.bot.ops.probes import open_listener, serve

GET = b"GET /livez HTTP/1.1\r\nHost: bot\r\n\r\n"
HOST = "127.0.0.1"


@attrs.frozen
class Reply:
    code: int
    reason: str
    headers: dict[str, str]
    body: str


def read(raw: bytes) -> Reply:
    """Parse the reply to one request."""
    head, separator, body = raw.partition(b"\r\n\r\n")
    assert separator, raw
    status, *lines = head.decode("ascii").split("\r\n")
    version, code, reason = status.split(" ", 2)
    assert version == "HTTP/1.1"
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    assert headers["connection"] == "close"
    assert headers["cache-control"] == "no-store"
    return Reply(int(code), reason, headers, body.decode())


def fixed(accept: str) -> tuple[str, bytes]:
    """Return metrics that do not change."""
    return "text/plain; version=0.0.4; charset=utf-8", f"# \N{DELIVERY TRUCK} {accept}\nup 1\n".encode()


@asynccontextmanager
async def port(status: Any = None, timeout: float | None = None) -> AsyncIterator[int]:
    async with anyio.create_task_group() as tasks:
        listener, (host, number) = await open_listener(HOST, 0)
        assert host == HOST
        tasks.start_soon(serve, listener, status or (lambda: STATUS), fixed)
        yield number
        tasks.cancel_scope.cancel()


async def everything(stream: SocketStream) -> bytes:
    received = b""
    try:
        while True:
            received += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return received


async def reply_to(number: int, *components: bytes) -> bytes:
    with anyio.fail_after(60):
        async with await anyio.connect_tcp(HOST, number) as stream:
            for part in components:
                await stream.send(part)
            return await everything(stream)
