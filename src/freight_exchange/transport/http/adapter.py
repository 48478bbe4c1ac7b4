"""Network: sends one request by an HTTP library.

The library is httpx for the SDK's own connections, and otherwise that of the caller's client. httpx2 has unrelated
classes of the same names, so exceptions, requests and URLs are always those of the client's own module.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import httpx

from freight_exchange.errors import ConfigurationError, DecodeError, FreightExchangeError, TransportError
from freight_exchange.transport.http.connect_errors import NetworkRoute, explain
from freight_exchange.transport.http.decompression import Body
from freight_exchange.transport.http.native_request import RequestFactory
from freight_exchange.transport.http.trace import Trace, address
from freight_exchange.transport.http.unread_bytes import has_leftover, make_unusable
from freight_exchange.transport.message import AbandonedError, RequestKind, Response

if TYPE_CHECKING:
    from types import ModuleType

    from freight_exchange.transport.message import Request

__all__ = ["HttpClient", "Network", "Send", "client_sender", "host_and_port", "library_of"]

if TYPE_CHECKING:
    import httpx2

    HttpClient: TypeAlias = httpx.AsyncClient | httpx2.AsyncClient
else:
    # httpx2 need not be installed.
    HttpClient = httpx.AsyncClient | Any

Send = Callable[[Any], Awaitable[Any]]
"""Function that sends a native request and returns the native reply, with its body unread."""

_MAX_CAUSES = 4
_RELEASE_TIMEOUT = 1.0
"""Time limit for returning the connection of a complete reply, in seconds."""


def library_of(client: object) -> ModuleType:
    """Return the HTTP library of a caller's client; `ConfigurationError` for any other object."""
    for name in ("httpx", "httpx2"):
        library = sys.modules.get(name)
        if library is not None and isinstance(client, library.AsyncClient):
            return library
    raise ConfigurationError(
        f"http_client must be an httpx.AsyncClient or an httpx2.AsyncClient, not {type(client).__name__}"
    )


def client_sender(client: HttpClient) -> Send:
    """Return a sender by a caller's client, with its transports, mounts and hooks, without its auth and redirects."""
    # The codec of HTTP/2 logs whole header blocks at DEBUG, and the token can be read from them.
    for name in ("hpack.hpack", "hpack.table"):
        if (logger := logging.getLogger(name)).level == logging.NOTSET:
            logger.setLevel(logging.INFO)

    async def send(native: Any) -> Any:
        if client.is_closed:
            raise ConfigurationError("the http_client is closed: keep it open for as long as the client that uses it")
        return await client.send(native, auth=None, follow_redirects=False, stream=True)

    return send


