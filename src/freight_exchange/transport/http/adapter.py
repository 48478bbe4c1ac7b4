"""One request over an HTTP library: the only place that imports one.

The library is httpx for the SDK's own clients, and whichever the caller's client belongs to otherwise: httpx2 has the
same names and unrelated classes, so that exceptions, requests and URLs are always taken from the client's own module.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx

from freight_exchange.errors import ConfigurationError, DecodeError, FreightExchangeError, TransportError
from freight_exchange.transport.http.connect_errors import Route, explain
from freight_exchange.transport.http.decompression import Body
from freight_exchange.transport.http.leftover import has_leftover, spoil
from freight_exchange.transport.http.pool import REPEATABLE
from freight_exchange.transport.http.trace import Trace, address
from freight_exchange.transport.message import AbandonedError, Kind, Response

if TYPE_CHECKING:
    from types import ModuleType

    from freight_exchange.transport.message import Request

__all__ = ["HttpClient", "Network", "Send", "host_and_port", "library_of", "through"]

HttpClient = httpx.AsyncClient | Any
"""An `httpx.AsyncClient` or an `httpx2.AsyncClient`; the latter need not be installed, so a type checker sees `Any`."""

Send = Callable[[Any], Awaitable[Any]]
"""Sends a native request and gives the native reply, its body still to be read."""

_USER_AGENT = b"freight-exchange-python"
_MOST_URLS = 256
_MOST_CAUSES = 4
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


class Network:
    """Sends a request through the library and reads the reply whole.

    Raises `TransportError` for what the network does, `DecodeError` for a reply that cannot be unpacked; anything
    else that comes out of it is a bug and stays one.
    """

    def __init__(
        self, base_url: str, reads: Send, writes: Send, library: Any = None, *, proxy: str | None = None
    ) -> None:
        """`library` is that of a caller's client; without one, the connections are the SDK's own, by way of `proxy`."""
        self._own = library is None
        library = library or httpx
        try:
            self._base = library.URL(base_url)
        except library.InvalidURL as error:
            raise ConfigurationError(f"base_url is no URL: {error}") from None
        self._base_url = base_url
        self._server = host_and_port(self._base)
        self._proxy = proxy
        # Whether a handshake can leave a connection open: the SDK's own are closed where they are made.
        self._closes = not self._own and self._base.scheme == "https"
        self._reads = reads
        self._writes = writes
        self._library = library
        self._failures: tuple[type[Exception], ...] = (library.HTTPError, library.InvalidURL, OSError)
        if self._own:
            self._failures += _httpcore_errors()
        self._content = _content_of(library)
        self._urls: dict[str, Any] = {}

    async def __call__(self, request: Request) -> Response:
        send = self._writes if request.kind is Kind.WRITE else self._reads
        trace = self._trace(request)
        native = self._native(request, trace)
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
            if (replied := _reply_raised(error, native, number)) is not None:
                return replied
            failure = _foreign(error)
        except self._failures as error:
            if isinstance(error, OSError) and error.filename is not None:
                # About a file: a bug in what the caller's client runs, and none of the network's.
                raise
            failure = self._translate(error, request, trace)
            if failure.unsent:
                request.progress.reset()
        except FreightExchangeError:
            raise
        except Exception as error:  # noqa: BLE001  # a foreign transport raises what it likes, the token in its repr
            failure = _foreign(error)
        else:
            return response
        # Raised here, out of the handlers: the library's exception carries the request's body and headers, and must
        # not travel along as context.
        failure.attempts = number
        raise failure

    async def _let_go(self, reply: Any) -> None:
        """Give back the connection of a reply that is whole: what goes wrong there changes nothing of the reply."""
        with suppress(Exception):
            if self._own:
                # Its pool shields this from every cancellation and waits for nobody: a bound would bind nothing.
                await reply.stream.aclose()
            else:
                with anyio.move_on_after(_LETTING_GO):
                    if has_leftover(reply.stream, reply.extensions.get("network_stream")):
                        await spoil(reply)
                    await reply.stream.aclose()

    def _trace(self, request: Request) -> Trace | None:
        """The trace that the attempt needs: of a read, only where it closes a connection or knows a proxy."""
        progress = request.progress if request.kind is not Kind.READ else None
        if progress is None and not self._closes and self._proxy is None:
            return None
        return Trace(request.method, progress, closes=self._closes)

    def _native(self, request: Request, trace: Trace | None) -> Any:
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
        if trace is not None:
            extensions["trace"] = trace
        if self._own and request.kind is Kind.READ:
            extensions[REPEATABLE] = True
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

    def _translate(self, error: Exception, request: Request, trace: Trace | None) -> TransportError:
        if trace is None:
            route = Route(self._server, self._proxy)
        else:
            # A caller's client that connects to anything but the server has a proxy of its own.
            proxy = self._proxy or (trace.peer if trace.peer != self._server else None)
            route = Route(self._server, proxy, at_proxy=proxy is not None and trace.at_proxy, refusal=trace.refusal)
        failure = explain(error, route, request.timeouts)
        return TransportError(
            failure.message, unsent=self._surely_unsent(error, request, trace), permanent=failure.permanent
        )

    def _surely_unsent(self, error: Exception, request: Request, trace: Trace | None) -> bool:
        """Whether the trace and the error together prove that nothing of the request was sent.

        A caller's transport may have turned to another way after a connection failed, and one that does not trace and
        fails with whatever it likes. There the error must be the very one with which connecting failed, or come of it;
        where the trace does not show that one, an error of connecting.
        """
        if not request.progress.surely_unsent:
            return False
        failure = None if trace is None else trace.failure
        if self._own or failure is None:
            library = self._library
            return self._own or isinstance(error, library.ConnectError | library.ConnectTimeout | library.ProxyError)
        link: BaseException | None = error
        for _ in range(_MOST_CAUSES):
            if link is None or link is failure:
                break
            link = link.__cause__
        return link is failure


def host_and_port(url: Any) -> str:
    """Host and port of a library's URL, for people: the default port spelled out."""
    return address(url.host, url.port or {"http": 80, "https": 443}.get(url.scheme))


def _httpcore_errors() -> tuple[type[Exception], ...]:
    import httpcore

    return (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError)


def _foreign(error: Exception) -> TransportError:
    """Return the error for an exception that the HTTP library does not document.

    It names the type and the place, and quotes nothing: such exceptions show the request with its token. A builtin type
    is taken for a bug, which no retry mends.
    """
    kind = type(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return TransportError(
        f"the HTTP client failed with {kind.__module__}.{kind.__qualname__} in {Path(frame.filename).name}, line"
        f" {frame.lineno}",
        permanent=kind.__module__ == "builtins",
    )


def _reply_raised(error: Any, native: Any, attempt: int) -> Response | None:
    """Return the reply for whose status an event hook of the caller's client raised.

    `None` where it answers a request of the hook's own, which says nothing about this one. The same holds for a success
    whose body the hook left unread: an empty one would say that all went well.
    """
    reply = error.response
    try:
        if reply.request is not native or (reply.is_success and not reply.is_stream_consumed):
            return None
    except RuntimeError:
        # The hook made it up, and it answers no request.
        return None
    content = reply.content if reply.is_stream_consumed else b""
    return Response(status=reply.status_code, content=content, headers=reply.headers.raw, attempt=attempt)


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
