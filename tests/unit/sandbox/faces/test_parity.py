"""Tests of the in-process interface against sockets: each cut ends in the same error of the library."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import anyio
import httpx
import httpx2
import pytest
import trustme

from freight_exchange.sandbox.core.exchange import Exchange
from freight_exchange.sandbox.faces.inprocess import transport
from freight_exchange.sandbox.faces.tcp import refused_port, serve_tcp, stalled_listener
from freight_exchange.sandbox.faults.script import Fault
from freight_exchange.sandbox.model.messages import Cut, WireFault

LOGIN = {"email": "shipper@demo.example", "password": "shipper"}

LATE = {
    Cut.RESET_AFTER_SEND: "ReadError",
    Cut.RESET_AFTER_PROCESSING: "ReadError",
    Cut.RESET_MID_REPLY: "ReadError",
    Cut.FIN_NO_BYTES: "RemoteProtocolError",
    Cut.STALL: "ReadTimeout",
    Cut.STALL_MID_REPLY: "ReadTimeout",
    Cut.DRIP: "200",
    Cut.TRUNCATED_LENGTH: "RemoteProtocolError",
    Cut.TRUNCATED_CHUNKS: "RemoteProtocolError",
    Cut.GARBAGE_STATUS: "RemoteProtocolError",
    Cut.HEADER_FLOOD: "RemoteProtocolError",
    Cut.BYTES_AFTER_REPLY: "200",
    Cut.IDLE_FIN: "200",
}
BEFORE_A_CONNECTION = {
    Cut.REFUSED: "ConnectError",
    Cut.DNS: "ConnectError",
    Cut.CONNECT_STALL: "ConnectTimeout",
    Cut.TLS_STALL: "ConnectTimeout",
    Cut.BAD_CERTIFICATE: "ConnectError",
    Cut.POOL_EXHAUSTED: "PoolTimeout",
}
STALLS = {
    Cut.STALL: "read",
    Cut.STALL_MID_REPLY: "read",
    Cut.CONNECT_STALL: "connect",
    Cut.TLS_STALL: "connect",
    Cut.POOL_EXHAUSTED: "pool",
}
WITHIN_A_REQUEST = (Cut.RESET_BEFORE_HEADERS, Cut.RESET_MID_BODY)


libraries = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])


def in_process(exchange: Exchange, library: Any, **options: Any) -> Any:
    carrier = transport(exchange, library=library, **options)
    return library.AsyncClient(base_url="http://sandbox/api/", transport=carrier, timeout=5, trust_env=False)


def over_tcp(url: str, library: Any, **options: Any) -> Any:
    return library.AsyncClient(base_url=url + "/", **{"timeout": 5, "trust_env": False, **options})


def struck(cut: Cut, *, seconds: float = 0.0) -> Exchange:
    exchange = Exchange()
    exchange.faults.add(Fault(name=cut.value, wire=WireFault(cut, seconds)))
    return exchange


async def ask(client: Any, method: str, **options: Any) -> Any:
    path, body = ("login", LOGIN) if method == "POST" else ("currency", None)
    return await client.request(method, path, json=body, **options)


async def outcome(client: Any, library: Any, method: str = "POST", **options: Any) -> str:
    """Return the status of the reply, or the exact class of the library's error."""
    try:
        reply = await ask(client, method, **options)
    except library.TransportError as error:
        return type(error).__name__
    return str(reply.status_code)


def timeouts_for(cut: Cut | None, library: Any) -> Any:
    """Return short timeouts only where this cut stalls, since a busy machine must not add another timeout."""
    return library.Timeout(5, **({STALLS[cut]: 0.1} if cut in STALLS else {}))


async def settled(condition: Callable[[], object]) -> None:
    """Wait for the delayed effects of the other side of a socket."""
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - the server's counters have no event to wait for
            await anyio.sleep(0.001)


def test_every_cut_has_an_expected_outcome() -> None:
    assert LATE.keys() | BEFORE_A_CONNECTION.keys() | set(WITHIN_A_REQUEST) == set(Cut)


@pytest.mark.parametrize("cut", LATE)
@libraries
async def test_cuts_after_the_send_raise_the_same_errors(cut: Cut, library: ModuleType) -> None:
    there, here = struck(cut, seconds=0.0001), struck(cut, seconds=0.0001)
    async with serve_tcp(there) as face, over_tcp(face.url, library) as client:
        by_socket = await outcome(client, library, timeout=timeouts_for(cut, library))
    async with in_process(here, library) as client:
        by_process = await outcome(client, library, timeout=timeouts_for(cut, library))
    assert by_process == by_socket == LATE[cut]
    for exchange in (there, here):
        assert [fired.name for fired in exchange.faults.fired] == [cut.value]
        assert [call.path for call in exchange.audit_log.calls] == ["login"]


