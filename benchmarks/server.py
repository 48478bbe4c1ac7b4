"""Server far from its own ceiling: HTTP/1.1 over open connections, with replies that are encoded beforehand.

`python -m benchmarks.server` prints its port, and ends with its standard input. Under `/one/api` every listing holds
one record, under `/page/api` 10,000; under `/slow/api` as many, 20 ms a reply.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, Final

LATENCY: Final = 0.02
PAGE: Final = 100
RECORDS: Final = 10_000
LOGIN: Final = b'{"user":{"access_token":"benchmark","expires_on":864000000,"email":"ben@demo.example"}}'

_TYPES: Final = ("Shipping", "Air Freight", "Trucking", "Warehousing")
_PACKAGINGS: Final = ("Pallet", "Carton", "Piece")
_PORTS: Final = ("Hong Kong", "Shenzhen", "Singapore", "Rotterdam", "Hamburg")
_INCOTERMS: Final = ("FOB", "CIF", "EXW", "DAP")


def record(index: int) -> dict[str, Any]:
    """Make a rate request as the service shows it (service document, 2); no two are alike."""
    quantity, port = 1 + index % 80, _PORTS[index % 5]
    return {
        "index": index,
        "commodityname": f"Ceramic tiles, lot {index}",
        "refId": f"FX{index:06d}",
        "requesttype": _TYPES[index % 4],
        "status": "Available",
        "origin": port,
        "destination": "Long Beach",
        "needdate": f"2027-{1 + index % 12:02d}-{1 + index % 28:02d} 00:00:00",
        "notes": f"{quantity} pallets of Ceramic tiles, lot {index}, from {port} to Long Beach",
        "qty": quantity,
        "packaging": _PACKAGINGS[index % 3],
        "measureUnit": "m",
        "width": 1.2,
        "height": round(0.3 + index % 170 / 100, 2),
        "length": 1,
        "massUnit": "kg",
        "weight": round(40 + index % 3000 / 4, 2),
        "incoterm": _INCOTERMS[index % 4],
        "hazardous": int(index % 9 == 0),
    }


def page(first: int, count: int) -> bytes:
    """Write the reply that lists `count` requests."""
    records = {str(place): record(first + place) for place in range(count)}
    return json.dumps({"raterequests": records}, separators=(",", ":")).encode()


def _reply(content: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


class Server(asyncio.Protocol):
    """Connection that answers by path, and reads no more of a request than it must."""

    login, one = _reply(LOGIN), _reply(page(1, 1))
    pages = [_reply(page(1 + first, PAGE)) for first in range(0, RECORDS, PAGE)]

    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n") + 4) > 3:
            head = self._received[:end].lower()
            length = 0
            if (place := head.find(b"content-length:")) >= 0:
                length = int(head[place + 15 :].split(b"\r\n", 1)[0])
            if len(self._received) < end + length:
                return
            body, self._received = self._received[end : end + length], self._received[end + length :]
            self._answer(head.split(b" ", 2)[1], body)

    def _answer(self, path: bytes, body: bytes) -> None:
        if path.endswith(b"/login"):
            self._transport.write(self.login)
        elif path.startswith(b"/one/"):
            self._transport.write(self.one)
        else:
            wanted = json.loads(body)
            size = wanted.get("rowsperpage", 1)
            first = wanted.get("offset", 0) * size
            if size == PAGE and first < RECORDS:
                reply = self.pages[first // PAGE]
            else:
                reply = _reply(page(1 + first, max(0, min(size, RECORDS - first))))
            if path.startswith(b"/slow/"):
                asyncio.get_running_loop().call_later(LATENCY, self._transport.write, reply)
            else:
                self._transport.write(reply)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
