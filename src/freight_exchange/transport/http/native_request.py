"""Conversion of the SDK's requests to those of an HTTP library."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from freight_exchange.errors import ConfigurationError
from freight_exchange.platform.version import __version__
from freight_exchange.transport.http.pool import REPEATABLE
from freight_exchange.transport.message import RequestKind

if TYPE_CHECKING:
    from freight_exchange.transport.http.trace import Trace
    from freight_exchange.transport.message import Request

__all__ = ["RequestFactory"]

_USER_AGENT = f"freight-exchange-python/{__version__}".encode("ascii")
_MAX_URLS = 256


class RequestFactory:
    """Factory of the library's requests for one base URL."""

    __slots__ = ("_base", "_base_url", "_content", "_library", "_own", "_urls")

    def __init__(self, library: Any, base_url: str, *, own: bool) -> None:
        """Create the factory; `own` means that the SDK's own connections send the requests."""
        self._library = library
        try:
            self._base = library.URL(base_url)
        except library.InvalidURL as error:
            raise ConfigurationError(f"base_url is not a URL: {error}") from None
        self._base_url = base_url
        self._own = own
        self._content = _content_class(library)
        self._urls: dict[str, Any] = {}

    @property
    def base(self) -> Any:
        """The base URL, as an object of the library."""
        return self._base

    def make(self, request: Request, trace: Trace | None) -> Any:
        """Make the library's request, with the token attached."""
        timeouts = request.timeouts
        extensions: dict[str, Any] = {
            "timeout": {
                "connect": timeouts.connect,
                "read": timeouts.read,
                "write": timeouts.write,
                # The limiter admits no more callers than there are connections. If a caller's own client has fewer, the
                # wait for one ends at the deadline.
                "pool": None,
            }
        }
        if trace is not None:
            extensions["trace"] = trace
        if self._own and request.kind is RequestKind.READ:
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
            if len(self._urls) < _MAX_URLS:
                self._urls[request.path] = url
        return url.copy_merge_params(request.params) if request.params else url

    def _headers(self, request: Request) -> list[tuple[bytes, bytes]]:
        # Encoded first, as an error about a header must not find the token in this frame.
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


def _encoded(headers: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    """Encode the headers that a middleware added."""
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
def _content_class(library: Any) -> type[Any]:
    """Return a class of request bodies for a library, which accepts only subclasses of its own."""

    class Content(library.ByteStream):  # type: ignore[misc]  # the library is known when it runs
        def __init__(self, content: bytes) -> None:
            super().__init__(content)
            self._content = content

        def __aiter__(self) -> _Once:
            return _Once(self._content)

    return Content


class _Once:
    """Asynchronous iterator over one piece.

    The library's own iterator is a generator: if sending fails it is not finished, and trio warns of that.
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
