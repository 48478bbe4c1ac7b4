"""A server far from its own ceiling: keep-alive HTTP/1.1 with encoded replies at hand.

Run: `python -m benchmarks.server`.
"""

from __future__ import annotations

import asyncio
import json
import sys

RECORD = {
    "index": 1,
    "commodityname": "Ceramic tiles",
    "refId": "FX000001",
    "requesttype": "Shipping",
    "status": "Available",
    "origin": "Hong Kong",
    "destination": "Long Beach",
    "needdate": "2027-03-01 00:00:00",
    "notes": "20 pallets of Ceramic tiles from Hong Kong to Long Beach",
    "qty": 20,
    "packaging": "Pallet",
    "measureUnit": "m",
    "width": 1.2,
    "height": 0.9,
    "length": 1.0,
    "massUnit": "kg",
    "weight": 640.5,
    "incoterm": "FOB",
    "hazardous": 0,
}
LOGIN = {"user": {"access_token": "benchmark", "expires_on": 86400, "firstname": "Ben", "email": "ben@demo.example"}}
"""What the service sends for one request and for a login (service document, 2)."""


def listing(count: int) -> dict[str, object]:
    return {"raterequests": {str(place): RECORD | {"index": place + 1} for place in range(count)}}


def encoded(body: object) -> bytes:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


REPLIES = {b"/api/login": encoded(LOGIN), b"/one/api/quote/getrequests": encoded(listing(1))}
PAGE = encoded(listing(100))
ONE = encoded(listing(1))


class Server(asyncio.Protocol):
    """Answers by path, and reads no more of a request than where it ends."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = b""

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
            self._received = self._received[end + 4 + length :]
            if path.endswith(b"/login"):
                self._transport.write(REPLIES[b"/api/login"])
            else:
                self._transport.write(PAGE if path.startswith(b"/page/") else ONE)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
