"""Tests of proxy tunnels: which failures prove that nothing was sent, and which host errors name."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from anyio.abc import ByteStream
from tests.faults.connections.raw import Proxy, Server, proxying, reply, serving
from tests.faults.connections.test_sockets import trust
from tests.faults.support import BRISK, QUICK

from freight_exchange import FreightExchange, OutcomeUnknownError, TransportError

LIBRARIES: list[ModuleType | None] = [None, httpx, httpx2]


def refusal(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


async def fine(_: Server, stream: ByteStream, request: bytes) -> bool:
    await stream.send(reply({"ok": True}))
    return True


@pytest.fixture(params=LIBRARIES, ids=["own", "httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


@contextlib.asynccontextmanager
async def behind(
    library: ModuleType | None, proxy: Proxy, **options: Any
) -> AsyncIterator[tuple[Server, FreightExchange]]:
    """Create a logged-in client of a TLS server behind a proxy, with its own connections or a caller's client."""
    server_side, client_side = trust()
    answer = options.pop("answer", fine)
    arguments: dict[str, Any] = {"retries": BRISK, **options}
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(answer, server_side))
        if library is None:
            arguments |= {"proxy": proxy.url, "verify": client_side}
        else:
            # A pool that keeps nothing, so that each request asks for a tunnel.
            limits = library.Limits(max_keepalive_connections=0)
            http_client = library.AsyncClient(proxy=proxy.url, verify=client_side, trust_env=False, limits=limits)
            arguments["http_client"] = await stack.enter_async_context(http_client)
        exchange = FreightExchange(server.url, email="a@b.example", password="pw", **arguments)
        exchange = await stack.enter_async_context(exchange)
        await exchange.login()
        proxy.requests.clear()
        yield server, exchange


async def write(exchange: FreightExchange) -> object:
    return await exchange.request("POST", "quote/other", body={"n": 1})


async def read(exchange: FreightExchange) -> object:
    # Longer than the connection of the login is kept.
    await anyio.sleep(0.01)
    return await exchange.request("POST", "quote/getrequests", body={"n": 1}, repeatable=True)


async def test_a_write_goes_through_a_tunnel(library: ModuleType | None) -> None:
    async with proxying(user="me:pw") as proxy, behind(library, proxy) as (server, exchange):
        assert await write(exchange) == {"ok": True}
        assert proxy.requests[0].startswith(b"CONNECT 127.0.0.1:")
        assert b"Proxy-Authorization: Basic bWU6cHc=" in proxy.requests[0]
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout", "429 Slow"])
async def test_a_tunnel_refused_for_now_is_asked_for_again(library: ModuleType | None, status: str) -> None:
    async with proxying() as proxy, behind(library, proxy) as (server, exchange):
        proxy.answers = [refusal(status), refusal(status)]
        assert await write(exchange) == {"ok": True}
        assert len(proxy.requests) == 3
        assert len(server.requests) == 1
        proxy.answers = [refusal(status)] * 3
        with pytest.raises(TransportError) as caught:
            await write(exchange)
    error = caught.value
    assert (error.attempts, error.unsent, error.permanent, error.may_have_taken_effect) == (3, True, False, False)
    assert f"the proxy {proxy.at} did not connect to 127.0.0.1:" in error.message
    assert f"it answered {status[:3]}" in error.message


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("407 Proxy Authentication Required", "it answered 407 Proxy Authentication Required; put the proxy's user"),
        ("403 no s3cret sites", "it answered 403 Forbidden"),
        ("400 x", "it answered 400 Bad Request"),
    ],
)
async def test_a_tunnel_refused_for_good_is_not_asked_for_again(
    library: ModuleType | None, status: str, message: str
) -> None:
    async with proxying() as proxy, behind(library, proxy) as (server, exchange):
        proxy.answers = [refusal(status)]
        with pytest.raises(TransportError, match=proxy.at) as caught:
            await write(exchange)
    assert (caught.value.attempts, caught.value.unsent, caught.value.permanent) == (1, True, True)
    assert message in caught.value.message
    assert "s3cret" not in str(caught.value)
    assert not server.requests


