"""Network: sends one request over HTTP and reads its whole reply.

The SDK's own connections are httpx transports of one connection each. A request borrows one; a complete reply puts it
back, and anything else closes it. So a cancelled request leaves nothing behind that a later one would need.
"""

from __future__ import annotations

import base64
import io
import os
import socket
import ssl
import sys
import zlib
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import anyio
import anyio.lowlevel
import httpx

from freight_exchange import __version__
from freight_exchange.errors import ConfigurationError, DecodeError, FreightExchangeError, TransportError
from freight_exchange.transport.call import Call, Request, RequestKind, Response
from freight_exchange.transport.redact import Secret, sending
from freight_exchange.wire.json import MAX_BODY

if TYPE_CHECKING:
    from types import ModuleType

    import httpx2

    from freight_exchange.config import Config

    HttpClient: TypeAlias = httpx.AsyncClient | httpx2.AsyncClient
else:
    # httpx2 need not be installed.
    HttpClient = httpx.AsyncClient | Any

T = TypeVar("T")

SEND_TIMEOUT: Final = 10
"""Seconds that the kernel continues to send bytes that the peer does not acknowledge.

Without a limit an offer could arrive long after `reconcile()` has proven its absence. It must be well under the settle
time of that proof, which is 30 seconds.
"""
# Python has the name of the option on Linux only. On Windows the unit is a second.
_SOCKET_OPTIONS: Final = {
    "linux": [(socket.IPPROTO_TCP, getattr(socket, "TCP_USER_TIMEOUT", 18), SEND_TIMEOUT * 1000)],
    "darwin": [(socket.IPPROTO_TCP, 0x80, SEND_TIMEOUT)],
    "win32": [(socket.IPPROTO_TCP, 5, SEND_TIMEOUT)],
}.get(sys.platform, [])
_USER_AGENT: Final = f"freight-exchange-python/{__version__}".encode("ascii")
_CLOSE_TIMEOUT: Final = 1.0


class NotSent(BaseException):
    """A request is not sent, because its caller has left or its limit has passed.

    It is no `Exception`, so that no HTTP library takes it for a failed connection and tries another one.
    """


class Network:
    """Innermost sender of a call."""

    def __init__(self, base_url: str, connections: Connections | CallersClient) -> None:
        self._connections = connections
        self._library = connections.library
        try:
            self._base = self._library.URL(base_url)
        except self._library.InvalidURL as error:
            raise ConfigurationError(f"base_url is not a URL: {error}") from None
        self._server = _address(self._base)
        # The library accepts only subclasses of its own.
        self._content: Any = type("Content", (_Content, self._library.ByteStream), {})
        # Parsing a URL takes long, and few paths are used.
        self._url = lru_cache(256)(lambda path: self._library.URL(f"{base_url}/{path}"))

    async def __call__(self, call: Call, request: Request) -> Response:
        if call.stopped:
            raise TransportError("the call has ended: a middleware may send a request only before it returns")
        if call.kind is RequestKind.WRITE and call.handed:
            raise ConfigurationError("a middleware may send a write only once: a second time could do it twice")
        trace = _Trace(call) if self._base.scheme == "https" or call.kind is not RequestKind.READ else None
        native = self._native(call, request, trace)
        failure: FreightExchangeError
        sending.set((call.redactor, call.kind is RequestKind.LOGIN))
        try:
            if call.limits.send_limit is not None and call.limits.send_limit.is_over:
                raise NotSent
            call.handed = True
            call.sends += 1
            # A transport without a trace proves nothing: from here on, it may have sent the request.
            call.began = True
            status, headers, content = await self._connections.send(native, fresh=call.kind is RequestKind.WRITE)
            return Response(status=status, content=content, headers=headers, attempt=call.sends)
        except NotSent:
            failure = TransportError("given up before the request was sent", unsent=not call.began)
        except FreightExchangeError as error:
            # Its frames contain parts of the reply, which may be a login's with the token.
            failure = error.with_traceback(None)
        except (self._library.TransportError, self._library.InvalidURL, OSError) as error:
            failure = self._translated(error, call, trace)
        except Exception as error:  # noqa: BLE001  # a caller's transport may raise anything
            # Its text may show the request with its token. A builtin type counts as a bug, and is not retried.
            module, name = type(error).__module__, type(error).__qualname__
            failure = TransportError(f"the HTTP client failed with {module}.{name}", permanent=module == "builtins")
        finally:
            sending.set(None)
        # Raised outside of the handlers: the library's exception has the request's body and headers, and must not
        # become the context of this error.
        failure.attempts = call.sends
        raise failure

    def _native(self, call: Call, request: Request, trace: _Trace | None) -> Any:
        timeouts = call.limits.timeouts
        limits = {"connect": timeouts.connect, "read": timeouts.read, "write": timeouts.write, "pool": None}
        url = self._url(request.path)
        return self._library.Request(
            request.method,
            url.copy_merge_params(request.params) if request.params else url,
            headers=self._headers(call, request),
            stream=self._content(request.content or b""),
            extensions={"timeout": limits} if trace is None else {"timeout": limits, "trace": trace},
        )

    def _headers(self, call: Call, request: Request) -> list[tuple[bytes, bytes]]:
        # Encoded first, as an error about a header must not find the token in this frame.
        added = [_encoded(name, value) for name, value in request.headers]
        headers = [
            (b"Host", self._base.netloc),
            (b"Accept", b"application/json"),
            (b"Accept-Encoding", b"gzip"),
            (b"User-Agent", _USER_AGENT),
        ]
        if call.token is not None:
            headers.append((b"Authorization", b"Bearer " + call.token.reveal().encode("ascii")))
        if request.content is not None:
            headers.append((b"Content-Type", b"application/json"))
            headers.append((b"Content-Length", str(len(request.content)).encode("ascii")))
        elif request.method in ("POST", "PUT", "PATCH"):
            headers.append((b"Content-Length", b"0"))
        if added:
            replaced = {name.lower() for name, _ in added}
            headers = [pair for pair in headers if pair[0].lower() not in replaced] + added
        return headers

    def _translated(self, error: Exception, call: Call, trace: _Trace | None) -> TransportError:
        """Return the error for a failure of the HTTP library. Its classes are recognised by their names."""
        names = {kind.__name__ for kind in type(error).__mro__}
        if trace is None:
            unsent = bool(names & {"ConnectError", "ConnectTimeout", "ProxyError"})
        else:
            # A caller's transport may have tried another connection without a trace: the failure must be this one's.
            is_traced = "ProxyError" in names or any(link is trace.failure for link in _links(error))
            unsent = not call.began and is_traced
        call.began = not unsent
        message, permanent = _explanation(error, names, self._server, self._connections.proxy_address, call)
        return TransportError(f"{message} ({type(error).__name__})", unsent=unsent, permanent=permanent)


