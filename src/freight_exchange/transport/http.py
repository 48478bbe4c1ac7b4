"""One request over an HTTP library: the only place that imports one.

The library is httpx for the SDK's own clients, and whichever the caller's client belongs to otherwise: httpx2 has the
same names and unrelated classes, so that exceptions, requests and URLs are always taken from the client's own module.
"""

from __future__ import annotations

import logging
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import anyio
import httpx

from freight_exchange.errors import ConfigurationError, DecodeError, FreightExchangeError, TransportError
from freight_exchange.transport.handshake import Backend, Handshake, Tunnel
from freight_exchange.transport.inflate import Body
from freight_exchange.transport.message import AbandonedError, Kind, Response
from freight_exchange.transport.pool import KEPT, Pool

if TYPE_CHECKING:
    from types import ModuleType

    from freight_exchange.transport.message import Request

__all__ = ["WRITE_CONNECTIONS", "HttpClient", "Network", "library_of", "own_transports", "through"]

WRITE_CONNECTIONS = 4
"""Connections for writes in the SDK's own client by default: beside those for reads, and none is kept alive."""

HttpClient = httpx.AsyncClient | Any
"""An `httpx.AsyncClient` or an `httpx2.AsyncClient`; the latter need not be installed, so a type checker sees `Any`."""

Send = Callable[[Any], Awaitable[Any]]
"""Sends a native request and gives the native reply, its body still to be read."""

_USER_AGENT = b"freight-exchange-python"
_MOST_URLS = 256
_LETTING_GO = 1.0
"""Seconds that the connection of a reply which is whole may take to be given back."""


def library_of(client: object) -> ModuleType:
    """The HTTP library that a caller's client belongs to; `ConfigurationError` if it is neither of the two."""
    for name in ("httpx", "httpx2"):
        library = sys.modules.get(name)
        if library is not None and isinstance(client, library.AsyncClient):
            return library
    raise ConfigurationError(
        f"http_client must be an httpx.AsyncClient or an httpx2.AsyncClient, not {type(client).__name__}"
    )


def through(client: HttpClient) -> Send:
    """Sends through a caller's client: with its transports, mounts and event hooks, without its auth and redirects."""
    # If it speaks HTTP/2, its codec logs at DEBUG whole header blocks, from which the token can be read.
    for name in ("hpack.hpack", "hpack.table"):
        if (logger := logging.getLogger(name)).level == logging.NOTSET:
            logger.setLevel(logging.INFO)

    async def send(native: Any) -> Any:
        if client.is_closed:
            raise ConfigurationError("the http_client is closed: the client that it was given to cannot send any more")
        return await client.send(native, auth=None, follow_redirects=False, stream=True)

    return send


def own_transports(
    *, base_url: str, proxy: str | None, verify: bool | ssl.SSLContext, write_connections: int = WRITE_CONNECTIONS
) -> tuple[Pool, httpx.AsyncHTTPTransport]:
    """The SDK's own connections, for reads and for writes.

    A kept connection that the server closes just as a write is sent makes that write ambiguous: writes have a pool of
    their own that keeps none. These are the library's transports without the client around them, which would read the
    environment, keep cookies, follow redirects and log URLs, and takes a fifth of a call's time for it.
    """
    if verify is True and base_url.startswith("http://") and proxy is None:
        # Loading the certificates takes longer than many a script runs, and a plain URL never needs them.
        verify = False
    context = httpx.create_ssl_context(verify=verify, trust_env=False)
    via = _proxy(proxy)

    def transport(connections: int, kept: int) -> httpx.AsyncHTTPTransport:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=kept, keepalive_expiry=KEPT)
        made = httpx.AsyncHTTPTransport(verify=context, proxy=via, trust_env=False, limits=limits)
        # The transport passes neither through, though its pool is made for both.
        inner: Any = made._pool
        inner._network_backend = Backend(inner._network_backend)
        if via is not None:
            # With the transport it has been imported; before, it would cost every program's start.
            from httpcore import ConnectionNotAvailable

            create = inner.create_connection
            inner.create_connection = lambda origin: Tunnel(create(origin), ConnectionNotAvailable)
        return made

    return Pool(lambda: transport(1, 1)), transport(write_connections, 0)


def _proxy(url: str | None) -> httpx.Proxy | None:
    if url is None:
        return None
    # Raised out of the handler, and without the URL: it may hold a password.
    try:
        if isinstance(url, str):
            proxy = httpx.Proxy(url)
            if proxy.url.host:
                return proxy
    except (ValueError, httpx.InvalidURL):
        pass
    raise ConfigurationError("proxy must be the URL of a proxy, such as http://proxy.example:3128")


