"""HTTP of the sandbox: calls, replies, and the failures of their connections."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs

__all__ = ["Call", "Cut", "Reply", "WireFault"]


class Cut(enum.Enum):
    """Failure of a connection. The first group strikes before the server has the whole request."""

    REFUSED = "refused"  # nothing listens
    DNS = "dns"  # the name does not resolve
    CONNECT_STALL = "connect_stall"  # the handshake of TCP never ends
    TLS_STALL = "tls_stall"  # connected, the TLS hello is never answered
    BAD_CERTIFICATE = "bad_certificate"  # the certificate is not trusted
    POOL_EXHAUSTED = "pool_exhausted"  # the client's own pool has no free connection
    RESET_BEFORE_HEADERS = "reset_before_headers"  # RST before the head of the request was read
    RESET_MID_BODY = "reset_mid_body"  # RST when the head, but not the whole body of the request was read

    RESET_AFTER_SEND = "reset_after_send"  # request received whole, not processed, then RST
    RESET_AFTER_PROCESSING = "reset_after_processing"  # processed, then RST instead of the reply
    RESET_MID_REPLY = "reset_mid_reply"  # head and half of the reply's body, then RST
    FIN_NO_BYTES = "fin_no_bytes"  # the connection closed in order, without one byte of a reply
    STALL = "stall"  # no reply, ever; the connection stays open
    STALL_MID_REPLY = "stall_mid_reply"  # head and half of the body, then silence
    DRIP = "drip"  # the whole reply, byte by byte, `seconds` between two bytes
    TRUNCATED_LENGTH = "truncated_length"  # Content-Length is more than what comes before FIN
    TRUNCATED_CHUNKS = "truncated_chunks"  # chunked, FIN before the last chunk
    GARBAGE_STATUS = "garbage_status"  # a status line that is not HTTP
    HEADER_FLOOD = "header_flood"  # headers without end
    BYTES_AFTER_REPLY = "bytes_after_reply"  # a good reply, then its bytes again, which no request asked for
    IDLE_FIN = "idle_fin"  # a good reply that promises to keep the connection, then FIN `seconds` later

    @property
    def early(self) -> bool:
        """`True` for a cut before the server has the whole request, so that nothing can have taken effect."""
        return self in _EARLY


_EARLY = frozenset(
    {
        Cut.REFUSED,
        Cut.DNS,
        Cut.CONNECT_STALL,
        Cut.TLS_STALL,
        Cut.BAD_CERTIFICATE,
        Cut.POOL_EXHAUSTED,
        Cut.RESET_BEFORE_HEADERS,
        Cut.RESET_MID_BODY,
    }
)


@attrs.frozen
class WireFault:
    """One cut. `seconds` is the pause of a drip or an idle FIN; `size` is the least number of bytes of a flood."""

    cut: Cut
    seconds: float = 0.0
    size: int = 0


@attrs.frozen
class Call:
    """HTTP request as the server received it.

    `path` is relative to the API root and has no leading slash (`quote/getrequests`); the names of `headers`
    are lower case.
    """

    method: str
    path: str
    query: Mapping[str, str] = attrs.field(factory=dict)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    body: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen
class Reply:
    """HTTP reply, with the cut that breaks its connection.

    `delay` is the time in seconds before the first byte. If a cut prevents a reply, `status` is 0 and `body` is empty.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = attrs.field(default=b"", repr=False)
    wire: WireFault | None = None
    delay: float = 0.0
