"""Trace of one attempt: separates the progress of the request from the connection and the proxy's tunnel."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from freight_exchange.transport.message import UNCONNECTED

if TYPE_CHECKING:
    from freight_exchange.transport.message import SendProgress

__all__ = ["Trace", "address", "close"]

_OPENED = (".connect_tcp.complete", ".connect_unix_socket.complete", ".start_tls.complete")
_CLOSING = 1.0
"""Time limit for closing, in seconds; TLS within TLS exchanges a last message."""


class Trace:
    """Receiver of httpcore's `trace` events. It passes the events of the request itself to its progress.

    The tunnel of a proxy is made by a CONNECT request, whose events have the same names as those of the request. They
    count as steps of connecting: without a tunnel, nothing of the request was sent.

    The HTTP libraries do not close a connection whose TLS handshake is cancelled. With `closes`, this class closes it.
    """

    __slots__ = ("_closes", "_method", "_progress", "_stream", "_tunnelling", "at_proxy", "failure", "peer", "refusal")

    def __init__(self, method: str, progress: SendProgress | None, *, closes: bool = False) -> None:
        self._method = method
        self._progress = progress
        self._closes = closes
        self._stream: Any = None
        self._tunnelling = False
        self.at_proxy = True
        """`True` until the proxy's tunnel is complete."""
        self.peer: str | None = None
        """Host and port of the last TCP connection: the server's, or a proxy's."""
        self.refusal: int | None = None
        """The status with which the proxy refused the tunnel."""
        self.failure: object = None
        """The exception with which connecting failed last, the tunnel included."""

    async def __call__(self, event: str, info: object) -> None:
        facts = info if isinstance(info, dict) else {}
        if event.endswith(".connect_tcp.started") and "host" in facts:
            self.peer = address(facts["host"], facts.get("port"))
            self.at_proxy = True
        if event.endswith(UNCONNECTED):
            self.failure = facts.get("exception")
        reported: str | None = event
        if event.endswith(".send_request_headers.started"):
            reported = self._begin(event, facts.get("request"))
        elif self._tunnelling:
            reported = self._tunnel_event(event, facts)
        if self._closes:
            await self._close_failed_tls(event, facts)
        if reported is not None and self._progress is not None:
            self._progress.trace(reported)

    def _begin(self, event: str, request: Any) -> str:
        self._tunnelling = getattr(request, "method", None) == b"CONNECT" and self._method != "CONNECT"
        if not self._tunnelling:
            self.at_proxy = False
            return event
        self.refusal = self.failure = None
        self.at_proxy = True
        return "proxy.connect_tunnel.started"

    def _tunnel_event(self, event: str, facts: dict[str, Any]) -> str | None:
        if event.endswith(".receive_response_headers.complete"):
            _, status, *_ = facts["return_value"]
            if 200 <= status < 300:
                self._tunnelling = self.at_proxy = False
                return "proxy.connect_tunnel.complete"
            self.refusal = status
            return "proxy.connect_tunnel.failed"
        if event.endswith(".receive_response_headers.failed"):
            self.failure = facts.get("exception")
            return "proxy.connect_tunnel.failed"
        if event.endswith((".connect_tcp.started", ".connect_unix_socket.started")):
            # The transport tries another connection.
            self._tunnelling = False
            return event
        return None

    async def _close_failed_tls(self, event: str, facts: dict[str, Any]) -> None:
        if event.endswith(_OPENED):
            self._stream = facts.get("return_value")
        elif event.endswith(".start_tls.failed") and self._stream is not None:
            stream, self._stream = self._stream, None
            await close(stream)


def address(host: str, port: int | None) -> str:
    """Format host and port, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def close(stream: Any) -> None:
    """Close a connection, also under cancellation, and ignore errors."""
    # Shielded, as the cancellation of the handshake would end the closing too.
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        with anyio.move_on_after(_CLOSING, shield=True):
            await stream.aclose()