class Network:
    """Sends a request through the library and reads the reply whole.

    Raises `TransportError` for what the network does, `DecodeError` for a reply that cannot be unpacked; anything
    else that comes out of it is a bug and stays one.
    """

    def __init__(self, base_url: str, reads: Send, writes: Send, library: Any = None) -> None:
        """`library` is that of a caller's client; without one, the connections are the SDK's own."""
        self._own = library is None
        library = library or httpx
        try:
            self._base = library.URL(base_url)
        except library.InvalidURL as error:
            raise ConfigurationError(f"base_url is no URL: {error}") from None
        self._base_url = base_url
        # Whether no handshake can leave a connection open: the SDK's own are closed where they are made.
        self._closes = self._own or self._base.scheme != "https"
        self._reads = reads
        self._writes = writes
        self._library = library
        self._failures: tuple[type[Exception], ...] = (library.HTTPError, library.InvalidURL, OSError)
        self._content = _content_of(library)
        self._urls: dict[str, Any] = {}

    async def __call__(self, request: Request) -> Response:
        send = self._writes if request.kind is Kind.WRITE else self._reads
        native = self._native(request)
        failure: FreightExchangeError
        number = request.progress.hand_over()
        try:
            reply = await send(native)
            try:
                response = await _read(reply, number)
            except BaseException as error:
                if isinstance(error, FreightExchangeError):
                    error.status = reply.status_code
                await reply.stream.aclose()
                raise
            await self._let_go(reply)
        except AbandonedError:
            failure = TransportError("given up before the request was sent", unsent=True)
        except (DecodeError, TransportError) as error:
            # Its frames hold pieces of the reply, and a login's reply holds the token.
            failure = error.with_traceback(None)
        except self._library.HTTPStatusError as error:
            # An event hook of the caller's client that raises for a status: it is a reply all the same.
            return Response(
                status=error.response.status_code,
                content=b"",
                headers=error.response.headers.raw,
                attempt=number,
            )
        except self._failures as error:
            if isinstance(error, OSError) and error.filename is not None:
                # About a file: a bug in what the caller's client runs, and none of the network's.
                raise
            failure = self._translate(error, request)
            if failure.unsent:
                request.progress.reset()
        else:
            return response
        # Raised here, out of the handlers: the library's exception carries the request's body and headers, and must
        # not travel along as context.
        failure.attempts = number
        raise failure

    async def _let_go(self, reply: Any) -> None:
        """Give back the connection of a reply that is whole: what goes wrong there is nobody's loss."""
        with suppress(*self._failures):
            if self._own:
                # Its pool shields this from every cancellation and waits for nobody: a bound would bind nothing.
                await reply.stream.aclose()
            else:
                with anyio.move_on_after(_LETTING_GO):
                    await reply.stream.aclose()

    def _native(self, request: Request) -> Any:
        timeouts = request.timeouts
        extensions: dict[str, Any] = {
            "timeout": {
                "connect": timeouts.connect,
                "read": timeouts.read,
                "write": timeouts.write,
                # The limiter lets no more callers through than there are connections; if a caller's own client has
                # fewer, waiting for one is waiting like any other, until the deadline.
                "pool": None,
            }
        }
        handshake = None if self._closes else Handshake()
        if request.kind is not Kind.READ:
            # Proof of what was sent; where repeating is harmless anyhow, it would be pure cost.
            progress = request.progress

            async def trace(event: str, info: object) -> None:
                if handshake is not None:
                    await handshake.trace(event, info)
                progress.trace(event)

            extensions["trace"] = trace
        elif handshake is not None:
            extensions["trace"] = handshake.trace
        return self._library.Request(
            request.method,
            self._url(request),
            headers=self._headers(request),
            stream=self._content(request.content or b""),
            extensions=extensions,
        )

    def _url(self, request: Request) -> Any:
        url = self._urls.get(request.path)
        if url is None:
            url = self._library.URL(f"{self._base_url}/{request.path}")
            if (url.scheme, url.netloc) != (self._base.scheme, self._base.netloc):
                raise ConfigurationError(f"the path {request.path!r} leads away from {self._base_url}")
            if len(self._urls) < _MOST_URLS:
                self._urls[request.path] = url
        return url.copy_merge_params(request.params) if request.params else url

    def _headers(self, request: Request) -> list[tuple[bytes, bytes]]:
        # First of all: an error about one of these must find no token in this frame.
        added = _encoded(request.headers) if request.headers else []
        headers = [
            (b"Host", self._base.netloc),
            (b"Accept", b"application/json"),
            (b"Accept-Encoding", b"gzip"),
            (b"User-Agent", _USER_AGENT),
        ]
        if request.token is not None:
            headers.append((b"Authorization", b"Bearer " + request.token.reveal().encode("ascii")))
        if request.content is not None:
            headers.append((b"Content-Type", b"application/json"))
            headers.append((b"Content-Length", str(len(request.content)).encode("ascii")))
        elif request.method in ("POST", "PUT", "PATCH"):
            headers.append((b"Content-Length", b"0"))
        if added:
            replaced = {name.lower() for name, _ in added}
            headers = [pair for pair in headers if pair[0].lower() not in replaced] + added
        return headers

    def _translate(self, error: Exception, request: Request) -> TransportError:
        library = self._library
        # By the trace alone: that a transport raises before it sends is its own affair, and silence proves nothing.
        unsent, permanent = request.progress.surely_unsent, False
        if _certificate_invalid(error, said=isinstance(error, library.ConnectError)):
            return TransportError("the server's certificate is not valid for this host", unsent=unsent, permanent=True)
        if not isinstance(error, library.ConnectError | library.ConnectTimeout):
            unsent = False
        if isinstance(error, library.ConnectTimeout):
            what = f"no connection within {request.timeouts.connect:g} s"
        elif isinstance(error, library.ConnectError):
            what = "no connection to the server"
        elif isinstance(error, library.ReadTimeout):
            what = f"nothing came from the server for {request.timeouts.read:g} s"
        elif isinstance(error, library.WriteTimeout):
            what = f"the server took nothing of the request for {request.timeouts.write:g} s"
        elif isinstance(error, library.PoolTimeout):
            what = "the http_client had no free connection"
        elif isinstance(error, library.UnsupportedProtocol | library.InvalidURL | library.LocalProtocolError):
            what, permanent = "the HTTP library refused the request", True
        elif isinstance(error, library.ProxyError):
            what = "the proxy did not connect"
        else:
            what = "the connection broke"
        return TransportError(f"{what} ({type(error).__name__})", unsent=unsent, permanent=permanent)


