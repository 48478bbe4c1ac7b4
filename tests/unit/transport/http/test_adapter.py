"""Tests of the adapter with both HTTP libraries: requests and replies."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import metadata
from types import ModuleType
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from tests.unit.transport.http.adapter_rig import (
    BASE,
    CANARY,
    LOOPBACK,
    network,
    received,
    request,
    sent,
)

from freight_exchange.errors import ConfigurationError, DecodeError, TransportError
from freight_exchange.options import Timeouts
from freight_exchange.transport.http import adapter
from freight_exchange.transport.message import RequestKind, Response
from freight_exchange.transport.secrets import Secret

pytestmark = pytest.mark.both_backends


class TestRequests:
    async def test_headers_of_a_read_without_a_body(self, library: ModuleType) -> None:
        native = await sent(library, request(token=Secret(CANARY)))
        assert sorted((name.lower(), value) for name, value in native.headers.raw) == [
            (b"accept", b"application/json"),
            (b"accept-encoding", b"gzip"),
            (b"authorization", f"Bearer {CANARY}".encode()),
            (b"host", b"host.example"),
            (b"user-agent", f"freight-exchange-python/{metadata.version('freight-exchange')}".encode()),
        ]
        assert native.content == b""

    @pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
    async def test_a_body_has_its_type_and_length(self, library: ModuleType, method: str) -> None:
        native = await sent(library, request(method=method, content=b'{"index": 4}'))
        assert native.method == method
        assert native.headers["content-type"] == "application/json"
        assert native.headers["content-length"] == "12"
        assert "transfer-encoding" not in native.headers
        assert native.content == b'{"index": 4}'

    @pytest.mark.parametrize(("method", "length"), [("POST", "0"), ("PUT", "0"), ("GET", None), ("DELETE", None)])
    async def test_the_length_of_no_body(self, library: ModuleType, method: str, length: str | None) -> None:
        native = await sent(library, request(method=method))
        assert native.headers.get("content-length") == length
        assert "content-type" not in native.headers

    async def test_added_headers_stand_beside_and_replace(self, library: ModuleType) -> None:
        native = await sent(library, request(headers=(("X-Trace", "1"), ("accept", "text/json"), ("X-Name", "é"))))
        assert native.headers["x-trace"] == "1"
        assert native.headers.get_list("accept") == ["text/json"]
        assert dict(native.headers.raw)[b"X-Name"] == b"\xe9"

    @pytest.mark.parametrize(
        ("base", "path", "params", "url"),
        [
            (BASE, "quote/offer", (), "https://host.example/api/quote/offer"),
            (BASE, "route", (("origin", "Hong Kong"), ("a", "1&b=2")), "route?origin=Hong+Kong&a=1%26b%3D2"),
            (BASE, "route", (("x", "1"), ("x", "2")), "route?x=1&x=2"),
            ("https://host.example:8443/v1/api", "login", (), "https://host.example:8443/v1/api/login"),
            ("https://host.example:443/api", "login", (), "https://host.example/api/login"),
            ("http://[::1]:80/api", "login", (), "http://[::1]/api/login"),
        ],
    )
    async def test_url_joins_base_path_and_parameters(
        self, library: ModuleType, base: str, path: str, params: tuple[tuple[str, str], ...], url: str
    ) -> None:
        native = await sent(library, request(path=path, params=params), base)
        assert str(native.url).endswith(url)
        assert native.headers["host"].encode() == native.url.netloc

    @pytest.mark.parametrize("path", ["//evil.example/x", "http://evil.example", "@evil.example/x", ":8443/x", "../x"])
    async def test_no_path_leads_to_another_origin(self, library: ModuleType, path: str) -> None:
        native = await sent(library, request(path=path))
        assert str(native.url).startswith(BASE.removesuffix("api"))

    async def test_timeouts_reach_the_library_and_only_reads_are_not_traced(self, library: ModuleType) -> None:
        for kind in RequestKind:
            native = await sent(library, request(kind, timeouts=Timeouts(connect=1, read=2, write=3)), LOOPBACK)
            assert native.extensions["timeout"] == {"connect": 1, "read": 2, "write": 3, "pool": None}
            assert ("trace" in native.extensions) is (kind is not RequestKind.READ)

    @pytest.mark.parametrize("kind", RequestKind)
    @pytest.mark.parametrize("failed", [True, False])
    async def test_a_callers_connection_is_closed_if_its_handshake_fails(
        self, library: ModuleType, kind: RequestKind, failed: bool
    ) -> None:
        """The library does not close it after a cancellation. Reads are traced for this alone, and only over TLS."""
        trace = (await sent(library, request(kind))).extensions["trace"]
        streams = [Closable(), Closable(OSError("broken"))]
        for stream in streams:
            await trace("connection.connect_tcp.complete", {"return_value": stream})
            with anyio.CancelScope() as scope:
                scope.cancel()
                await trace(f"proxy.start_tls.{'failed' if failed else 'complete'}", {"return_value": Closable()})
        assert [stream.closed for stream in streams] == [failed, failed]
        await trace("connection.start_tls.failed", {})

    @pytest.mark.parametrize("info", [{}, {"return_value": None}, None])
    async def test_a_trace_that_names_no_connection_is_no_failure(self, library: ModuleType, info: object) -> None:
        trace = (await sent(library, request())).extensions["trace"]
        for event in ("connection.connect_tcp.complete", "connection.start_tls.started", "connection.start_tls.failed"):
            await trace(event, info)

    async def test_reads_and_writes_have_their_own_ways(self) -> None:
        ways: list[str] = []

        def way(name: str) -> adapter.Send:
            async def send(native: httpx.Request) -> httpx.Response:
                ways.append(name)
                return httpx.Response(200, request=native)

            return send

        for kind in (RequestKind.READ, RequestKind.WRITE, RequestKind.LOGIN):
            await adapter.Network(BASE, way("reads"), way("writes"))(request(kind))
        assert ways == ["reads", "writes", "reads"]

    @pytest.mark.parametrize("base", ["https://host\x00/api", "https://[v1.a]/api"])
    def test_an_impossible_base_url_is_a_configuration_error(self, library: ModuleType, base: str) -> None:
        with pytest.raises(ConfigurationError, match="base_url"):
            network(library, lambda _: None, base)


class Pieces:
    """Body of a reply in pieces, which may fail, and which records whether it was closed."""

    def __init__(self, library: ModuleType, *pieces: bytes, failure: Exception | None = None) -> None:
        self.closed = False
        outer = self

        class Stream(library.AsyncByteStream):  # type: ignore[misc, name-defined]  # the library is a parameter
            async def __aiter__(self) -> AsyncIterator[bytes]:
                for piece in pieces:
                    yield piece
                if failure is not None:
                    raise failure

            async def aclose(self) -> None:
                outer.closed = True

        self.stream = Stream()


class Closable:
    """Connection that records whether it was closed."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.closed = False
        self._failure = failure

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed = True
        if self._failure is not None:
            raise self._failure


