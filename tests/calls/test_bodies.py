"""Tests of hostile and broken replies: bounded memory, one layer of gzip, and errors of this package alone."""

from __future__ import annotations

import gzip
import json
import random
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import ByteStream
from tests.calls.servers import Answer, Server, meet, respond
from tests.calls.support import (
    BID,
    FOUND,
    LOGGED_IN,
    ONCE,
    REQUEST,
    Kind,
    Script,
    arm,
    client,
    perform,
    reply,
    scripted,
    stocked,
    stranger,
)

from freight_exchange import DecodeError, FreightExchange, FreightExchangeError, OutcomeUnknownError, TransportError

GOOD = json.dumps(FOUND).encode()
ZIPPED = {"Content-Encoding": "gzip"}
LIMIT = 10_000_000
"""Bytes of a decoded body at most (about: a little less is accepted, twice as much never)."""
Body = bytes | Callable[[], bytes]
"""Bytes, or what makes large ones for the test alone."""


def zipped(content: bytes, layers: int = 1) -> bytes:
    for _ in range(layers):
        content = gzip.compress(content, compresslevel=1, mtime=0)
    return content


READABLE: dict[str, tuple[Body, dict[str, str]]] = {
    "plain": (GOOD, {}), "gzip": (zipped(GOOD), ZIPPED),
    "gzip in capitals": (zipped(GOOD), {"Content-Encoding": "GZIP"}),
    "identity": (GOOD, {"Content-Encoding": "identity"}), "two members": (zipped(GOOD[:9]) + zipped(GOOD[9:]), ZIPPED),
    "zeros after the stream": (zipped(GOOD) + b"\0" * 512, ZIPPED), "byte-order mark": (b"\xef\xbb\xbf" + GOOD, {}),
    "html type": (GOOD, {"Content-Type": "text/html"}),
    "unknown charset": (GOOD, {"Content-Type": "application/json; charset=x-klingon"}),
    "nine megabytes of white space": (lambda: b" " * 9_000_000 + GOOD, {}),
}  # fmt: skip
UNREADABLE: dict[str, tuple[Body, dict[str, str]]] = {
    "no gzip": (GOOD, ZIPPED), "two layers": (zipped(GOOD, 2), ZIPPED),
    "two layers, declared": (zipped(GOOD, 2), {"Content-Encoding": "gzip, gzip"}),
    "brotli": (GOOD, {"Content-Encoding": "br"}), "deflate": (zlib.compress(GOOD), {"Content-Encoding": "deflate"}),
    "nonsense encoding": (GOOD, {"Content-Encoding": "x-none"}),
    "wrong checksum": (zipped(GOOD)[:-8] + b"\0" * 8, ZIPPED),
    "broken second member": (zipped(GOOD) + b"\x1f\x8b\x08\0\0\0\0\0\0\xff\xff\xff", ZIPPED),
    "bomb": (lambda: zipped(b" " * 5 * LIMIT + GOOD), ZIPPED),
    "bomb of members": (lambda: zipped(b" " * LIMIT) * 5, ZIPPED),
    "large": (lambda: b" " * 2 * LIMIT + GOOD, {}), "deep list": (b"[" * 100_000 + b"]" * 100_000, {}),
    "deep object": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, {}),
    "65 levels": (b'{"raterequests":' + b"[" * 65 + b"]" * 65 + b"}", {}),
    "not utf-8": (b'{"raterequests": {"0": {"index": \xff}}}', {}), "half": (GOOD[:-3], {}), "empty": (b"", {}),
    "white space": (b" \n", {}), "number": (b"42", {}), "text": (b'"ok"', {}), "list": (b"[1, 2, 3]", {}),
    "no collection": (b'{"message": "maintenance"}', {}), "collection is a number": (b'{"raterequests": 7}', {}),
    "collection is a text": (b'{"raterequests": "none"}', {}), "two documents": (GOOD + GOOD, {}),
    "index of 5,000 digits": (b'{"raterequests": [{"index": %s}]}' % (b"7" * 5000), {}),
    "index NaN": (b'{"raterequests": [{"index": NaN}]}', {}),
    "index infinity": (b'{"raterequests": [{"index": -Infinity}]}', {}),
    "index 1e999": (b'{"raterequests": [{"index": 1e999}]}', {}),
}  # fmt: skip