def _encoded(headers: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    """The headers that a middleware added, as bytes."""
    encoded = []
    for name, value in headers:
        try:
            encoded.append((name.encode("ascii"), value.encode("latin-1")))
        except UnicodeEncodeError:
            break
        if not name or not value.replace("\t", "").isprintable():
            break
    else:
        return encoded
    raise ConfigurationError(f"a middleware added a header {name!a} that cannot be sent: only printable Latin-1 can")


@cache
def _content_of(library: Any) -> type[Any]:
    """The class of request bodies for a library, which insists on its own base classes."""

    class Content(library.ByteStream):  # type: ignore[misc]  # the library is known when it runs
        def __init__(self, content: bytes) -> None:
            super().__init__(content)
            self._content = content

        def __aiter__(self) -> _Once:
            return _Once(self._content)

    return Content


class _Once:
    """One piece, asynchronously.

    The library's own is a generator: when the sending fails it is left in its middle, and trio warns of that.
    """

    __slots__ = ("_piece",)

    def __init__(self, piece: bytes) -> None:
        self._piece: bytes | None = piece

    def __aiter__(self) -> _Once:
        return self

    async def __anext__(self) -> bytes:
        piece, self._piece = self._piece, None
        if piece is None:
            raise StopAsyncIteration
        return piece


async def _read(reply: Any, attempt: int) -> Response:
    headers: list[tuple[bytes, bytes]] = reply.headers.raw
    if reply.is_stream_consumed:
        # An event hook of the caller's client has read it, and the library has unpacked it.
        body = Body("")
        body.feed(reply.content)
        return Response(status=reply.status_code, content=body.finish(), headers=headers, attempt=attempt)
    encoding = b",".join(value for name, value in headers if name.lower() == b"content-encoding")
    body = Body(encoding.decode("latin-1"))
    chunks = aiter(reply.stream)
    try:
        async for chunk in chunks:
            body.feed(chunk)
    except (DecodeError, TransportError):
        # The library reads through a chain of generators. One that is merely left outlives the call, and trio warns of
        # it when it is collected: cancelled at the next wait, each of them ends. A body that never waits has none.
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(chunks, None)
        raise
    return Response(status=reply.status_code, content=body.finish(), headers=headers, attempt=attempt)


def _certificate_invalid(error: BaseException, *, said: bool) -> bool:
    """Whether it comes of a certificate; words count only where `said`, since a reply's own text gets into others."""
    seen: BaseException | None = error
    met: set[int] = set()
    while seen is not None and id(seen) not in met:
        met.add(id(seen))
        if isinstance(seen, ssl.SSLCertVerificationError) or (said and "CERTIFICATE_VERIFY_FAILED" in str(seen)):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