class _Trace:
    """Receiver of httpcore's trace: records whether a byte of the request may have left, and can stop it before.

    It also closes the connection of a failed TLS handshake, which the library forgets.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._stream: Any = None
        self.failure: object = None
        """The exception with which connecting failed last."""

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        call = self._call
        if event.endswith((".send_request_headers.started", ".send_request_body.started")):
            if getattr(info.get("request"), "method", None) == b"CONNECT" and call.method != "CONNECT":
                return
            limit = call.limits.send_limit
            # Checked for the body too, as a request without its end has no effect.
            if (limit is not None and limit.is_over) or (not call.began and (call.stopped or call.is_late())):
                raise NotSent
            call.began = True
        elif event.endswith((".connect_tcp.started", ".connect_unix_socket.started")):
            # From here on the transport shows what it does.
            call.began = False
        elif event.endswith(".connect_tcp.complete"):
            self._stream = info.get("return_value")
        elif event.endswith(".failed") and not call.began:
            self.failure = info.get("exception")
            if event.endswith(".start_tls.failed") and self._stream is not None:
                await _close(self._stream)


class Connections:
    """The SDK's own connections, directly or through a proxy; `backend` replaces the network below them.

    A write has a fresh connection. If the server closed an idle one just as a write is sent on it, the outcome of the
    write would be unknown.
    """

    library: ModuleType = httpx

    def __init__(self, options: Config, backend: Any) -> None:
        # A plain URL needs no certificates, and loading them takes longer than many scripts run.
        is_plain = options.verify is True and options.base_url.startswith("http://") and options.proxy is None
        self._context = httpx.create_ssl_context(verify=False if is_plain else options.verify, trust_env=False)
        self._proxy = None if options.proxy is None else _proxy(options.proxy, self._context)
        self.proxy_address = None if self._proxy is None else _address(self._proxy.url)
        self.secrets: list[Secret] = []
        if self._proxy is not None and self._proxy.raw_auth is not None and (password := self._proxy.raw_auth[1]):
            # Plain, and as sent in basic authentication.
            basic = base64.b64encode(b":".join(self._proxy.raw_auth)).decode("ascii").rstrip("=")
            self.secrets = [Secret(password.decode("utf-8", "replace")), Secret(basic)]
        self._keepalive = options.keepalive
        self._backend = backend
        # The most recent connection is at the right end and reused first, so that the others expire at the left.
        self._idle: deque[tuple[httpx.AsyncHTTPTransport, float]] = deque()
        self._closed = False

    def _connection(self) -> httpx.AsyncHTTPTransport:
        connection = httpx.AsyncHTTPTransport(
            verify=self._context,
            trust_env=False,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=self._keepalive),
            proxy=self._proxy,
            socket_options=_SOCKET_OPTIONS,
        )
        if self._backend is not None:
            connection._pool._network_backend = self._backend
        return connection

    async def send(self, native: Any, *, fresh: bool) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Send a request; return the status, headers and body of its complete reply."""
        connection = self._connection() if fresh or not self._idle else self._idle.pop()[0]
        is_good = False
        try:
            response = await connection.handle_async_request(native)
            content = await _read(response)
            with suppress(httpx.HTTPError):
                await response.aclose()
            is_good = not fresh and not self._closed and _is_clean(connection, response)
        finally:
            if is_good:
                now = anyio.current_time()
                self._idle.append((connection, now))
                if self._idle[0][1] < now - self._keepalive:
                    await _close(self._idle.popleft()[0])
            else:
                await _close(connection)
        return response.status_code, response.headers.raw, content

    async def aclose(self) -> None:
        """Close idle connections now, and the others when their requests end."""
        self._closed = True
        while self._idle:
            await _close(self._idle.pop()[0])