def bytes_of(body: Body, headers: dict[str, str]) -> Answer:
    """Answer each request with these bytes."""
    content = body if isinstance(body, bytes) else body()

    async def answer(_: Server, stream: ByteStream, __: bytes) -> bool:
        await stream.send(respond(content, headers=headers))
        return True

    return answer


@pytest.mark.parametrize("name", READABLE)
async def test_reply_in_an_odd_form_is_read(name: str) -> None:
    async with meet(bytes_of(*READABLE[name]), retries=ONCE) as (server, exchange):
        assert (await exchange.requests.get(REQUEST)).index == REQUEST
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", UNREADABLE)
async def test_reply_that_cannot_be_read_is_a_decode_error_and_for_a_write_a_doubt(name: str) -> None:
    async with meet(bytes_of(*UNREADABLE[name]), retries=ONCE) as (server, exchange):
        with pytest.raises(DecodeError) as read:
            await perform(exchange, Kind.READ)
        assert len(str(read.value)) < 1000
        with pytest.raises(OutcomeUnknownError):
            await perform(exchange, Kind.WRITE)
    assert len(server.requests) == 2


async def test_stream_of_gzip_that_ends_early_is_a_broken_connection() -> None:
    # A single byte is not known as gzip yet.
    whole, size = zipped(GOOD), 1

    async def answer(_: Server, stream: ByteStream, __: bytes) -> bool:
        await stream.send(respond(whole[:size], headers=ZIPPED))
        return True

    async with meet(answer, retries=ONCE) as (_, exchange):
        while (size := size + 1) < len(whole):
            with pytest.raises(TransportError):
                await perform(exchange, Kind.READ)
        await perform(exchange, Kind.READ)


@pytest.mark.virtual_time
@pytest.mark.parametrize("name", ["truncated_length", "truncated_chunks", "half_json"])
async def test_cut_body_is_a_broken_connection_and_a_whole_one_is_not(name: str) -> None:
    """The class tells a connection that broke off from a reply that can't be read."""
    sandbox = stocked()
    async with client(sandbox, retries=ONCE) as exchange:
        await exchange.login()
        arm(sandbox, name, Kind.READ)
        with pytest.raises(DecodeError if name == "half_json" else TransportError) as caught:
            await perform(exchange, Kind.READ)
        assert isinstance(caught.value, DecodeError) == (name == "half_json")


