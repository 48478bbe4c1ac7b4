"""Tests of faults over real sockets with the client's own connections."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator

import anyio
import httpx
import pytest
import trustme
from tests.faults.support import BRISK, QUICK, REQUEST, CallResult, Kind, arm, call_result, patient, perform, stocked
from tests.faults.test_matrix import CELLS

from freight_exchange import (
    DeadlineExceededError,
    FreightExchange,
    OutcomeUnknownError,
    Timeouts,
    TransportError,
)
from freight_exchange.testing import FAULTS, Sandbox
from freight_sandbox.server import Server, refused_port, serve

pytestmark = pytest.mark.both_backends

# What strikes before there is a connection is below, each in its own way; what waits for seconds, in `test_matrix`.
_BEFORE_CONNECTING = {"refused", "dns", "connect_stall", "tls_stall", "bad_certificate", "pool_exhausted"}
_WAITING = {"slow", "unavailable_retry_after"} | {name for name in FAULTS if name.startswith("throttled")}
_HERE = [name for name in CELLS if name not in _BEFORE_CONNECTING | _WAITING]
_SILENT = {"stall", "stall_mid_reply", "login_hung"}
"""Faults that only a time-out ends. The other faults have a long one, since a short one would measure the machine."""


@contextlib.asynccontextmanager
async def faced(
    sandbox: Sandbox, tls: ssl.SSLContext | None = None, **options: object
) -> AsyncIterator[tuple[Server, FreightExchange]]:
    """Serve on a loopback port; yield a client with its own connections."""
    settings = {"retries": BRISK, **options}
    async with serve(sandbox.exchange, tls=tls) as face, patient(sandbox, url=face.url, **settings) as exchange:
        yield face, exchange


def port_of(face: Server) -> int:
    return int(face.url.rsplit(":", 1)[1].removesuffix("/api"))


@contextlib.contextmanager
def squatter(port: int, *, connects: bool) -> Iterator[None]:
    """Listen on a port that a server has left, without answering; the backlog is full unless the port `connects`."""
    with socket.create_server(("127.0.0.1", port), backlog=128 if connects else 0) as listener:
        crowd = [] if connects else [socket.socket() for _ in range(4)]
        try:
            for waiting in crowd:
                waiting.setblocking(False)
                waiting.connect_ex(listener.getsockname())
            yield
        finally:
            for waiting in crowd:
                waiting.close()


@pytest.mark.parametrize(
    ("name", "kind"), [pytest.param(name, kind, id=f"{name}-{kind.name}") for name in _HERE for kind in CELLS[name]]
)
async def test_fault_has_its_documented_effect(name: str, kind: Kind) -> None:
    sandbox = stocked(Sandbox())
    async with faced(sandbox, timeouts=QUICK if name in _SILENT else None) as (_, exchange):
        if kind is not Kind.LOGIN:
            await exchange.login()
        arm(sandbox, name, kind, **({"seconds": 0.0002} if name == "drip" else {}))
        assert await call_result(sandbox, exchange, kind) == CELLS[name][kind]
    assert sandbox.exchange.faults.fired[0].name == name


@pytest.mark.parametrize("kind", [Kind.LOGIN, Kind.READ])
async def test_refused_connection_is_retried_and_counts_as_unsent(kind: Kind) -> None:
    with refused_port() as port:
        async with patient(Sandbox(), url=f"http://127.0.0.1:{port}/api", retries=BRISK) as exchange:
            with pytest.raises(TransportError) as caught:
                await perform(exchange, kind)
    assert (caught.value.attempts, caught.value.unsent, caught.value.path) == (3, True, "login")


async def test_a_write_that_is_provably_refused_is_retried_and_then_known_not_to_have_happened() -> None:
    sandbox = stocked(Sandbox())
    async with contextlib.AsyncExitStack() as stack:
        async with serve(sandbox.exchange) as face:
            exchange = await stack.enter_async_context(patient(sandbox, url=face.url, retries=BRISK))
            await exchange.login()
        with pytest.raises(TransportError) as caught:
            await perform(exchange, Kind.WRITE)
    assert (caught.value.attempts, caught.value.unsent, caught.value.may_have_taken_effect) == (3, True, False)
    assert not sandbox.audit_log.offers


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("connects", [False, True], ids=["connecting", "tls"])
async def test_server_that_stops_answering_times_out(kind: Kind, connects: bool) -> None:
    """Either the TCP handshake never ends, or the TLS hello gets no answer."""
    sandbox, (server, client) = stocked(Sandbox()), trust()
    async with contextlib.AsyncExitStack() as stack:
        async with serve(sandbox.exchange, tls=server if connects else None) as face:
            caller = patient(sandbox, url=face.url, timeouts=QUICK, retries=BRISK, verify=client)
            exchange = await stack.enter_async_context(caller)
            if kind is not Kind.LOGIN:
                await exchange.login()
        stack.enter_context(squatter(port_of(face), connects=connects))
        with pytest.raises(TransportError, match="no connection within") as caught:
            await perform(exchange, kind)
    # A read is repeated with or without proof, and so its transport is not asked for any.
    assert (caught.value.attempts, caught.value.unsent) == (3, kind is not Kind.READ)


def trust() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the TLS contexts of a server and of a client that trusts it."""
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


