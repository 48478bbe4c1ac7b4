"""Tests of the adapter: failures of the network, and the clients of callers."""

from __future__ import annotations

import ssl
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest
from tests.unit.transport.http.adapter_rig import (
    BASE,
    CANARY,
    network,
    request,
)

from freight_exchange.errors import ConfigurationError, TransportError
from freight_exchange.transport.http import adapter, own_pools
from freight_exchange.transport.message import AbandonedError, RequestKind
from freight_exchange.transport.secrets import Secret

pytestmark = pytest.mark.both_backends

BEFORE = ["connection.connect_tcp.started", "connection.connect_tcp.failed"]
AFTER = ["connection.connect_tcp.started", "connection.connect_tcp.complete", "http11.send_request_headers.started"]
TRACES = {"silent": [], "proof": BEFORE, "sent": AFTER}
ERRORS = [
    ("ConnectTimeout", "no connection within 5 s to host.example:443", False),
    ("ReadTimeout", "nothing came from host.example:443 for 30 s", False),
    ("WriteTimeout", "host.example:443 took nothing of the request for 10 s", False),
    ("PoolTimeout", "no free connection", False),
    ("ConnectError", "no connection to host.example:443", False),
    ("ReadError", "broke", False),
    ("WriteError", "broke", False),
    ("CloseError", "broke", False),
    ("ProxyError", "proxy", False),
    ("RemoteProtocolError", "broke", False),
    ("LocalProtocolError", "the HTTP library refused the request to host.example:443", True),
    ("UnsupportedProtocol", "the HTTP library refused the request to host.example:443", True),
    ("InvalidURL", "the HTTP library refused the request to host.example:443", True),
    ("DecodingError", "broke", False),
    ("TooManyRedirects", "broke", False),
    ("NetworkError", "broke", False),
    ("TransportError", "broke", False),
]


async def failure(
    library: ModuleType, error: Exception, kind: RequestKind = RequestKind.WRITE, trace: str = "silent"
) -> TransportError:
    async def handler(native: Any) -> Any:
        for event in TRACES[trace] if kind is not RequestKind.READ else []:
            await native.extensions["trace"](event, {})
        raise error

    with pytest.raises(TransportError) as caught:
        await network(library, handler)(request(kind, content=CANARY.encode(), token=Secret(CANARY)))
    text = "".join(traceback.format_exception(caught.value))
    assert CANARY not in text
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    return caught.value


