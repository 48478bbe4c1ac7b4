"""Tests of connection reuse: no reply answers another call, and a broken connection costs a read nothing."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import anyio
import httpx
import pytest
import trustme
from anyio.abc import ByteStream
from tests.faults.connections.raw import LOGGED_IN, Answer, Server, body_of, reply, serving
from tests.faults.connections.test_sockets import trust

from freight_exchange import FreightExchange, FreightExchangeError, OutcomeUnknownError, RetryPolicy, TransportError

ONCE = RetryPolicy(attempts=1)


@contextlib.asynccontextmanager
async def client_of(
    answer: Answer, *, tls: bool = False, **options: object
) -> AsyncIterator[tuple[Server, FreightExchange]]:
    server_side, client_side = trust() if tls else (None, True)
    arguments: dict[str, Any] = {"retries": ONCE, "verify": client_side, **options}
    async with (
        serving(answer, server_side) as server,
        FreightExchange(server.url, email="a@b.example", password="pw", **arguments) as exchange,
    ):
        await exchange.login()
        yield server, exchange


def numbered(request: bytes) -> dict[str, object]:
    return {"n": body_of(request)["n"]}


async def ask(exchange: FreightExchange, number: int) -> object:
    return await exchange.request("POST", "quote/getrequests", body={"n": number}, repeatable=True)


FORGED = reply({"n": "forged"})
EXTRA: dict[str, Callable[[bytes], list[bytes]]] = {
    "second_reply": lambda whole: [whole + FORGED],
    "second_reply_in_another_record": lambda whole: [whole, FORGED],
    "half_a_reply": lambda whole: [whole + FORGED[:30]],
    "head_of_a_reply": lambda whole: [whole + FORGED.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"],
    "one_byte": lambda whole: [whole + b"\n"],
    "long_tail": lambda whole: [whole + FORGED * 4000],
}


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("extra", EXTRA)
async def test_bytes_after_a_reply_never_answer_the_next_call(extra: str, tls: bool) -> None:
    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        for piece in EXTRA[extra](reply(numbered(request))):
            await stream.send(piece)
        return True

    async with client_of(answer, tls=tls) as (server, exchange):
        for number in range(3):
            assert await ask(exchange, number) == {"n": number}
    connections = [connection for connection, _ in server.requests]
    assert connections == sorted(set(connections)), "a connection with bytes left over was used again"


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_bytes_that_come_while_a_connection_is_idle_never_answer_a_call(tls: bool) -> None:
    sent = anyio.Event()

    async def answer(server: Server, stream: ByteStream, request: bytes) -> bool:
        await stream.send(reply(numbered(request)))
        if len(server.requests) == 1:
            await anyio.sleep(0.02)
            with contextlib.suppress(anyio.BrokenResourceError):
                await stream.send(FORGED)
            sent.set()
        return True

    async with client_of(answer, tls=tls) as (server, exchange):
        assert await ask(exchange, 1) == {"n": 1}
        await sent.wait()
        await anyio.sleep(0.02)
        assert await ask(exchange, 2) == {"n": 2}
    assert [connection for connection, _ in server.requests] == [1, 2]


async def test_a_body_longer_than_its_length_ends_the_connection() -> None:
    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        whole = reply(numbered(request), length=8)
        await stream.send(whole + b" " * 5 + FORGED)
        return True

    async with client_of(answer) as (server, exchange):
        for number in range(2):
            assert await ask(exchange, number) == {"n": number}
    assert [connection for connection, _ in server.requests] == [1, 2]


@pytest.mark.parametrize("head", [b"", b"Connection: keep-alive\r\n"], ids=["bare", "keep-alive"])
async def test_http_1_0_closes_after_each_reply(head: bytes) -> None:
    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        await stream.send(
            reply(numbered(request), version="1.0").replace(b"\r\n\r\n", b"\r\n" + head + b"\r\n") + FORGED
        )
        return bool(head)

    async with client_of(answer) as (server, exchange):
        for number in range(2):
            assert await ask(exchange, number) == {"n": number}
    assert [connection for connection, _ in server.requests] == [1, 2]


async def test_a_reply_in_order_keeps_its_connection() -> None:
    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        await stream.send(reply(numbered(request)))
        return True

    for tls in (False, True):
        async with client_of(answer, tls=tls) as (server, exchange):
            for number in range(5):
                assert await ask(exchange, number) == {"n": number}
        assert server.connections == 1


def cut(*, reset: bool, after: int = 1, begun: bytes = b"") -> Answer:
    """Answer `after` requests on each connection, and cut it after the next request has arrived completely."""

    async def answer(server: Server, stream: ByteStream, request: bytes) -> bool:
        here = [one for one in server.requests if one[0] == server.requests[-1][0]]
        if len(here) <= after:
            await stream.send(reply(numbered(request)))
            return True
        if begun:
            await stream.send(begun)
        if reset:
            raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    return answer


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
async def test_a_kept_connection_that_breaks_costs_a_read_no_attempt(reset: bool) -> None:
    retries: list[object] = []
    async with client_of(cut(reset=reset), hooks=[retries.append]) as (server, exchange):
        for number in range(4):
            assert await ask(exchange, number) == {"n": number}
    assert [type(event).__name__ for event in retries].count("Retry") == 0
    # Each second one was sent on a connection that was cut, and then on a fresh one.
    assert [body_of(request)["n"] for _, request in server.requests] == [0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("begun", [b"H", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"], ids=["head", "body"])
async def test_reply_of_one_byte_counts_as_an_attempt(begun: bytes) -> None:
    async with client_of(cut(reset=False, begun=begun)) as (server, exchange):
        await ask(exchange, 0)
        with pytest.raises(FreightExchangeError):
            await ask(exchange, 1)
    assert len(server.requests) == 2


async def test_a_fresh_connection_that_breaks_is_an_attempt() -> None:
    async with client_of(cut(reset=False, after=0)) as (server, exchange):
        with pytest.raises(FreightExchangeError, match="broke"):
            await ask(exchange, 0)
    # The first went out on the connection of the login, which is a reused one, and then on a fresh one.
    assert len(server.requests) == 2


async def test_a_write_is_sent_once_on_a_connection_of_its_own() -> None:
    async with client_of(cut(reset=False, after=0)) as (server, exchange):
        with pytest.raises(OutcomeUnknownError):
            await exchange.request("POST", "quote/other", body={"n": 1})
    assert [connection for connection, _ in server.requests] == [2]


async def test_a_login_on_a_kept_connection_is_not_repeated() -> None:
    logins = 0

    async def answer(server: Server, stream: ByteStream, request: bytes) -> bool:
        nonlocal logins
        if request.startswith(b"POST /api/login"):
            logins += 1
            if logins > 1:
                return False
            await stream.send(LOGGED_IN)
        else:
            await stream.send(reply({"Unauthorized": "expired"}, status="401 Unauthorized"))
        return True

    async with (
        serving(answer, logs_in=False) as server,
        FreightExchange(server.url, email="a@b.example", password="pw", retries=ONCE) as exchange,
    ):
        await exchange.login()
        with pytest.raises(FreightExchangeError):
            await ask(exchange, 1)
    assert logins == 2


async def test_a_connection_is_kept_for_as_long_as_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    for module in ("freight_exchange.transport.http.pool", "httpcore._async.http11"):
        monkeypatch.setattr(f"{module}.time.monotonic", lambda: now[0])

    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        await stream.send(reply(numbered(request)))
        return True

    for keepalive, expected in ((120, [1, 1, 2]), (20, [1, 2, 3])):
        async with client_of(answer, keepalive=keepalive) as (server, exchange):
            await ask(exchange, 0)
            for seconds in (33, 125):
                now[0] += seconds
                await ask(exchange, 1)
        assert [connection for connection, _ in server.requests] == expected


async def test_bytes_that_come_while_a_callers_connection_is_idle_never_answer_a_call() -> None:
    """The pool of httpx finds the bytes in the socket."""

    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        await stream.send(reply(numbered(request)))
        await anyio.sleep(0.01)
        with contextlib.suppress(anyio.BrokenResourceError):
            await stream.send(FORGED)
        return True

    async with serving(answer) as server, httpx.AsyncClient(trust_env=False) as http_client:
        exchange = FreightExchange(
            server.url, email="a@b.example", password="pw", retries=ONCE, http_client=http_client
        )
        async with exchange:
            for number in range(3):
                assert await ask(exchange, number) == {"n": number}
                # What comes later than the reply, its own pool finds in the socket.
                await anyio.sleep(0.03)


@pytest.mark.parametrize(
    ("flaw", "words"),
    [
        ("expired", "has expired: the server needs a new one"),
        ("other_host", "is for another host: check the host in base_url"),
        ("unknown", "comes from an unknown certificate authority: if it is a private one, load it"),
        ("self_signed", "comes from a private certificate authority: load that authority"),
    ],
)
async def test_error_names_the_problem_of_a_certificate(flaw: str, words: str) -> None:
    authority = trustme.CA()
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    client_side = ssl.create_default_context()
    if flaw in ("expired", "other_host"):
        authority.configure_trust(client_side)
    expiry = datetime(2020, 1, 1, tzinfo=UTC) if flaw == "expired" else None
    issued = authority.issue_cert("10.9.8.7" if flaw == "other_host" else "127.0.0.1", not_after=expiry)
    issued.configure_cert(server_side)
    if flaw == "self_signed":
        # The authority's own certificate is part of what the server sends.
        chain = issued.cert_chain_pems[0].bytes() + authority.cert_pem.bytes()
        with issued.private_key_pem.tempfile() as key, trustme.Blob(chain).tempfile() as chained:
            server_side.load_cert_chain(chained, key)

    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        return True

    async with (
        serving(answer, server_side) as server,
        FreightExchange(server.url, email="a@b.example", password="pw", verify=client_side) as exchange,
    ):
        with pytest.raises(TransportError) as caught:
            await exchange.login()
        where = server.url.removeprefix("https://").removesuffix("/api")
    assert caught.value.message.startswith(f"the certificate of {where} {words}")
    assert (caught.value.attempts, caught.value.permanent, caught.value.unsent) == (1, True, True)


async def test_a_host_that_does_not_exist() -> None:
    async with FreightExchange("https://no-such-host.invalid/api", email="a@b.example", password="pw") as exchange:
        with pytest.raises(TransportError, match=r"no connection to no-such-host\.invalid:443: ") as caught:
            await exchange.with_options(retries=ONCE).login()
    assert caught.value.unsent
