"""Detection of bytes after the end of a reply, which the HTTP library would read as the beginning of the next one."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from freight_exchange.transport.http.trace import close

__all__ = ["has_leftover", "is_tls_leftover", "make_unusable"]

_LAYERS = ("_connection", "_stream", "_httpcore_stream")
_MAX_LAYERS = 8


def has_leftover(layer: Any, network_stream: Any = None) -> bool:
    """Return whether the parser under a connection, or under a reply's stream, has bytes after the reply.

    httpx and httpcore have no public name for these bytes. Without a parser the result is `False`. With a
    `network_stream`, bytes that TLS has received and decrypted count too.
    """
    for _ in range(_MAX_LAYERS):
        if (parser := getattr(layer, "_h11_state", None)) is not None:
            trailing, ended = parser.trailing_data
            return bool(trailing) or ended or (network_stream is not None and is_tls_leftover(network_stream))
        layer = next((inner for name in _LAYERS if (inner := getattr(layer, name, None)) is not None), None)
    return False


def is_tls_leftover(network_stream: Any) -> bool:
    """Return whether TLS has unread bytes or the end of its stream; `False` without TLS.

    Bytes that came with the reply are no longer in the socket, but in the buffer of TLS. This function reads one of
    them, so the connection must not be used again.
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


async def make_unusable(reply: Any) -> None:
    """Shut down the socket under a reply, so that the HTTP library's pool does not use its connection again."""
    stream = reply.extensions.get("network_stream")
    if stream is None:
        return
    try:
        # Shut down and not closed: on trio, the pool reads the state of the socket, which fails after a close.
        stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
    except (AttributeError, OSError, TypeError):
        # Sockets of uvloop cannot be shut down.
        await close(stream)
