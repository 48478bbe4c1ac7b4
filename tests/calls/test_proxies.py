"""Tests of proxies: which failures prove that nothing was sent, which host an error names, and the environment."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from anyio.abc import ByteStream
from tests.calls.servers import Proxy, Server, proxying, respond, serving, trust
from tests.calls.support import BRISK, QUICK, unkept

from freight_exchange import FreightExchange, OutcomeUnknownError, TransportError


def refusal(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


async def fine(_: Server, stream: ByteStream, request: bytes) -> bool:
    await stream.send(respond({"ok": True}))
    return True


@contextlib.asynccontextmanager
async def behind(proxy: Proxy, answer: Any = fine, **options: Any) -> AsyncIterator[tuple[Server, FreightExchange]]:
    """Create a logged-in client of a TLS server behind a proxy. Each request asks for a tunnel of its own."""
    server_side, client_side = trust()
    settings = {"retries": BRISK, "middleware": [unkept], "proxy": proxy.url, "verify": client_side, **options}
    async with (
        serving(answer, server_side) as server,
        FreightExchange(server.url, email="a@b.example", password="pw", **settings) as exchange,
    ):
        await exchange.login()
        proxy.requests.clear()
        yield server, exchange


async def write(exchange: FreightExchange) -> object:
    return await exchange.request("POST", "quote/other", body={"n": 1})


async def read(exchange: FreightExchange) -> object:
    return await exchange.request("POST", "quote/getrequests", body={"n": 1}, repeatable=True)


async def test_write_goes_through_a_tunnel_with_the_proxys_credentials() -> None:
    async with proxying(user="me:pw") as proxy, behind(proxy) as (server, exchange):
        assert await write(exchange) == {"ok": True}
        head = proxy.requests[0].lower()
    assert head.startswith(b"connect 127.0.0.1:")
    assert b"proxy-authorization: basic bwu6chc=" in head
    [(_, request)] = server.requests
    assert b"proxy-authorization" not in request.lower()


@pytest.mark.parametrize("act", [write, read])
@pytest.mark.parametrize("status", ["408 Late", "429 Slow", "502 Bad Gateway", "503 Unavailable", "504 Timeout"])
async def test_tunnel_refused_for_now_is_asked_for_again(status: str, act: Any) -> None:
    async with proxying() as proxy, behind(proxy) as (server, exchange):
        proxy.answers = [refusal(status), refusal(status)]
        assert await act(exchange) == {"ok": True}
        assert (len(proxy.requests), len(server.requests)) == (3, 1)
        proxy.answers = [refusal(status)] * 3
        with pytest.raises(TransportError, match=proxy.at) as caught:
            await act(exchange)
    error = caught.value
    assert (error.attempts, error.permanent, error.may_have_taken_effect) == (3, False, False)
    assert status[:3] in error.message


@pytest.mark.parametrize("act", [write, read])
@pytest.mark.parametrize("status", ["407 Proxy Authentication Required", "403 no s3cret sites", "400 x", "451 y"])
async def test_tunnel_refused_for_good_is_not_asked_for_again(status: str, act: Any) -> None:
    async with proxying() as proxy, behind(proxy) as (server, exchange):
        proxy.answers = [refusal(status)]
        with pytest.raises(TransportError, match=proxy.at) as caught:
            await act(exchange)
    assert (caught.value.attempts, caught.value.permanent) == (1, True)
    assert status[:3] in caught.value.message
    assert "s3cret" not in str(caught.value)
    assert not server.requests


@pytest.mark.parametrize(
    "answer",
    [b"\0garbage\r\n\r\n", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\n\r\nSSH-2.0-no TLS here\r\n"],
    ids=["garbage", "half", "no-tls"],
)
async def test_tunnel_that_breaks_proves_that_nothing_was_sent(answer: bytes) -> None:
    async with proxying() as proxy, behind(proxy, timeouts=QUICK) as (server, exchange):
        proxy.answers = [answer] * 3
        with pytest.raises(TransportError, match=proxy.at) as caught:
            await write(exchange)
        assert await write(exchange) == {"ok": True}
    assert (caught.value.attempts, caught.value.unsent, caught.value.permanent) == (3, True, False)
    assert len(server.requests) == 1


async def test_tunnel_that_never_comes_ends_with_nothing_sent() -> None:
    async with proxying() as proxy, behind(proxy) as (server, exchange):
        proxy.stalls = True
        with pytest.raises(TransportError, match=proxy.at) as caught:
            await write(exchange.with_options(timeouts=QUICK))
    assert (caught.value.unsent, caught.value.attempts) == (True, 3)
    assert not server.requests


async def test_invalid_certificate_behind_the_tunnel_is_the_servers() -> None:
    stranger, _ = trust()
    async with proxying() as proxy, behind(proxy) as (_, exchange), serving(fine, stranger) as other:
        proxy.reroute = int(other.url.rsplit(":", 1)[1].removesuffix("/api"))
        with pytest.raises(TransportError, match="certificate") as caught:
            await write(exchange)
    assert (caught.value.attempts, caught.value.unsent, caught.value.permanent) == (1, True, True)
    assert "127.0.0.1" in caught.value.message


async def test_failure_after_the_send_leaves_a_write_in_doubt() -> None:
    async def hangs_up(_: Server, stream: ByteStream, request: bytes) -> bool:
        return False

    async with proxying() as proxy, behind(proxy, hangs_up) as (server, exchange):
        with pytest.raises(OutcomeUnknownError):
            await write(exchange)
    assert len(server.requests) == 1


@pytest.mark.parametrize("act", [write, read])
async def test_proxy_that_is_not_there_is_named(act: Any) -> None:
    async with proxying() as proxy, behind(proxy) as (_, exchange):
        proxy.stops.set()
        await proxy.stopped.wait()
        with pytest.raises(TransportError, match=proxy.at) as caught:
            await act(exchange)
    assert (caught.value.attempts, caught.value.permanent) == (3, False)


# The environment


@pytest.mark.parametrize(
    ("host", "no_proxy", "direct"),
    [
        ("127.0.0.1", None, False), ("127.0.0.1", "", False), ("127.0.0.1", "10.0.0.1,elsewhere.example", False),
        ("127.0.0.1", "127.0.0.1", True), ("127.0.0.1", "elsewhere.example, 127.0.0.1", True), ("127.0.0.1", "*", True),
        ("localhost", "localhost", True), ("localhost", "LOCALHOST", True), ("localhost", "host", False),
        ("[::1]", "127.0.0.1", False), ("[::1]", "::1", True), ("[::1]", "localhost,::1", True),
    ],
)  # fmt: skip
async def test_no_proxy_names_the_hosts_that_are_reached_directly(
    host: str, no_proxy: str | None, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _clear_environment(monkeypatch)
    async with proxying() as proxy:
        proxy.answers = [refusal("403 No")] * 9
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        if no_proxy is not None:
            monkeypatch.setenv("NO_PROXY", no_proxy)
        await _try(f"https://{host}:1/api", trust_env=True)
    assert (not proxy.requests) == direct


def _clear_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def _try(url: str, **options: Any) -> None:
    async with FreightExchange(url, email="a@b.example", password="pw", retries=BRISK, **options) as exchange:
        with pytest.raises(TransportError):
            await exchange.login()
