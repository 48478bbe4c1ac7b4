"""OpenTelemetry: spans for calls, scans and handlers; needs the extra `otel`.

Attributes have the names of the semantic conventions if there are any, otherwise names under `freight_exchange`. None
contains a body, a header of a request, a query string, or a price.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from freight_exchange import hooks
from freight_exchange.errors import FreightExchangeError
from freight_exchange.hooks import CallInfo, HandlerRun, ScanInfo
from freight_exchange.instruments import Instrumentation

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TracerProvider
except ModuleNotFoundError as error:
    if error.name != "opentelemetry":
        raise
    raise ModuleNotFoundError(
        'freight_exchange.otel needs the extra "otel": pip install "./freight-exchange[otel]"', name=error.name
    ) from None

__all__ = ["OpenTelemetry"]

_REMEMBERED_EVENTS: Final = 10_000
_FAILURES: Final = frozenset({"failed", "dead", "transient"})
"""Results of a handler that are errors; others, such as `RetryLater`, are decisions."""


class OpenTelemetry(Instrumentation):
    """Instrumentation that makes spans with the OpenTelemetry API.

        exchange = FreightExchange(instrumentation=OpenTelemetry())
        bot = Bot(exchange, store="bot.db")

    A call is a client span; its attempts and the waits between them are events of that span. A scan of a feed starts a
    trace of its own. A handler's span is a child of the scan that found the event in this process, and the parent of
    its calls. Without an OpenTelemetry SDK in the process, no span is recorded.

    Args:
        tracer_provider: The source of the tracer, default the global one.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("freight_exchange", tracer_provider=tracer_provider)
        self._calls: dict[str, Span] = {}
        self._last_scan: dict[str, SpanContext] = {}
        self._found_by: dict[tuple[str, int], SpanContext] = {}

    def record(self, event: hooks.Event) -> None:
        """Add a record of the client's hooks to the span that it belongs to."""
        current = trace.get_current_span()
        match event:
            case hooks.Attempt() if span := self._calls.get(event.call_id):
                _add_attempt(span, event)
            case hooks.Retry() if span := self._calls.get(event.call_id):
                # The span of the call, as the current one may be that of a login.
                span.add_event("retry", _of_error(event.error) | {"freight_exchange.retry.delay": event.delay})
            case hooks.Scan():
                facts = {name: getattr(event, name) for name in ("pages", "rows", "events", "complete")}
                current.set_attributes({f"freight_exchange.scan.{name}": value for name, value in facts.items()})
                _set_error(current, event.error)
            case hooks.Login():
                current.add_event("login", _of_error(event.error) | {"freight_exchange.login.reason": event.reason})
            case hooks.Degraded():
                current.add_event("degraded", _of_error(event.error))
            case hooks.Recovered():
                current.add_event("recovered")

    def found(self, feed: str, events: Sequence[int]) -> None:
        """Keep the last scan of the feed as the parent of the handlers of these events."""
        if scan := self._last_scan.get(feed):
            self._found_by.update({(feed, event): scan for event in events})
        for oldest in [*self._found_by][:-_REMEMBERED_EVENTS]:
            del self._found_by[oldest]

    @contextmanager
    def span(self, work: hooks.Work) -> Iterator[None]:
        """Surround a call with a client span, a scan with one that starts a trace, a handler with a consumer span."""
        attributes: dict[str, Any]
        options: dict[str, Any] = {}
        match work:
            case CallInfo():
                name, options["kind"] = f"{work.method} {work.path}", SpanKind.CLIENT
                parts = urlsplit(work.base_url)
                attributes = {
                    "http.request.method": work.method,
                    "url.full": f"{work.base_url}/{work.path}",
                    "url.template": f"{parts.path}/{work.path}",
                    "server.address": parts.hostname or "",
                    "server.port": parts.port or (443 if parts.scheme == "https" else 80),
                    "freight_exchange.call.id": work.call_id,
                    "freight_exchange.request.index": getattr(work.write, "request", None),
                }
            case ScanInfo():
                name = f"scan {work.feed}"
                attributes = {
                    "freight_exchange.feed.name": work.feed,
                    "freight_exchange.scan.tier": work.tier,
                    "freight_exchange.scan.window": work.window,
                }
                # A feed runs for months in the context of its start: without a new one, one trace would have all scans.
                current = trace.get_current_span().get_span_context()
                options |= {"context": Context(), "links": [Link(current)] if current.is_valid else []}
            case _:
                name, options["kind"] = f"process {work.handler}", SpanKind.CONSUMER
                attributes = {
                    "messaging.system": "freight_exchange",
                    "messaging.operation.type": "process",
                    "messaging.operation.name": "process",
                    "messaging.destination.name": work.feed,
                    "messaging.consumer.group.name": work.handler,
                    "messaging.message.id": str(work.event),
                    "freight_exchange.event.kind": work.kind,
                    "freight_exchange.handler.attempt": work.attempt,
                    "freight_exchange.request.index": work.request,
                }
                scan = self._found_by.get((work.feed, work.event))
                parent = None if scan is None else NonRecordingSpan(scan)
                options["context"] = Context() if parent is None else trace.set_span_in_context(parent, Context())
        with self._tracer.start_as_current_span(
            name, attributes=_known(attributes), record_exception=False, set_status_on_exception=False, **options
        ) as span:
            if isinstance(work, CallInfo):
                self._calls[work.call_id] = span
            elif isinstance(work, ScanInfo) and span.get_span_context().is_valid:
                self._last_scan[work.feed] = span.get_span_context()
            try:
                yield
            except BaseException as error:
                _set_error(span, error)
                raise
            finally:
                if isinstance(work, CallInfo):
                    del self._calls[work.call_id]
                elif isinstance(work, HandlerRun) and work.ending is not None:
                    span.set_attribute("freight_exchange.handler.ending", work.ending)
                    if work.error is not None and work.ending in _FAILURES:
                        span.record_exception(work.error)
                        _set_error(span, work.error)


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _add_attempt(span: Span, attempt: hooks.Attempt) -> None:
    status = {} if attempt.status is None else {"http.response.status_code": attempt.status}
    span.set_attributes(status)
    attributes = {
        "http.request.resend_count": max(attempt.number - 1, 0),
        "error.type": str(attempt.status) if attempt.status is not None and attempt.status >= 400 else None,
        "freight_exchange.attempt.duration": attempt.elapsed,
        "freight_exchange.request_id": attempt.request_id,
        "freight_exchange.attempt.abandoned": attempt.abandoned or None,
    }
    span.add_event("attempt", status | _known(attributes) | _of_error(attempt.error))


def _of_error(error: BaseException | None) -> dict[str, Any]:
    if error is None:
        return {}
    kind = type(error)
    # The public name of the package's own classes.
    module = "freight_exchange" if kind.__module__.startswith("freight_exchange.") else kind.__module__
    name = kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
    is_doubt = isinstance(error, FreightExchangeError) and error.may_have_taken_effect
    return _known({"error.type": name, "freight_exchange.may_have_taken_effect": is_doubt or None})


def _set_error(span: Span, error: BaseException | None) -> None:
    span.set_attributes(_of_error(error))
    # A cancelled caller has not failed.
    if isinstance(error, Exception):
        span.set_status(StatusCode.ERROR, str(error))