async def test_bomb_is_refused_in_bounded_memory() -> None:
    """50 MB in 49 kB."""
    async with meet(bytes_of(*UNREADABLE["bomb"]), retries=ONCE) as (_, exchange):
        await exchange.login()
        tracemalloc.start()
        try:
            with pytest.raises(DecodeError):
                await perform(exchange, Kind.READ)
            assert tracemalloc.get_traced_memory()[1] < 4 * LIMIT
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("part", ["body", "head", "chunks"])
async def test_endless_reply_is_given_up(part: str) -> None:
    sent = 0
    begin = {
        "body": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000000000\r\n\r\n",
        "head": b"HTTP/1.1 200 OK\r\n",
        "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    }[part]
    piece = {
        "body": b" " * 65_536,
        "head": b"X-Flood: " + b"a" * 65_000 + b"\r\n",
        "chunks": b"10000\r\n" + b" " * 65_536 + b"\r\n",
    }[part]

    async def answer(_: Server, stream: ByteStream, __: bytes) -> bool:
        nonlocal sent
        await stream.send(begin)
        while True:
            await stream.send(piece)
            sent += len(piece)

    async with meet(answer, retries=ONCE) as (_, exchange):
        with pytest.raises((DecodeError, TransportError)):
            await perform(exchange, Kind.READ)
    assert sent < 4 * LIMIT


# What the wire document leaves open


@pytest.mark.parametrize("last", [{"message": "No records found."}, b"", 204], ids=["message", "empty", "204"])
async def test_later_page_that_only_says_there_is_nothing_ends_the_listing(last: Any) -> None:
    """At page 0 it would be an error that says so; after a hundred good rows it is the end, as a 404 there is."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        offset, size = asked["offset"], asked["rowsperpage"]
        rows = [{"index": index + 1} for index in range(offset * size, min(100, (offset + 1) * size))]
        if rows:
            return reply(200, {"raterequests": rows})
        return httpx.Response(204) if last == 204 else reply(200, last)

    with scripted(answer):
        async with stranger(retries=ONCE) as exchange:
            assert len(await exchange.requests.search().collect()) == 100


# Any bytes


def _reads(service: Script, exchange: FreightExchange, content: bytes) -> Any:
    async def judge() -> None:
        service.answers[:] = [reply(200, content)]
        for read in (
            lambda: exchange.requests.search(page_size=10),
            lambda: exchange.offers.list(page_size=10),
            lambda: exchange.bids.list(page_size=10),
            lambda: exchange.routes.list(),
            lambda: exchange.currencies.list(),
            lambda: exchange.bids.submit(REQUEST, amount=1, currency=840),
            lambda: exchange.request("GET", "quote/bid"),
        ):
            try:
                repr(await read())
            except FreightExchangeError as error:
                str(error).encode()

    return judge()


REPLIES: list[object] = [
    {"raterequests": {"0": {"index": 4, "qty": 20, "weight": "640.5", "needdate": "2027-03-01 00:00:00"}}},
    {"offers": [{"index": 4, "offer": {"0": {"offerId": "7", "offerAmount": 12.5, "rates": {"Freight": 12}}}}]},
    {"bids": [{"index": 4, "price": 3, "currencyIndex": 840, "loadingPOC": {"name": "S", "email": "s@x.example"}}]},
    {"routes": {"0": {"index": 1, "cycutoff": "2027-03-01 00:00:00", "carrier": 2, "timezone": "Asia/Hong_Kong"}}},
    {"currencies": {"0": {"index": 1, "name": "D", "code": "USD"}}},
    BID,
    {"Unauthorized": None, **FOUND},
    LOGGED_IN,
]
ODDITIES: list[object] = [
    None, True, 0, -1, 10**40, 1e308, "", " ", "-0", "NaN", "1e999", "٣", "\ud800", "0000-00-00 00:00:00", [], {},
    [[]], {"0": None}, {"": {}}, {"index": []}, "x" * 5000, {"offerId": 1}, [1, 2, 3],
]  # fmt: skip
TOKENS = [b"NaN", b"1e999", b"1" * 6000, b"\xef\xbb\xbf", b"\\ud800", b"\xff\xfe", b"\0", b'"', b"{", b"]", b"[" * 500]


def _bent(value: object, chance: random.Random) -> object:
    """Return the value with a part exchanged, dropped or wrapped."""
    if chance.random() < 0.08:
        return chance.choice(ODDITIES)
    if isinstance(value, dict):
        return {key: _bent(item, chance) for key, item in value.items() if chance.random() > 0.03}
    if isinstance(value, list):
        return [_bent(item, chance) for item in value] * chance.choice([1, 1, 2])
    return [value] if chance.random() < 0.05 else value


def _broken(content: bytes, chance: random.Random) -> bytes:
    """Return the bytes with some of them exchanged, removed or inserted."""
    edited = bytearray(content)
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(edited) + 1)
        edited[place : place + chance.randrange(6)] = chance.choice([chance.randbytes(3), *TOKENS])
    return bytes(edited)


def _run(contents: list[bytes]) -> None:
    async def main() -> None:
        with scripted(reply(200)) as service:
            async with stranger(retries=ONCE) as exchange:
                await exchange.login()
                for content in contents:
                    await _reads(service, exchange, content)

    anyio.run(main)


def test_bent_replies_end_in_records_or_errors_of_this_package() -> None:
    chance = random.Random(20261120)
    contents = []
    for _ in range(150):
        content = json.dumps(_bent(chance.choice(REPLIES), chance)).encode("utf-8", "surrogatepass")
        contents.append(_broken(content, chance) if chance.random() < 0.5 else content)
    _run(contents)