@pytest.mark.parametrize("answer", [b"\0garbage\r\n\r\n", b"HTTP/1.1 200"], ids=["garbage", "half"])
async def test_a_tunnel_that_breaks_proves_that_nothing_was_sent(library: ModuleType | None, answer: bytes) -> None:
    async with proxying() as proxy, behind(library, proxy, timeouts=QUICK) as (server, exchange):
        proxy.answers = [answer] * 3
        with pytest.raises(TransportError, match=proxy.at) as caught:
            await write(exchange)
        assert await write(exchange) == {"ok": True}
    assert (caught.value.attempts, caught.value.unsent) == (3, True)
    assert len(server.requests) == 1


async def test_a_handshake_that_fails_behind_the_tunnel_is_tried_again(library: ModuleType | None) -> None:
    """An invalid certificate is different: it is permanent, and the error names the server."""
    no_tls = b"HTTP/1.1 200 OK\r\n\r\nSSH-2.0-no TLS here\r\n"
    async with proxying() as proxy, behind(library, proxy) as (server, exchange):
        proxy.answers = [no_tls] * 2
        assert await write(exchange) == {"ok": True}
        proxy.answers = [no_tls] * 3
        with pytest.raises(
            TransportError, match=f"no connection to 127.0.0.1:.* through the proxy {proxy.at}"
        ) as caught:
            await write(exchange)
    assert (caught.value.attempts, caught.value.unsent, caught.value.permanent) == (3, True, False)
    assert len(server.requests) == 1


async def test_a_wrong_certificate_behind_the_tunnel_is_the_servers(library: ModuleType | None) -> None:
    async with proxying() as proxy, behind(library, proxy) as (_, exchange):
        stranger, _ = trust()
        async with serving(fine, stranger) as other:
            # The tunnel leads elsewhere from now on.
            port = int(other.url.rsplit(":", 1)[1].removesuffix("/api"))
            proxy.reroute = port
            with pytest.raises(
                TransportError, match=r"the certificate of 127\.0\.0\.1:\d+ comes from an unknown"
            ) as caught:
                await write(exchange)
    assert (caught.value.attempts, caught.value.unsent, caught.value.permanent) == (1, True, True)
    assert "verify=" in caught.value.message


async def test_failure_after_the_send_leaves_a_write_in_doubt(library: ModuleType | None) -> None:
    async def hangs_up(_: Server, stream: ByteStream, request: bytes) -> bool:
        return False

    async with proxying() as proxy, behind(library, proxy, answer=hangs_up) as (server, exchange):
        with pytest.raises(OutcomeUnknownError):
            await write(exchange)
    assert len(server.requests) == 1


@pytest.mark.parametrize("reads", [False, True], ids=["write", "read"])
async def test_a_proxy_that_is_not_there(library: ModuleType | None, reads: bool) -> None:
    async with proxying() as proxy, behind(library, proxy, keepalive=0.001) as (_, exchange):
        proxy.stops.set()
        await proxy.stopped.wait()
        message = f"no connection to the proxy {proxy.at}: connection refused"
        with pytest.raises(TransportError, match=message) as caught:
            await (read(exchange) if reads else write(exchange))
    assert (caught.value.attempts, caught.value.permanent) == (3, False)
    assert caught.value.unsent is not reads


@pytest.mark.parametrize(("status", "permanent"), [("407 No", True), ("502 Bad Gateway", False)])
async def test_a_read_names_the_proxy_as_well(library: ModuleType | None, status: str, permanent: bool) -> None:
    async with proxying() as proxy, behind(library, proxy, keepalive=0.001) as (_, exchange):
        proxy.answers = [refusal(status)] * 3
        message = f"the proxy {proxy.at} did not connect to 127.0.0.1:.*{status[:3]}"
        with pytest.raises(TransportError, match=message) as caught:
            await read(exchange)
    assert (caught.value.permanent, caught.value.attempts) == (permanent, 1 if permanent else 3)


async def test_a_tunnel_that_never_comes_ends_at_the_deadline_with_nothing_sent(library: ModuleType | None) -> None:
    async with proxying() as proxy, behind(library, proxy) as (server, exchange):
        proxy.stalls = True
        with pytest.raises(TransportError, match="nothing came from the proxy") as caught:
            await write(exchange.with_options(timeouts=QUICK))
    assert (caught.value.unsent, caught.value.attempts) == (True, 3)
    assert not server.requests
