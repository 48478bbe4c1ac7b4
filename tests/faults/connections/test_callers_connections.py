"""Tests of kept connections of a caller's HTTP client: bytes after a reply never answer the next call."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator

import anyio
import httpx
import httpx2
import pytest
from anyio.abc import ByteStream
from anyio.streams.tls import TLSAttribute, TLSStream
from tests.faults.connections.raw import Server, body_of, reply, serving
from tests.faults.connections.test_connections import EXTRA
from tests.faults.connections.test_sockets import trust

from freight_exchange import BadRequestError, FreightExchange, RetryPolicy

ONCE = RetryPolicy(attempts=1)
LIBRARIES = [httpx, httpx2]


@contextlib.asynccontextmanager
async def exchange_over(
    library: object, server: Server, verify: ssl.SSLContext | bool = True
) -> AsyncIterator[FreightExchange]:
    assert library in LIBRARIES
    client = (httpx2 if library is httpx2 else httpx).AsyncClient(trust_env=False, verify=verify)
    async with client as http_client:
        exchange = FreightExchange(
            server.url, email="a@b.example", password="pw", retries=ONCE, http_client=http_client
        )
        async with exchange:
            yield exchange


async def ask(exchange: FreightExchange, number: int) -> object:
    return await exchange.request("POST", "quote/getrequests", body={"n": number}, repeatable=True)


@pytest.mark.parametrize("library", LIBRARIES, ids=["httpx", "httpx2"])
@pytest.mark.parametrize("extra", EXTRA)
async def test_bytes_after_a_reply_never_answer_the_next_call(library: object, extra: str) -> None:
    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        with contextlib.suppress(anyio.BrokenResourceError):
            for piece in EXTRA[extra](reply({"n": body_of(request)["n"]})):
                await stream.send(piece)
        return True

    async with serving(answer) as server, exchange_over(library, server) as exchange:
        for number in range(3):
            assert await ask(exchange, number) == {"n": number}
    connections = [connection for connection, _ in server.requests]
    assert connections == sorted(set(connections)), "a connection with bytes left over was used again"


@pytest.mark.parametrize("library", LIBRARIES, ids=["httpx", "httpx2"])
async def test_a_second_refusal_of_a_read_never_refuses_the_next_write(library: object) -> None:
    """The write is committed. A stale 400 would report that it was not, and the caller would send it again."""
    refusal = reply({"message": "no such page"}, status="400 Bad Request")

    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        if b"submitoffer" not in request:
            await stream.send(refusal * 2)
            return True
        offer = {"index": 9, "offerAmount": 5, "currencyIndex": 840, "status": "pending"}
        await stream.send(reply(json.dumps({"bid": {"index": 4, "offer": offer}}).encode()))
        return True

    async with serving(answer) as server, exchange_over(library, server) as exchange:
        with pytest.raises(BadRequestError):
            await ask(exchange, 0)
        bid = await exchange.bids.submit(4, amount=5, currency=840)
    assert bid.index == 4


@pytest.mark.parametrize("library", LIBRARIES, ids=["httpx", "httpx2"])
async def test_a_record_that_tls_holds_back_never_refuses_the_next_write(library: object) -> None:
    """TLS delivers both replies in one record, so the second one has left the socket before a parser sees it."""
    server_side, client_side = trust()
    offer = {"index": 9, "offerAmount": 5, "currencyIndex": 840, "status": "pending"}

    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        if b"submitoffer" in request:
            await stream.send(reply({"bid": {"index": 4, "offer": offer}}))
        else:
            assert isinstance(stream, TLSStream)
            # Kept until the next is sent: two records in one segment.
            stream.extra(TLSAttribute.ssl_object).write(reply({"n": body_of(request)["n"]}))
            await stream.send(reply({"message": "no such page"}, status="400 Bad Request"))
        return True

    async with serving(answer, server_side) as server, exchange_over(library, server, client_side) as exchange:
        assert await ask(exchange, 0) == {"n": 0}
        assert (await exchange.bids.submit(4, amount=5, currency=840)).index == 4
    assert len({connection for connection, _ in server.requests}) == 2


@pytest.mark.parametrize("library", LIBRARIES, ids=["httpx", "httpx2"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_reply_in_order_keeps_its_connection(library: object, tls: bool) -> None:
    server_side, client_side = trust() if tls else (None, True)

    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        await stream.send(reply({"n": body_of(request)["n"]}))
        return True

    async with serving(answer, server_side) as server, exchange_over(library, server, client_side) as exchange:
        for number in range(4):
            assert await ask(exchange, number) == {"n": number}
    assert server.connections == 1
