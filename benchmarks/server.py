"""A server far from its own ceiling: keep-alive HTTP/1.1 with encoded replies at hand.

Run: `python -m benchmarks.server`. It prints its port, and ends with its standard input.

Under `/one/api` every listing holds one record and under `/page/api` one page of 100; under `/slow/api` there are
10,000 records, and every reply takes 20 ms.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Final

from benchmarks.records import LOGIN, page

LATENCY: Final = 0.02
PAGE: Final = 100
RECORDS: Final = 10_000


def encoded(content: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


_LOGIN: Final = encoded(json.dumps(LOGIN).encode())
_ONE: Final = encoded(page(1, 1))
_EMPTY: Final = encoded(page(1, 0))
_PAGES: Final = [encoded(page(1 + first, PAGE)) for first in range(0, RECORDS, PAGE)]


class Server(asyncio.Protocol):
    """Answers by path, and reads no more of a request than it must."""

    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            length = 0
            if (place := head.find(b"content-length:")) >= 0:
                length = int(head[place + 15 :].split(b"\r\n", 1)[0])
            if len(self._received) < end + 4 + length:
                return
            path = self._received.split(b" ", 2)[1]
            body = self._received[end + 4 : end + 4 + length]
            self._received = self._received[end + 4 + length :]
            self._answer(path, body)

    def _answer(self, path: bytes, body: bytes) -> None:
        if path.endswith(b"/login"):
            self._transport.write(_LOGIN)
        elif path.startswith(b"/one/"):
            self._transport.write(_ONE)
        elif path.startswith(b"/page/"):
            self._transport.write(_PAGES[0])
        else:
            number = json.loads(body)["offset"]
            reply = _PAGES[number] if number < len(_PAGES) else _EMPTY
            asyncio.get_running_loop().call_later(LATENCY, self._transport.write, reply)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
