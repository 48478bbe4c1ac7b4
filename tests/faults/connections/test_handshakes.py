"""Tests of cancelled TLS handshakes: no connection stays open without the garbage collector."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Iterator

import anyio
import anyio.abc
import httpcore
import httpx
import httpx2
import pytest
from tests.faults.connections.test_sockets import port_of, trust
from tests.faults.support import BRISK, QUICK, Kind, patient, perform, stocked

from freight_exchange import DeadlineExceededError, FreightExchange, TransportError
from freight_exchange.sandbox.faces.tcp import serve_tcp
from freight_exchange.testing import Sandbox
from freight_exchange.transport.http import own_pools
from freight_exchange.transport.redact import Secret

pytestmark = pytest.mark.both_backends

ROUNDS = 2
AT_ONCE = 4
BEHIND = "https://exchange.example/api"


class Staller:
    """Listener that reads a TLS hello and never answers it. `open` counts the callers that stay connected.

    A listener that acts as a proxy connects first, and the hello is for the server behind it.
    """

    def __init__(self, *, proxy: bool = False) -> None:
        self.open = self.met = 0
        self._proxy = proxy

    async def meet(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.EndOfStream):
                if self._proxy:
                    assert b"CONNECT" in await stream.receive()
                    await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
                await stream.receive()
                self.open += 1
                self.met += 1
                try:
                    async for _ in stream:
                        pass
                finally:
                    self.open -= 1

    async def until(self, count: int) -> None:
        """Wait until this many callers are connected."""
        with anyio.fail_after(60):
            while self.open != count:  # noqa: ASYNC110 - sockets that close set no event
                await anyio.sleep(0.005)


@contextlib.asynccontextmanager
async def stalling(port: int = 0, *, proxy: bool = False) -> AsyncIterator[tuple[Staller, int]]:
    staller = Staller(proxy=proxy)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, staller.meet)
        yield staller, listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@contextlib.asynccontextmanager
async def stalled(library: object) -> AsyncIterator[tuple[FreightExchange, Staller]]:
    """Create a client that has logged in to a service which stops answering TLS handshakes afterwards."""
    sandbox, (server, client) = stocked(Sandbox()), trust()
    async with contextlib.AsyncExitStack() as stack:
        async with serve_tcp(sandbox.exchange, tls=server) as face:
            options: dict[str, object] = {"verify": client}
            if library is not None:
                http_client = getattr(library, "AsyncClient")(trust_env=False, verify=client)  # noqa: B009 - either's
                options = {"http_client": await stack.enter_async_context(http_client)}
            exchange = await stack.enter_async_context(patient(sandbox, url=face.url, **options))
            await exchange.login()
        staller, _ = await stack.enter_async_context(stalling(port_of(face)))
        yield exchange, staller


async def cancelled_all_at_once(exchange: FreightExchange, kind: Kind, staller: Staller) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(perform, exchange, kind)
        await staller.until(AT_ONCE)
        tasks.cancel_scope.cancel()


async def past_their_deadline(exchange: FreightExchange, kind: Kind, staller: Staller) -> None:
    impatient = exchange.with_options(deadline=0.3)

    async def call() -> None:
        with pytest.raises(DeadlineExceededError) as caught:
            await perform(impatient, kind)
        assert caught.value.attempts == 1

    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(call)


@pytest.mark.parametrize("library", [None, httpx, httpx2], ids=["own", "httpx", "httpx2"])
@pytest.mark.parametrize("kind", [Kind.READ, Kind.WRITE])
@pytest.mark.parametrize("end", [cancelled_all_at_once, past_their_deadline])
async def test_no_connection_is_left_open(end: Callable[..., object], kind: Kind, library: object) -> None:
    async with stalled(library) as (exchange, staller):
        # On a slow machine a deadline may pass before a handshake begins: that shows nothing, and is done again.
        while staller.met < ROUNDS * AT_ONCE:
            await end(exchange, kind, staller)  # type: ignore[misc]  # one of the two above
            await staller.until(0)


@pytest.mark.parametrize("times", [8])
async def test_behind_a_proxy_no_place_in_the_pool_is_lost_either(times: int) -> None:
    async with stalling(proxy=True) as (staller, port):
        reads, writes = own_pools.own_pools(
            base_url=BEHIND, proxy=Secret(f"http://127.0.0.1:{port}"), verify=True, keepalive=5
        )
        async with reads, writes:
            for met in range(1, times + 1):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(writes.handle_async_request, httpcore.Request("POST", BEHIND))
                    await staller.until(1)
                    tasks.cancel_scope.cancel()
                await staller.until(0)
                assert staller.met == met


async def test_behind_a_proxy_a_handshake_that_takes_too_long_is_tried_again() -> None:
    async with stalling(proxy=True) as (staller, port):
        exchange = patient(
            Sandbox(),
            url=BEHIND,
            proxy=f"http://127.0.0.1:{port}",
            max_connections=1,
            timeouts=QUICK,
            retries=BRISK,
        )
        async with exchange:
            with pytest.raises(TransportError, match="no connection within") as caught:
                await exchange.login()
        assert (caught.value.attempts, caught.value.unsent) == (3, True)
        assert staller.met > 0
        await staller.until(0)