class Network:
    """Innermost sender of the chain: sends a request through the library and reads the complete reply.

    Raises:
        TransportError: The network failed.
        DecodeError: The reply cannot be decompressed.
    """

    def __init__(
        self, base_url: str, reads: Send, writes: Send, library: Any = None, *, proxy: str | None = None
    ) -> None:
        """Create a sender over a caller's `library`, or without one, over the SDK's own connections and `proxy`."""
        self._own = library is None
        library = library or httpx
        self._requests = RequestFactory(library, base_url, own=self._own)
        self._server = host_and_port(self._requests.base)
        self._proxy = proxy
        # Whether a cancelled handshake can leave a connection open; the SDK's own backend closes its connections.
        self._closes = not self._own and self._requests.base.scheme == "https"
        self._reads = reads
        self._writes = writes
        self._library = library
        self._failures: tuple[type[Exception], ...] = (library.HTTPError, library.InvalidURL, OSError)
        if self._own:
            self._failures += _httpcore_errors()

    async def __call__(self, request: Request) -> Response:
        send = self._writes if request.kind is RequestKind.WRITE else self._reads
        trace = self._trace(request)
        native = self._requests.make(request, trace)
        failure: FreightExchangeError
        number = 0
        try:
            number = request.progress.record_send()
            reply = await send(native)
            try:
                response = await _read(reply, number)
            except BaseException as error:
                if isinstance(error, FreightExchangeError):
                    error.status = reply.status_code
                await reply.stream.aclose()
                raise
            await self._release(reply)
        except AbandonedError:
            began = request.progress.began
            failure = TransportError(f"given up before the {'end of the ' * began}request was sent", unsent=not began)
            if not began:
                request.progress.reset()
        except (DecodeError, TransportError) as error:
            # Its frames contain parts of the reply, which may be a login's with the token.
            failure = error.with_traceback(None)
        except self._library.HTTPStatusError as error:
            if (replied := _reply_raised(error, native, number)) is not None:
                return replied
            failure = _foreign(error)
        except self._failures as error:
            if isinstance(error, OSError) and error.filename is not None:
                # An error about a file is a bug in the caller's client, not a network failure.
                raise
            failure = self._translate(error, request, trace)
            if failure.unsent:
                request.progress.reset()
        except FreightExchangeError:
            raise
        except Exception as error:  # noqa: BLE001  # a foreign transport may raise anything, with the token in its repr
            failure = _foreign(error)
        else:
            return response
        # Raised outside of the handlers: the library's exception has the request's body and headers, and must not
        # become the context of this error.
        failure.attempts = number
        raise failure

    async def _release(self, reply: Any) -> None:
        """Return the connection of a complete reply; a failure there does not change the reply."""
        with suppress(Exception):
            if self._own:
                # The pool shields this from cancellation and does not wait, so no time limit is needed.
                await reply.stream.aclose()
            else:
                with anyio.move_on_after(_RELEASE_TIMEOUT):
                    if has_leftover(reply.stream, reply.extensions.get("network_stream")):
                        await make_unusable(reply)
                    await reply.stream.aclose()

    def _trace(self, request: Request) -> Trace | None:
        """Return a trace of the attempt. A read needs one only to close connections, or with a proxy."""
        progress = request.progress if request.kind is not RequestKind.READ else None
        if progress is None and not self._closes and self._proxy is None:
            return None
        return Trace(request.method, progress, closes=self._closes)

    def _translate(self, error: Exception, request: Request, trace: Trace | None) -> TransportError:
        if trace is None:
            route = NetworkRoute(self._server, self._proxy)
        else:
            # A caller's client that connects to another host than the server has a proxy of its own.
            proxy = self._proxy or (trace.peer if trace.peer != self._server else None)
            route = NetworkRoute(
                self._server, proxy, at_proxy=proxy is not None and trace.at_proxy, refusal=trace.refusal
            )
        failure = explain(error, route, request.timeouts)
        return TransportError(
            failure.message, unsent=self._surely_unsent(error, request, trace), permanent=failure.permanent
        )

    def _surely_unsent(self, error: Exception, request: Request, trace: Trace | None) -> bool:
        """Return whether the trace and the error together prove that nothing of the request was sent.

        After a failed connection, a caller's transport may try another way that the trace does not show. So the error
        must be the failure of the connection in the trace, or be caused by it. If the trace has no such failure, the
        error must be a connect error.
        """
        if not request.progress.surely_unsent:
            return False
        failure = None if trace is None else trace.failure
        if self._own or failure is None:
            library = self._library
            return self._own or isinstance(error, library.ConnectError | library.ConnectTimeout | library.ProxyError)
        link: BaseException | None = error
        for _ in range(_MAX_CAUSES):
            if link is None or link is failure:
                break
            link = link.__cause__
        return link is failure


def host_and_port(url: Any) -> str:
    """Format host and port of a library's URL, with the default port, and the host as connections name it."""
    # `url.host` is decoded: it differs for an international name, and fails for some that begin with xn--.
    return address(url.raw_host.decode("ascii"), url.port or {"http": 80, "https": 443}.get(url.scheme))


def _httpcore_errors() -> tuple[type[Exception], ...]:
    import httpcore

    return (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError)


def _foreign(error: Exception) -> TransportError:
    """Return the error for an exception that the HTTP library does not document.

    It has the type and the place of the exception, but not its text, which may show the request with its token. A
    builtin type counts as a bug, which is not retried.
    """
    kind = type(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return TransportError(
        f"the HTTP client failed with {kind.__module__}.{kind.__qualname__} in {Path(frame.filename).name}, line"
        f" {frame.lineno}",
        permanent=kind.__module__ == "builtins",
    )


def _reply_raised(error: Any, native: Any, attempt: int) -> Response | None:
    """Return the reply if an event hook of the caller's client raised because of its status.

    The result is `None` if the reply belongs to another request, made by the hook. It is also `None` for a success
    whose body the hook has not read: the empty body would count as a result.
    """
    reply = error.response
    try:
        if reply.request is not native or (reply.is_success and not reply.is_stream_consumed):
            return None
    except RuntimeError:
        # The hook made the reply itself: it belongs to no request.
        return None
    content = reply.content if reply.is_stream_consumed else b""
    return Response(status=reply.status_code, content=content, headers=reply.headers.raw, attempt=attempt)


async def _read(reply: Any, attempt: int) -> Response:
    headers: list[tuple[bytes, bytes]] = reply.headers.raw
    if reply.is_stream_consumed:
        # An event hook of the caller's client has read the body, and the library has decompressed it.
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
        # The library reads through nested generators. If the reading just stops they outlive the call, and trio warns
        # when they are collected. A cancellation at the next wait ends all of them.
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(chunks, None)
        raise
    return Response(status=reply.status_code, content=body.finish(), headers=headers, attempt=attempt)