@pytest.mark.parametrize("kind", [Kind.LOGIN, Kind.WRITE])
@pytest.mark.parametrize("issued_for", ["127.0.0.1", "elsewhere.example"])
async def test_a_bad_certificate_is_not_retried(kind: Kind, issued_for: str) -> None:
    sandbox, (server, client) = stocked(Sandbox()), trust()
    stranger = trustme.CA()
    if issued_for != "127.0.0.1":
        stranger.configure_trust(client)
    async with faced(sandbox, tls=server, verify=client) as (face, exchange):
        if kind is Kind.WRITE:
            await exchange.login()
        stranger.issue_cert(issued_for).configure_cert(server)
        seen = len(sandbox.audit_log.calls)
        with pytest.raises(TransportError, match="certificate") as caught:
            await perform(exchange, kind)
        assert (caught.value.attempts, caught.value.unsent, caught.value.permanent) == (1, True, True)
        assert (len(sandbox.audit_log.calls), face.connections) == (seen, seen + 1)


@pytest.mark.parametrize("kind", [Kind.LOGIN, Kind.READ])
async def test_a_name_that_does_not_resolve(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts: list[object] = []

    def unknown(host: object, *_: object, **__: object) -> None:
        hosts.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with patient(Sandbox(), url="https://exchange.invalid/api", retries=BRISK) as exchange:
        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", unknown)
            with pytest.raises(TransportError) as caught:
                await perform(exchange, kind)
    assert (caught.value.attempts, caught.value.unsent) == (3, True)
    assert len(hosts) >= 3


async def test_a_read_meets_a_kept_connection_that_is_dead_and_is_retried() -> None:
    sandbox = stocked(Sandbox())
    async with faced(sandbox) as (face, exchange):
        arm(sandbox, "idle_fin", Kind.READ)
        assert await call_result(sandbox, exchange, Kind.READ) == CallResult("ok", 1, 1)
        connections, requests = face.connections, face.requests
        # The server read the request and lost it: only the second one, on another connection, is a call.
        assert await call_result(sandbox, exchange, Kind.READ) == CallResult("ok", 1, 1)
        assert (face.connections, face.requests) == (connections + 1, requests + 2)


async def test_bytes_after_a_reply_do_not_answer_the_next_call() -> None:
    sandbox = stocked(Sandbox())
    async with faced(sandbox) as (_, exchange):
        await exchange.login()
        for _ in range(3):
            arm(sandbox, "bytes_after_reply", Kind.READ)
            assert (await exchange.requests.get(REQUEST)).index == REQUEST
            assert [(await exchange.requests.get(index)).index for index in (1, 3)] == [1, 3]
        arm(sandbox, "bytes_after_reply", Kind.WRITE)
        assert await call_result(sandbox, exchange, Kind.WRITE) == CallResult("ok", 1, 1)
        assert (await exchange.requests.get(1)).index == 1
    assert len(sandbox.exchange.faults.fired) == 4


async def test_a_write_never_meets_a_kept_connection() -> None:
    sandbox = stocked(Sandbox())
    async with faced(sandbox) as (face, exchange):
        await exchange.login()
        for _ in range(5):
            arm(sandbox, "idle_fin", Kind.WRITE)
            connections = face.connections
            assert await call_result(sandbox, exchange, Kind.WRITE) == CallResult("ok", 1, 1)
            assert face.connections == connections + 1
        assert len(sandbox.exchange.faults.fired) == 5


async def test_a_write_on_a_callers_kept_connection_that_is_dead_is_reported() -> None:
    sandbox = stocked(Sandbox())
    async with (
        httpx.AsyncClient(trust_env=False) as http_client,
        faced(sandbox, http_client=http_client) as (_, exchange),
    ):
        await exchange.login()
        arm(sandbox, "idle_fin", Kind.WRITE)
        assert await call_result(sandbox, exchange, Kind.WRITE) == CallResult("ok", 1, 1)
        assert await call_result(sandbox, exchange, Kind.WRITE) == CallResult("OutcomeUnknownError", 0, 0)


@pytest.mark.parametrize(("places", "expected"), [(20, OutcomeUnknownError), (1, DeadlineExceededError)])
async def test_a_callers_pool_without_a_free_connection(places: int, expected: type[Exception]) -> None:
    """A client that knows the size of the pool waits outside it, and can prove that nothing was sent."""
    sandbox = stocked(Sandbox())
    limits = httpx.Limits(max_connections=1)
    async with (
        httpx.AsyncClient(trust_env=False, limits=limits) as http_client,
        faced(sandbox, http_client=http_client, max_connections=places, deadline=0.4) as (_, exchange),
        anyio.create_task_group() as tasks,
    ):
        await exchange.with_options(deadline=20).login()
        arm(sandbox, "slow", Kind.READ, seconds=10.0)
        hogging = exchange.with_options(deadline=20, timeouts=Timeouts(read=20))
        tasks.start_soon(perform, hogging, Kind.READ)
        while not sandbox.exchange.faults.fired:  # noqa: ASYNC110 - the sandbox has no event to wait for
            await anyio.sleep(0.01)
        with pytest.raises(expected):
            await perform(exchange, Kind.WRITE)
        with pytest.raises(DeadlineExceededError):
            await perform(exchange, Kind.READ)
        tasks.cancel_scope.cancel()
    assert not sandbox.audit_log.calls_to("POST", Kind.WRITE.value)