class TestFailures:
    @pytest.mark.parametrize(("name", "words", "permanent"), ERRORS, ids=[name for name, *_ in ERRORS])
    @pytest.mark.parametrize("trace", TRACES)
    async def test_errors_of_the_library_are_translated(
        self, library: ModuleType, name: str, words: str, permanent: bool, trace: str
    ) -> None:
        error = await failure(library, getattr(library, name)("words of the library"), trace=trace)
        assert words in error.message
        assert name in error.message
        assert error.permanent is permanent
        # That nothing was sent is for the trace and the error to say together: a transport may have turned to another
        # way after a connection failed, and one that does not trace may have sent before it raised.
        assert error.unsent is (name in ("ConnectError", "ConnectTimeout", "ProxyError") and trace == "proof")

    @pytest.mark.parametrize("name", ["ConnectError", "ConnectTimeout", "ReadError"])
    async def test_reads_are_not_traced_and_prove_nothing(self, library: ModuleType, name: str) -> None:
        assert not (await failure(library, getattr(library, name)(""), RequestKind.READ)).unsent

    @pytest.mark.parametrize("kind", RequestKind)
    async def test_errors_of_the_system(self, library: ModuleType, kind: RequestKind) -> None:
        for error in (OSError(5, "io"), ConnectionResetError(), TimeoutError()):
            assert not (await failure(library, error, kind)).unsent

    @pytest.mark.parametrize("own", [ssl.SSLCertVerificationError(1, "CERTIFICATE_VERIFY_FAILED"), None])
    async def test_a_bad_certificate_is_permanent(self, library: ModuleType, own: Exception | None) -> None:
        error = library.ConnectError("" if own else "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed")
        error.__cause__ = middle = OSError("in between")
        middle.__context__ = own
        for trace in TRACES:
            found = await failure(library, error, trace=trace)
            assert (found.permanent, found.unsent) == (True, trace == "proof")
            assert "certificate" in found.message

    async def test_words_of_the_server_are_no_certificate(self, library: ModuleType) -> None:
        error = await failure(library, library.RemoteProtocolError("illegal status line: CERTIFICATE_VERIFY_FAILED"))
        assert (error.permanent, error.unsent) == (False, False)

    async def test_causes_in_a_circle_end(self, library: ModuleType) -> None:
        first, second = library.ReadError("a"), OSError("b")
        first.__cause__, second.__cause__ = second, first
        assert not (await failure(library, first)).permanent

    async def test_given_up_before_the_first_byte(self, library: ModuleType) -> None:
        error = await failure(library, AbandonedError())
        assert error.unsent
        assert not error.permanent

    async def test_given_up_after_the_first_byte(self, library: ModuleType) -> None:
        error = await failure(library, AbandonedError(), trace="sent")
        assert not error.unsent
        assert "the end of the request" in error.message

    @pytest.mark.parametrize(
        "bug",
        [KeyError("hook"), RuntimeError("bug"), ValueError("bug"), AssertionError()],
    )
    async def test_bug_of_a_transport_is_named_and_never_retried(self, library: ModuleType, bug: Exception) -> None:
        error = await failure(library, bug)
        assert error.permanent
        assert not error.unsent
        assert f"builtins.{type(bug).__name__} in {Path(__file__).name}, line " in error.message

    async def test_error_about_a_file_reaches_the_caller(self, library: ModuleType) -> None:
        def handler(_: Any) -> Any:
            raise FileNotFoundError(2, "no", "/x")

        with pytest.raises(FileNotFoundError):
            await network(library, handler)(request())

    async def test_error_of_another_library_becomes_a_transport_error(self) -> None:
        error = await failure(httpx, httpx2.ReadError("foreign"))
        assert not error.permanent
        assert not error.unsent
        assert "httpx2.ReadError" in error.message
        assert "foreign" not in error.message


class TestClients:
    async def test_library_of_a_client_is_found(self, library: ModuleType) -> None:
        async with library.AsyncClient() as client:
            assert adapter.library_of(client) is library

    @pytest.mark.parametrize("client", [httpx.Client, object, None, httpx.AsyncHTTPTransport])
    def test_anything_else_is_refused(self, client: Callable[[], object] | None) -> None:
        with pytest.raises(ConfigurationError, match="http_client must be"):
            adapter.library_of(client() if client is not None else None)

    async def test_a_closed_client_is_named(self, library: ModuleType) -> None:
        client = library.AsyncClient()
        await client.aclose()
        with pytest.raises(ConfigurationError, match="closed"):
            await adapter.Network(BASE, adapter.client_sender(client), adapter.client_sender(client), library)(
                request()
            )

    async def test_a_clients_auth_and_redirects_are_not_used(self, library: ModuleType) -> None:
        seen: list[Any] = []

        def handler(native: Any) -> Any:
            seen.append(native)
            return library.Response(307, headers={"Location": "https://evil.example/"})

        client = library.AsyncClient(
            transport=library.MockTransport(handler), auth=("u", CANARY), follow_redirects=True
        )
        response = await adapter.Network(BASE, adapter.client_sender(client), adapter.client_sender(client), library)(
            request()
        )
        assert response.status == 307
        assert len(seen) == 1
        assert "authorization" not in seen[0].headers

    @pytest.mark.parametrize("proxy", ["", "nowhere", "ftp://u:c4nary@p", "http://", "http://u:c4nary@p\x00", 5])
    def test_an_impossible_proxy_is_named_without_its_password(self, proxy: Any) -> None:
        with pytest.raises(ConfigurationError, match="proxy must be") as caught:
            own_pools.own_pools(base_url=BASE, proxy=Secret(proxy), verify=True, keepalive=5)
        assert "c4nary" not in "".join(traceback.format_exception(caught.value))

    async def test_the_environment_is_not_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/at/all")
        for transport in own_pools.own_pools(base_url=BASE, proxy=None, verify=True, keepalive=5):
            await transport.aclose()