def _is_clean(connection: httpx.AsyncHTTPTransport, response: httpx.Response) -> bool:
    """Return whether the connection is open and has no bytes with which the next reply would begin."""
    stream = response.extensions.get("network_stream")
    if stream is not None and (tls := stream.get_extra_info("ssl_object")) is not None:
        try:
            # From memory, without waiting.
            tls.read(1)
        except ssl.SSLError as error:
            if not isinstance(error, ssl.SSLWantReadError):
                return False
        else:
            return False
    # httpcore has no public name for the bytes that its parser holds.
    layer: Any = next(iter(connection._pool.connections), None)
    while layer is not None and not hasattr(layer, "_h11_state"):
        layer = getattr(layer, "_connection", None)
    return layer is not None and layer._h11_state.trailing_data == (b"", False)


class CallersClient:
    """Connections of a caller's client, with its transports, mounts and hooks, without its auth and redirects.

    On asyncio each request has a task of its own, which a cancelled caller leaves behind: the pools of httpx 0.28 lose
    a connection for good when a request is cancelled.
    """

    proxy_address = None

    def __init__(self, client: HttpClient) -> None:
        self.library = library_of(client)
        self._client = client
        self._tasks: set[Any] = set()

    async def send(self, native: Any, *, fresh: bool) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Send a request; return the status, headers and body of its complete reply."""
        if self._client.is_closed:
            raise ConfigurationError("the http_client is closed: keep it open for as long as the client that uses it")
        if (trio := sys.modules.get("trio")) is not None and trio.lowlevel.in_trio_run():
            return await self._exchange(native)
        return await self._in_task(self._exchange(native))

    async def _exchange(self, native: Any) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        reply = await self._client.send(native, auth=None, follow_redirects=False, stream=True)
        try:
            content = _bounded(reply.content) if reply.is_stream_consumed else await _read(reply)
        finally:
            with anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                await reply.aclose()
        return reply.status_code, reply.headers.raw, content

    async def _in_task(self, work: Coroutine[Any, Any, T]) -> T:
        import asyncio

        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Without this, an error that no caller waits for any more would be logged at the end of the program.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Cancel the requests in flight. The client itself stays open."""
        for task in [*self._tasks]:
            task.cancel()
        while self._tasks:
            await anyio.lowlevel.checkpoint()


def library_of(client: object) -> ModuleType:
    for name in ("httpx", "httpx2"):
        library = sys.modules.get(name)
        if library is not None and isinstance(client, library.AsyncClient):
            return library
    raise ConfigurationError(
        f"http_client must be an httpx.AsyncClient or an httpx2.AsyncClient, not {type(client).__name__}"
    )


# Replies


async def _read(reply: Any) -> bytes:
    body = bytearray()
    chunks = aiter(reply.stream)
    async for chunk in chunks:
        body += chunk
        if len(body) > MAX_BODY:
            # The library reads through nested generators, which would outlive the call. A cancellation ends them.
            with anyio.CancelScope() as scope:
                scope.cancel()
                await anext(chunks, None)
            _bounded(bytes(body))
    encoding = b",".join(value for name, value in reply.headers.raw if name.lower() == b"content-encoding")
    if encoding.lower() in (b"gzip", b"x-gzip"):
        return _inflated(bytes(body))
    if encoding.lower() not in (b"", b"identity"):
        raise DecodeError("the reply has an encoding that was not asked for")
    return bytes(body)