@pytest.mark.parametrize("cut", WITHIN_A_REQUEST)
@libraries
async def test_resets_within_a_request_raise_the_same_errors(cut: Cut, library: ModuleType) -> None:
    there, here = struck(cut), struck(cut)
    async with serve_tcp(there) as face, over_tcp(face.url, library) as client:
        by_socket = await outcome(client, library, "GET")
    async with in_process(here, library) as client:
        by_process = await outcome(client, library, "GET")
    assert by_process == by_socket == "ReadError"
    assert [call.processed for call in there.audit_log.calls + here.audit_log.calls] == [False, False]


# httpx, unlike httpx2, leaves the body's generator to the collector when a write fails: trio complains.
@pytest.mark.filterwarnings("ignore:Async generator 'httpx:ResourceWarning")
@pytest.mark.parametrize("cut", WITHIN_A_REQUEST)
@libraries
async def test_reset_during_the_body_is_no_write_error(cut: Cut, library: ModuleType) -> None:
    # Which of the two it is over a socket depends on which side is quicker.
    there, here = struck(cut), struck(cut)
    async with serve_tcp(there) as face, over_tcp(face.url, library) as client:
        by_socket = await outcome(client, library)
    async with in_process(here, library) as client:
        by_process = await outcome(client, library)
    assert by_process == "ReadError"
    assert by_socket in ("ReadError", "RemoteProtocolError")
    assert [call.processed for call in there.audit_log.calls + here.audit_log.calls] == [False, False]


def untrusted() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


async def really(cut: Cut, library: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> str:
    """Return the error of a client over sockets when its connection fails in this way."""
    match cut:
        case Cut.REFUSED:
            with refused_port() as port:
                return await _at(f"http://127.0.0.1:{port}", library, **options)
        case Cut.DNS:

            def unknown(*_: object, **__: object) -> list[Any]:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

            with monkeypatch.context() as patched:
                patched.setattr(socket, "getaddrinfo", unknown)
                return await _at("http://nowhere.invalid", library, **options)
        case Cut.CONNECT_STALL | Cut.TLS_STALL:
            with stalled_listener(connects=cut is Cut.TLS_STALL) as port:
                return await _at(f"https://127.0.0.1:{port}", library, **options)
        case Cut.BAD_CERTIFICATE:
            async with serve_tcp(Exchange(), tls=untrusted()) as face:
                return await _at(face.url, library, **options)
        case _:
            return await _behind_a_stalled_call(library, **options)


async def _at(url: str, library: Any, **options: Any) -> str:
    async with over_tcp(url, library) as client:
        return await outcome(client, library, **options)


async def _behind_a_stalled_call(library: Any, **options: Any) -> str:
    ends: list[str] = []
    async with (
        serve_tcp(struck(Cut.STALL)) as face,
        over_tcp(face.url, library, limits=library.Limits(max_connections=1)) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(lambda: client.post("login", timeout=None))
        await settled(lambda: face.requests)
        ends.append(await outcome(client, library, **options))
        tasks.cancel_scope.cancel()
    return ends[0]


@pytest.mark.parametrize("cut", BEFORE_A_CONNECTION)
@libraries
async def test_connection_failures_raise_the_same_errors(
    cut: Cut, library: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, timeout = struck(cut), timeouts_for(cut, library)
    by_socket = await really(cut, library, monkeypatch, timeout=timeout)
    async with in_process(exchange, library) as client:
        assert await outcome(client, library, timeout=timeout) == by_socket == BEFORE_A_CONNECTION[cut]
        assert [call.processed for call in exchange.audit_log.calls] == [False]
        assert await outcome(client, library) == "200"


@pytest.mark.parametrize("cut", BEFORE_A_CONNECTION)
@libraries
async def test_tcp_face_names_cuts_that_it_cannot_perform(cut: Cut, library: Any) -> None:
    async with serve_tcp(struck(cut)) as face, over_tcp(face.url, library) as client:
        reply = await client.get("currency")
        assert reply.status_code == 500
        assert cut.value in reply.json()["message"]


def origins(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes or contexts, since the pool raises its errors `from None`."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@libraries
async def test_bad_certificate_error_has_its_cause(library: Any) -> None:
    errors: list[Exception] = []
    async with serve_tcp(Exchange(), tls=untrusted()) as face, over_tcp(face.url, library) as client:
        with pytest.raises(library.ConnectError) as caught:
            await client.get("currency")
        errors.append(caught.value)
    async with in_process(struck(Cut.BAD_CERTIFICATE), library) as client:
        with pytest.raises(library.ConnectError) as caught:
            await client.get("currency")
        errors.append(caught.value)
    for error in errors:
        assert any(isinstance(origin, ssl.SSLCertVerificationError) for origin in origins(error))
        assert error.__cause__ is not None
        assert error.__cause__.__cause__ is None


@libraries
async def test_tls_with_a_trusted_certificate(library: Any) -> None:
    authority = trustme.CA()
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    authority.configure_trust(ours)
    exchange = Exchange()
    async with serve_tcp(exchange, tls=theirs) as face, over_tcp(face.url, library, verify=ours) as client:
        assert face.url.startswith("https://")
        assert await outcome(client, library) == "200"
        exchange.faults.add(Fault(name="reset", wire=WireFault(Cut.RESET_AFTER_PROCESSING)))
        assert await outcome(client, library) == "ReadError"
