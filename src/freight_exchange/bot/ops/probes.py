"""The operator's port: `/livez`, `/readyz` and `/metrics` over plain HTTP."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from anyio.abc import SocketAttribute

from freight_exchange.bot.metrics import ENDINGS, OUTCOMES
from freight_exchange.errors import ConfigurationError

if TYPE_CHECKING:
    from anyio.abc import ByteStream, SocketListener, SocketStream, TaskGroup
    from anyio.streams.stapled import MultiListener

    from freight_exchange.bot.metrics import Metrics
    from freight_exchange.bot.ops.status import BotStatus

__all__ = ["answer", "exposition", "open_listener", "serve"]

_logger = logging.getLogger("freight_exchange.bot")

_REQUEST_TIMEOUT: Final = 5.0
_MAX_HEAD_BYTES: Final = 8192
_MAX_CONNECTIONS: Final = 128
_RETRY_INTERVAL: Final = 0.5
_TEXT: Final = "text/plain; charset=utf-8"
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


async def open_listener(
    host: str, port: int, *, timeout: float = 0.0, counts: Callable[[], bool] | None = None
) -> tuple[MultiListener[SocketStream], tuple[str, int]]:
    """Open a listener, and return it with its address.

    Args:
        host, port: The address.
        timeout: Seconds to wait for a port that is taken.
        counts: Tells whether these seconds count yet; default from the beginning.

    Raises:
        ConfigurationError: The address cannot be used.
    """
    remaining, has_warned = timeout, False
    while True:
        try:
            listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
        except (OSError, ValueError) as error:
            # An invalid host name raises `ValueError`.
            failure = f"the operator's port {port} of {host!r} cannot be listened on: {error}"
            if remaining <= 0 or getattr(error, "errno", None) != errno.EADDRINUSE:
                raise ConfigurationError(failure) from error
        else:
            address = listener.extra(SocketAttribute.local_address)
            return listener, (host, int(address[1]))
        if not has_warned:
            _logger.warning("%s; it is waited for", failure)
            has_warned = True
        await anyio.sleep(_RETRY_INTERVAL)
        if counts is None or counts():
            remaining -= _RETRY_INTERVAL


async def serve(
    listener: MultiListener[SocketStream],
    status: Callable[[], BotStatus],
    metrics: Metrics,
    *,
    handlers: Collection[str] = (),
) -> None:
    """Answer requests until cancelled.

    A client that is slow or sends no HTTP is disconnected. If there are too many connections, the oldest is closed, so
    that a probe is always answered at once.

    Args:
        listener: The listener.
        status: Returns the status of the bot.
        metrics: Metrics of the bot.
        handlers: Ids of its handlers.
    """
    connections: dict[int, anyio.CancelScope] = {}

    async def handle(stream: ByteStream) -> None:
        async with stream:
            with anyio.move_on_after(_REQUEST_TIMEOUT) as scope:
                if len(connections) >= _MAX_CONNECTIONS:
                    connections.pop(next(iter(connections))).cancel()
                connections[id(scope)] = scope
                try:
                    await stream.send(_safe_answer(await _read_head(stream), status, metrics, handlers))
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
                _logger.warning("the operator's port takes no connections for now: %s", error)
            has_warned = True
            await anyio.sleep(_RETRY_INTERVAL)
        else:
            has_warned = False
            tasks.start_soon(handle, stream)


def _safe_answer(head: bytes, status: Callable[[], BotStatus], metrics: Metrics, handlers: Collection[str]) -> bytes:
    try:
        return answer(head, status(), metrics, handlers=handlers)
    except Exception:
        # A probe must not end the bot.
        _logger.exception("the bot cannot say how it is")
        return _reply(500, "the bot cannot say how it is\n")


async def _read_head(stream: ByteStream) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head and len(head) < _MAX_HEAD_BYTES:
        head += await stream.receive(_MAX_HEAD_BYTES - len(head))
    return head


def answer(head: bytes, status: BotStatus, metrics: Metrics, *, handlers: Collection[str] = ()) -> bytes:
    """Return the reply to a request with this head. Pure."""
    line = head.split(b"\n", 1)[0].decode("latin-1").split()
    if len(line) != 3 or not line[2].startswith("HTTP/"):
        return _reply(400, "this is no HTTP request\n")
    method, path = line[0], line[1].partition("?")[0]
    if path not in ("/livez", "/readyz", "/metrics"):
        return _reply(404, "there are /livez, /readyz and /metrics\n", bare=method == "HEAD")
    if method not in ("GET", "HEAD"):
        return _reply(405, "only GET and HEAD are answered\n", more="Allow: GET, HEAD\r\n")
    if path == "/metrics":
        return _reply(200, exposition(status, metrics, handlers=handlers), kind=_PROMETHEUS, bare=method == "HEAD")
    good = status.live if path == "/livez" else status.live and status.state == "running"
    text = f"{status.state}, cover {status.age.total_seconds():.1f} s old\n"
    return _reply(200 if good else 503, text, bare=method == "HEAD")


def _reply(code: int, text: str, *, kind: str = _TEXT, bare: bool = False, more: str = "") -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"Cache-Control: no-store\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if bare else body)


def exposition(status: BotStatus, metrics: Metrics, *, handlers: Collection[str] = ()) -> str:
    """Return the metrics in Prometheus' text format.

    Each series exists from the start, as 0: one that first appears as 1 has not grown, and would raise no alert.
    """
    feed = status.feed
    # After a restart the watermark may be older than the bot; `live` follows the bot.
    age = status.age if feed is None or feed.cover_age is None else feed.cover_age
    deliveries = {(handler, how): 0 for handler in handlers for how in ENDINGS} | metrics.deliveries
    offers = dict.fromkeys(OUTCOMES, 0) | metrics.offers
    lines: list[str] = []

    def metric(name: str, kind: str, help: str, samples: Iterable[tuple[dict[str, str], float]]) -> None:
        lines.append(f"# HELP freight_exchange_bot_{name} {help}")
        lines.append(f"# TYPE freight_exchange_bot_{name} {kind}")
        lines.extend(f"freight_exchange_bot_{name}{_labels(labels)} {_number(value)}" for labels, value in samples)

    metric("up", "gauge", "1 while the bot hands over deliveries.", [({}, status.state == "running")])
    metric("live", "gauge", "1 while the cover is young.", [({}, status.live)])
    metric("cover_age_seconds", "gauge", "Age of the cover.", [({}, age.total_seconds())])
    metric("in_flight", "gauge", "Deliveries at their handlers.", [({}, status.in_flight)])
    metric("waiting", "gauge", "Deliveries that are due and at no handler yet.", [({}, status.waiting)])
    waited = status.waited.total_seconds()
    metric("waited_seconds", "gauge", "How long the oldest of them has been due.", [({}, waited)])
    metric("offers_in_doubt", "gauge", "Offers that are being looked for.", [({}, status.in_doubt)])
    metric("offers_parked", "gauge", "Offers for which a person has to decide.", [({}, status.parked)])
    if feed is not None:
        metric("unacknowledged", "gauge", "Events that wait to become deliveries.", [({}, feed.unacknowledged)])
        metric("gaps", "gauge", "Gaps that were not acknowledged.", [({}, len(feed.gaps))])
        metric("found_late_total", "counter", "Requests that deep scans found late.", [({}, feed.late)])
    metric(
        "events_total",
        "counter",
        "Events by kind.",
        [({"kind": kind}, n) for kind, n in sorted(metrics.events.items())],
    )
    metric(
        "deliveries_total",
        "counter",
        "Deliveries by handler and how they or their attempts ended.",
        [({"handler": handler, "ending": how}, n) for (handler, how), n in sorted(deliveries.items())],
    )
    metric(
        "offers_total",
        "counter",
        "Offers by what became of them.",
        [({"outcome": outcome}, n) for outcome, n in sorted(offers.items())],
    )
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) else repr(value)


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
