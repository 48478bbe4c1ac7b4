"""HTTP/1.1 server over a socket, written by hand: it reads requests and plays scripts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from decimal import Decimal

import anyio
from anyio.abc import ByteStream
from tests.model.socket_runs.service import Call
from tests.model.socket_runs.sockets import Socket
from tests.model.socket_runs.wire1 import End, Script

__all__ = ["LONGEST_STALL", "call_of", "converse", "play"]

LONGEST_STALL = 20.0
"""Seconds after which a stalled connection is closed, to distinguish a client that hangs from one that waits."""


async def converse(connection: Socket, stream: ByteStream, answer: Callable[[Call], Script]) -> None:
    """Answer the requests of one connection."""
    left = b""
    while True:
        call, left = await _request(stream, left)
        if call is None or not await play(connection, stream, answer(call)):
            return


async def play(connection: Socket, stream: ByteStream, script: Script) -> bool:
    """Send the parts of the script; return `False` if it ends the connection."""
    for step in script:
        if isinstance(step, bytes):
            await stream.send(step)
        elif isinstance(step, float):
            await anyio.sleep(step)
        elif step is End.RESET:
            connection.reset()
            return False
        else:
            with anyio.move_on_after(LONGEST_STALL), contextlib.suppress(anyio.EndOfStream):
                if step is End.NEXT:
                    await connection.wait_readable()
                while step is End.STALL:
                    await stream.receive()
            return False
    return True


async def _request(stream: ByteStream, data: bytes) -> tuple[Call | None, bytes]:
    while b"\r\n\r\n" not in data:
        try:
            data += await stream.receive()
        except anyio.EndOfStream:
            return None, b""
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    method, target, _ = first.decode().split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    if b"transfer-encoding" in headers:
        content, rest = await _chunks(stream, rest)
    else:
        length = int(headers.get(b"content-length", b"0"))
        while len(rest) < length:
            rest += await stream.receive()
        content, rest = rest[:length], rest[length:]
    return call_of(method, target, headers.get(b"authorization", b""), content), rest


def call_of(method: str, target: str, authorization: bytes, content: bytes) -> Call:
    """Read the content of a request."""
    path = target.partition("?")[0].partition("/api/")[2]
    body = json.loads(content, parse_float=Decimal) if content else {}
    return Call(method=method, path=path, token=authorization.decode().removeprefix("Bearer "), body=body)


async def _chunks(stream: ByteStream, rest: bytes) -> tuple[bytes, bytes]:
    content = b""
    while True:
        while b"\r\n" not in rest:
            rest += await stream.receive()
        size, _, rest = rest.partition(b"\r\n")
        wanted = int(size, 16)
        while len(rest) < wanted + 2:
            rest += await stream.receive()
        content += rest[:wanted]
        rest = rest[wanted + 2 :]
        if not wanted:
            return content, rest
