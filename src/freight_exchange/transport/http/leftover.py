"""Bytes beyond a reply's end, which the HTTP library would take for the beginning of the next reply."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from freight_exchange.transport.http.trace import close

__all__ = ["has_leftover", "is_tls_leftover", "spoil"]

_LAYERS = ("_connection", "_stream", "_httpcore_stream")
_MOST_LAYERS = 8


def has_leftover(layer: Any, network_stream: Any = None) -> bool:
    """Whether the parser under a connection, or under a reply's stream, holds bytes that no request asked for.

    Neither httpx nor httpcore shows them by a public name; what has no such parser under it is taken to hold none. With
    a `network_stream` those are looked for as well that TLS has received and nobody has read.
    """
    for _ in range(_MOST_LAYERS):
        if (parser := getattr(layer, "_h11_state", None)) is not None:
            trailing, ended = parser.trailing_data
            return bool(trailing) or ended or (network_stream is not None and is_tls_leftover(network_stream))
        layer = next((inner for name in _LAYERS if (inner := getattr(layer, name, None)) is not None), None)
    return False


def is_tls_leftover(network_stream: Any) -> bool:
    """Whether TLS, if there is any, holds more than was read of it, or its end.

    What came together with the reply has left the socket, and waits in TLS's own buffer. A byte of it is read here: the
    connection must not be used again.
    """
    tls = network_stream.get_extra_info("ssl_object")
    if tls is None:
        return False
    try:
        tls.read(1)
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:
        pass
    return True


async def spoil(reply: Any) -> None:
    """Shut down the socket under a reply, so that the HTTP library's pool does not use its connection again."""
    stream = reply.extensions.get("network_stream")
    if stream is None:
        return
    try:
        # Not closed: on trio the pool would ask a closed socket for its state, and fail.
        stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
    except (AttributeError, OSError, TypeError):
        # uvloop's sockets cannot be shut down.
        await close(stream)
