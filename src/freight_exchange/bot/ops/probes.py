"""The operator's port: `/livez`, `/readyz` and `/metrics` over plain HTTP."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from anyio.abc import SocketAttribute

from freight_exchange.bot.ops.exposition import INSTALL_HINT
from freight_exchange.errors import ConfigurationError

if TYPE_CHECKING:
    from anyio.abc import ByteStream, SocketListener, SocketStream, TaskGroup
    from anyio.streams.stapled import MultiListener

    from freight_exchange.bot.ops.exposition import Expose
    from freight_exchange.bot.ops.status import BotStatus

__all__ = ["answer", "open_listener", "serve"]

_logger = logging.getLogger("freight_exchange.bot")

_REQUEST_TIMEOUT: Final = 5.0
_MAX_HEAD_BYTES: Final = 8192
_MAX_CONNECTIONS: Final = 128
_RETRY_INTERVAL: Final = 0.5
_TEXT: Final = "text/plain; charset=utf-8"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}


async def open_listener(
    host: str, port: int, *, timeout: float = 0.0, counts: Callable[[], bool] | None = None
) -> tuple[MultiListener[SocketStream], tuple[str, int]]:
    """Open a listener, and return it with its address.

    Args:
        host, port: The address.
        timeout: Seconds to wait for a port that is taken.
        counts: Returns whether the timeout has begun; default from the start.

    Raises:
        ConfigurationError: The address cannot be used.
    """
    remaining, has_warned = timeout, False
    while True:
        try:
            listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
        except (OSError, ValueError) as error:
            # An invalid host name raises `ValueError`.
            failure = f"cannot listen on the operator's port {port} of {host!r}: {error}"
            if remaining <= 0 or getattr(error, "errno", None) != errno.EADDRINUSE:
                raise ConfigurationError(failure) from error
        else:
            address = listener.extra(SocketAttribute.local_address)
            return listener, (host, int(address[1]))
        if not has_warned:
            _logger.warning("%s; waiting for the port", failure)
            has_warned = True
        await anyio.sleep(_RETRY_INTERVAL)
        if counts is None or counts():
            remaining -= _RETRY_INTERVAL


async def serve(listener: MultiListener[SocketStream], status: Callable[[], BotStatus], expose: Expose | None) -> None:
    """Answer requests until cancelled.

    A client that is slow or sends no HTTP is disconnected. If there are too many connections, the oldest is closed, so
    that a probe is always answered at once.

    Args:
        listener: The listener.
        status: Returns the status of the bot.
        expose: Returns the metrics; `None` without the extra `metrics`.
    """
    connections: dict[int, anyio.CancelScope] = {}

    async def handle(stream: ByteStream) -> None:
        async with stream:
            with anyio.move_on_after(_REQUEST_TIMEOUT) as scope:
                if len(connections) >= _MAX_CONNECTIONS:
                    connections.pop(next(iter(connections))).cancel()
                connections[id(scope)] = scope
                try:
                    await stream.send(_safe_answer(await _read_head(stream), status, expose))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream) as error:
                    _logger.debug("the operator's port: %r", error)
                finally:
                    connections.pop(id(scope), None)

    async with listener, anyio.create_task_group() as tasks:
        for one in listener.listeners:
            tasks.start_soon(_accept, cast("SocketListener", one), handle, tasks)


async def _accept(
    listener: SocketListener, handle: Callable[[ByteStream], Coroutine[Any, Any, None]], tasks: TaskGroup
) -> None:
    """Accept connections until cancelled, also after times without free file descriptors."""
    has_warned = False
    while True:
        try:
            stream = await listener.accept()
        except (OSError, anyio.BrokenResourceError) as error:
            if not has_warned:
                _logger.warning("the operator's port cannot accept connections: %s; retrying", error)
            has_warned = True
            await anyio.sleep(_RETRY_INTERVAL)
        else:
            has_warned = False
            tasks.start_soon(handle, stream)


def _safe_answer(head: bytes, status: Callable[[], BotStatus], expose: Expose | None) -> bytes:
    try:
        return answer(head, status, expose)
    except Exception:
        # A probe must not end the bot.
        _logger.exception("the status of the bot cannot be read; the probe gets a 500")
        return _reply(500, "the status of the bot cannot be read\n")


async def _read_head(stream: ByteStream) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head and len(head) < _MAX_HEAD_BYTES:
        head += await stream.receive(_MAX_HEAD_BYTES - len(head))
    return head


def answer(head: bytes, status: Callable[[], BotStatus], expose: Expose | None) -> bytes:
    """Return the reply to a request with this head."""
    line = head.split(b"\n", 1)[0].decode("latin-1").split()
    if len(line) != 3 or not line[2].startswith("HTTP/"):
        return _reply(400, "this is no HTTP request\n")
    method, path = line[0], line[1].partition("?")[0]
    if path not in ("/livez", "/readyz", "/metrics"):
        return _reply(404, "there are /livez, /readyz and /metrics\n", bare=method == "HEAD")
    if method not in ("GET", "HEAD"):
        return _reply(405, "only GET and HEAD are answered\n", more="Allow: GET, HEAD\r\n")
    if path == "/metrics":
        if expose is None:
            return _reply(501, f"{INSTALL_HINT}\n", bare=method == "HEAD")
        kind, metrics = expose(_header(head, "accept"))
        return _reply(200, metrics, kind=kind, bare=method == "HEAD")
    now = status()
    good = now.live if path == "/livez" else now.live and now.state == "running"
    scan = f"watermark {now.age.total_seconds():.1f} s old" if now.scans else "another replica scans"
    return _reply(200 if good else 503, f"{now.state}, {scan}\n", bare=method == "HEAD")


def _header(head: bytes, name: str) -> str:
    """Return the value of a request's header, or an empty text."""
    for line in head.decode("latin-1").splitlines()[1:]:
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _reply(code: int, text: str | bytes, *, kind: str = _TEXT, bare: bool = False, more: str = "") -> bytes:
    body = text.encode() if isinstance(text, str) else text
    head = (
        f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"Cache-Control: no-store\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if bare else body)