def _bounded(content: bytes) -> bytes:
    if len(content) > MAX_BODY:
        raise DecodeError(f"the reply is larger than {MAX_BODY:,} bytes")
    return content


def _inflated(data: bytes) -> bytes:
    import gzip

    error: TransportError | DecodeError
    try:
        # One byte more than the limit distinguishes a body that is too large from one that just fits.
        body = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MAX_BODY + 1)
    except EOFError:
        error = TransportError("the reply ended in the middle of its gzip stream")
    except (OSError, zlib.error):
        error = DecodeError("the reply is declared as gzip, but is not valid gzip")
    else:
        return _bounded(body)
    raise error


# Requests


def _encoded(name: str, value: str) -> tuple[bytes, bytes]:
    with suppress(UnicodeEncodeError):
        if name and value.replace("\t", "").isprintable():
            return name.encode("ascii"), value.encode("latin-1")
    raise ConfigurationError(f"a middleware added a header {name!a} that cannot be sent: only printable Latin-1 can")


class _Content:
    """Body that is its own iterator: the library's is a generator, and trio warns of one that is not finished."""

    def __aiter__(self: Any) -> Any:
        self._pieces = iter(self)
        return self

    async def __anext__(self: Any) -> Any:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


def _proxy(url: Secret, context: ssl.SSLContext) -> httpx.Proxy:
    # Raised outside of the handler and without the URL, which may contain a password.
    with suppress(ValueError, TypeError, httpx.InvalidURL):
        is_tls = httpx.URL(url.reveal()).scheme == "https"
        return httpx.Proxy(url.reveal(), ssl_context=context if is_tls else None)
    raise ConfigurationError("proxy must be the URL of a proxy, such as http://proxy.example:3128")


def _address(url: Any) -> str:
    # `url.host` is decoded: it differs for an international name, and fails for some that begin with xn--.
    host, port = url.raw_host.decode("ascii"), url.port or {"http": 80, "https": 443}.get(url.scheme)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _close(connection: Any) -> None:
    """Close a connection, also under cancellation, and ignore errors."""
    # Shielded, as the cancellation of the caller would end the closing too.
    with suppress(Exception), anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
        await connection.aclose()


# Errors


def _explanation(error: Exception, names: set[str], server: str, proxy: str | None, call: Call) -> tuple[str, bool]:
    """Return the sentence for a failure, and whether it is permanent."""
    peer = server if proxy is None else f"{server} through the proxy {proxy}"
    if "ProxyError" in names:
        status = int(digits) if (digits := str(error)[:3]).isdecimal() else 0
        advice = "; put the proxy's user and password into its URL" if status == 407 else ""
        is_final = 0 < status < 500 and status not in (408, 425, 429)
        return f"the proxy {proxy} did not connect to {server}: status {status or 'unknown'}{advice}", is_final
    if names & {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError"}:
        return f"the HTTP library refused the request to {server}", True
    timeouts = call.limits.timeouts
    sentences = {
        "ConnectTimeout": f"no connection within {timeouts.connect:g} s to {peer}",
        "ReadTimeout": f"nothing came from {peer} for {timeouts.read:g} s",
        "WriteTimeout": f"{peer} took nothing of the request for {timeouts.write:g} s",
        "ConnectError": f"no connection to {peer}",
    }
    sentence = next((sentences[name] for name in sentences if name in names), f"the connection to {peer} broke")
    for link in () if names & {"ConnectTimeout", "ReadTimeout", "WriteTimeout"} else _links(error):
        if "ConnectError" in names and "CERTIFICATE_VERIFY_FAILED" in str(link):
            flaw = str(link).partition("verify failed")[2].partition(" (")[0]
            return f"{sentence}: its certificate is not accepted{flaw}; for a private authority give verify=", True
        match link:
            case ssl.SSLError():
                return f"{sentence}: the TLS handshake failed; is https:// right in the URL?", False
            case socket.gaierror():
                return f"{sentence}: no such host", False
            case OSError(errno=int(number)):
                return f"{sentence}: {os.strerror(number).lower()}", False
    return sentence, False


def _links(error: BaseException) -> Iterator[BaseException]:
    """Iterate over an error and its causes, which may be a ring."""
    links = [error]
    # The list grows while it is read.
    for link in links:
        yield link
        following = link.exceptions if isinstance(link, BaseExceptionGroup) else ()
        for one in (link.__cause__ or link.__context__, *following):
            if one is not None and one not in links:
                links.append(one)
