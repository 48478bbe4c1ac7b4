"""Map an HTTP library's exception to the text of a `TransportError`: host, port, reason and advice. Pure.

The libraries (httpx, httpx2, httpcore) have unrelated classes of the same names, so a class is recognised by its name.
"""

from __future__ import annotations

import errno
import http
import os
import re
import socket
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from freight_exchange.options import Timeouts

__all__ = ["Failure", "NetworkRoute", "destination", "explain"]

_NO_SUCH_HOST = {
    code for name in ("EAI_NONAME", "EAI_NODATA", "EAI_FAIL") if (code := getattr(socket, name, None)) is not None
}
_CERTIFICATE = (
    # Messages of OpenSSL in the order of the search, each with its meaning and advice.
    ("expired", "has expired", "the server needs a new one"),
    ("not yet valid", "is not valid yet", "check this machine's clock"),
    ("hostname mismatch", "is for another host", "check the host in base_url"),
    ("ip address mismatch", "is for another host", "check the host in base_url"),
    (
        "self-signed certificate in certificate chain",
        "comes from a private certificate authority",
        "load that authority into an ssl.SSLContext and pass it as verify=",
    ),
    ("self-signed", "is self-signed", "load it into an ssl.SSLContext and pass that as verify="),
    ("self signed", "is self-signed", "load it into an ssl.SSLContext and pass that as verify="),
    (
        "unable to get local issuer",
        "comes from an unknown certificate authority",
        "if it is a private one, load it into an ssl.SSLContext and pass that as verify=",
    ),
    ("revoked", "was revoked", "the server needs a new one"),
)
_OTHER_PROBLEM = ("is not valid for this host", "see verify= if its authority is a private one")
_NO_TLS = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")
"""Reasons of OpenSSL versions for a reply that is not TLS."""
_NO_TLS_ADVICE = ", since the reply was not TLS: is https:// right in the URL?"
_MAX_PATH = 100


class NetworkRoute(NamedTuple):
    """Known hosts and ports of an attempt."""

    server: str
    proxy: str | None = None
    at_proxy: bool = False
    """`True` if the attempt ended before the proxy had connected to the server."""
    refusal: int | None = None
    """Status with which the proxy refused to connect to the server."""

    @property
    def peer(self) -> str:
        """Description of the machine at which the attempt failed."""
        if self.proxy is not None and self.at_proxy:
            return f"the proxy {self.proxy}"
        return self.server if self.proxy is None else f"{self.server} through the proxy {self.proxy}"


class Failure(NamedTuple):
    """Message of an error, and whether the error is permanent, so that a retry cannot help."""

    message: str
    permanent: bool = False


def explain(error: BaseException, route: NetworkRoute, timeouts: Timeouts) -> Failure:
    """Explain an exception of an HTTP library."""
    names = {kind.__name__ for kind in type(error).__mro__}
    name = type(error).__name__
    if (reason := _certificate_problem(error, by_text="ConnectError" in names)) is not None:
        server = f"the proxy {route.proxy}" if route.proxy is not None and route.at_proxy else route.server
        problem, advice = reason
        return Failure(f"the certificate of {server} {problem}: {advice}", permanent=True)
    if "ProxyError" in names:
        return _refused_by_proxy(error, route)
    if names & {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError"}:
        return Failure(f"the HTTP library refused the request to {route.server} ({name})", permanent=True)
    if "ConnectTimeout" in names:
        message = f"no connection within {timeouts.connect:g} s to {route.peer}"
    elif "ConnectError" in names:
        message = f"no connection to {route.peer}: {_reason(error) or 'the handshake failed'}"
    elif "ReadTimeout" in names:
        message = f"nothing came from {route.peer} for {timeouts.read:g} s"
    elif "WriteTimeout" in names:
        message = f"{route.peer} took nothing of the request for {timeouts.write:g} s"
    elif "PoolTimeout" in names:
        message = f"the http_client had no free connection for {route.server}"
    else:
        reason_ = _reason(error)
        message = f"the connection to {route.peer} broke" + (f": {reason_}" if reason_ else "")
    return Failure(f"{message} ({name})")


def destination(location: str | None) -> str | None:
    """Return the host and path of a redirect, without parts that may be secret."""
    try:
        parts = urlsplit(location or "")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not parts.path.isprintable() or not (host or parts.path):
        return None
    # Parameters of the path, such as a session id, are removed like user, query and fragment.
    path = parts.path.partition(";")[0][:_MAX_PATH]
    if not host:
        return path or None
    name = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{name}" if parts.scheme else f"//{name}"
    return f"{origin}{'' if port is None else f':{port}'}{path}"


def _refused_by_proxy(error: BaseException, route: NetworkRoute) -> Failure:
    proxy_name = "the http_client's proxy" if route.proxy is None else f"the proxy {route.proxy}"
    status = route.refusal
    if status is None and (by_text := re.match(r"(\d{3})\b", str(error))):
        # Reads have no trace, but the library's message begins with the status.
        status = int(by_text[1])
    if status is None:
        return Failure(f"{proxy_name} did not connect to {route.server} ({type(error).__name__})")
    try:
        # The standard phrase, as the proxy's own may repeat parts of the request.
        phrase = f" {http.HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    message = f"{proxy_name} did not connect to {route.server}: it answered {status}{phrase}"
    if status == 407:
        return Failure(f"{message}; put the proxy's user and password into its URL", permanent=True)
    return Failure(message, permanent=status < 500 and status not in (408, 425, 429))


def _certificate_problem(error: BaseException, *, by_text: bool) -> tuple[str, str] | None:
    """Return the problem of a certificate and the advice.

    `by_text` also searches the messages of errors; only those of connect errors never quote a reply.
    """
    for link in _chain_of(error):
        if isinstance(link, ssl.SSLCertVerificationError) or (by_text and "CERTIFICATE_VERIFY_FAILED" in str(link)):
            text = f"{getattr(link, 'verify_message', '')} {link}".lower()
            return next((found for words, *found in _CERTIFICATE if words in text), None) or _OTHER_PROBLEM  # type: ignore[return-value]  # two of three
    return None


def _reason(error: BaseException) -> str | None:
    """Return the system's reason for a failed connection."""
    found = None
    for link in _chain_of(error):
        if isinstance(link, socket.gaierror):
            return "no such host" if link.errno in _NO_SUCH_HOST else "the host's name could not be resolved"
        if isinstance(link, ConnectionRefusedError):
            return "connection refused"
        if isinstance(link, ssl.SSLError):
            speaks_http = any(words in str(link) for words in _NO_TLS)
            found = found or ("the TLS handshake failed" + (_NO_TLS_ADVICE if speaks_http else ""))
        elif isinstance(link, OSError) and link.errno is not None and link.errno in errno.errorcode:
            found = found or os.strerror(link.errno).lower()
    return found


def _chain_of(error: BaseException) -> Iterator[BaseException]:
    """Iterate over the error and its causes and contexts, each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop(0)
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += [link.__cause__, link.__context__]
        if isinstance(link, BaseExceptionGroup):
            waiting += link.exceptions