async def given_back(close: Callable[[], Awaitable[None]], *, own: bool) -> Response:
    """Return a reply over a connection of the SDK or of a caller's client, with this way to release it."""

    class Stream(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"{}"

        async def aclose(self) -> None:
            await close()

    async def send(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=Stream())

    return await adapter.Network(BASE, send, send, None if own else httpx)(request())


class TestReplies:
    async def test_reply_is_read_completely_and_closed(self, library: ModuleType) -> None:
        body = Pieces(library, b'{"a"', b": 1}")
        response = await received(library, 418, headers={"Retry-After": "7"}, stream=body.stream)
        assert (response.status, response.content, response.header("retry-after")) == (418, b'{"a": 1}', "7")
        assert body.closed

    @pytest.mark.parametrize("own", [True, False], ids=["own", "caller's"])
    async def test_a_connection_that_fails_to_be_given_back_takes_no_reply_along(self, own: bool) -> None:
        async def failing() -> None:
            raise httpx.ReadError("reset")

        assert (await given_back(failing, own=own)).content == b"{}"

    async def test_a_callers_connection_that_is_never_given_back_is_not_waited_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(adapter, "_RELEASE_TIMEOUT", 0)
        assert (await given_back(anyio.sleep_forever, own=False)).content == b"{}"

    async def test_gzip_is_undone(self, library: ModuleType) -> None:
        body = Pieces(library, gzip.compress(b"{}"))
        response = await received(library, 200, headers={"Content-Encoding": "gzip"}, stream=body.stream)
        assert response.content == b"{}"

    @pytest.mark.parametrize(
        "headers", [[("Content-Encoding", "gzip"), ("content-encoding", "gzip")], [("Content-Encoding", "br")]]
    )
    async def test_unknown_encodings_are_refused_and_the_reply_closed(
        self, library: ModuleType, headers: list[tuple[str, str]]
    ) -> None:
        body = Pieces(library, gzip.compress(gzip.compress(b"{}")))
        with pytest.raises(DecodeError, match="encoded as"):
            await received(library, 200, headers=headers, stream=body.stream)
        assert body.closed

    @pytest.mark.parametrize(
        ("status", "encoding", "body"),
        [
            (418, "br", b"{}"),
            (200, "gzip", b"{}"),
            (503, "gzip", gzip.compress(b"\0" * 10_000_001)),
            (200, "gzip", gzip.compress(b"{}" * 100)[:-9]),
        ],
        ids=["refused", "false", "bomb", "half"],
    )
    async def test_a_body_that_cannot_be_unpacked_came_with_a_status(
        self, library: ModuleType, status: int, encoding: str, body: bytes
    ) -> None:
        stream = Pieces(library, body).stream
        with pytest.raises((DecodeError, TransportError)) as caught:
            await received(library, status, headers={"Content-Encoding": encoding}, stream=stream)
        assert (caught.value.status, caught.value.attempts) == (status, 1)

    async def test_replies_and_failures_say_which_sending_it_was(self, library: ModuleType) -> None:
        answers = [httpx.Response(200), httpx.Response(200), None]

        def handler(_: Any) -> Any:
            if answers.pop(0) is None:
                raise library.ReadError("reset")
            return library.Response(200)

        send, once = network(library, handler), request(RequestKind.WRITE)
        assert [(await send(once)).attempt for _ in range(2)] == [1, 2]
        with pytest.raises(TransportError) as caught:
            await send(once)
        assert (caught.value.attempts, once.progress.sends) == (3, 3)

    async def test_redirects_are_replies(self, library: ModuleType) -> None:
        response = await received(library, 307, headers={"Location": "https://evil.example/"})
        assert response.status == 307

    async def test_a_failure_in_the_body_closes_the_reply(self, library: ModuleType) -> None:
        body = Pieces(library, b"{", failure=library.ReadError("reset"))
        with pytest.raises(TransportError, match=r"the connection to host\.example:443 broke") as caught:
            await received(library, 200, stream=body.stream)
        assert body.closed
        assert not caught.value.unsent


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://b\u00fccher.example/api", "xn--bcher-kva.example:443"),
        ("https://xn--.example/api", "xn--.example:443"),
        ("http://[::1]/api", "[::1]:80"),
    ],
)
def test_a_host_is_named_as_connections_name_it(library: ModuleType, url: str, expected: str) -> None:
    # Another name for the server would pass for a proxy in front of it.
    assert adapter.host_and_port(library.URL(url)) == expected
