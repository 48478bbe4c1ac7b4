"""OpenTelemetry: spans for calls, scans and handlers; needs the extra `otel`.

Attributes have the names of the semantic conventions if there are any, otherwise names under `freight_exchange`. None
contains a body, a header of a request, a query string, or a price.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import urlsplit

from freight_exchange import hooks
from freight_exchange.errors import FreightExchangeError
from freight_exchange.hooks import CallInfo, HandlerRun, ScanInfo
from freight_exchange.models import SubmitOffer

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TracerProvider
except ModuleNotFoundError as error:
    if error.name != "opentelemetry":
        raise
    raise ModuleNotFoundError(
        'freight_exchange.otel needs the extra "otel": pip install "freight-exchange[otel]"', name=error.name
    ) from None

__all__ = ["OpenTelemetry"]

Attributes = dict[str, str | bool | int | float]

_REMEMBERED_EVENTS: Final = 10_000
_FAILURES: Final = frozenset({"failed", "dead", "transient"})
"""Results of a handler that are errors; others, such as `RetryLater`, are decisions."""
_PORTS: Final = {"http": 80, "https": 443}

_handler_span: ContextVar[Span | None] = ContextVar("freight_exchange_handler_span", default=None)


class OpenTelemetry(hooks.Instrumentation):
    """Instrumentation that makes spans with the OpenTelemetry API.

        exchange = FreightExchange(instrumentation=OpenTelemetry())
        bot = Bot(exchange, store="bot.db")

    A call is a client span; its attempts and the waits between them are events of that span. A scan of a feed starts a
    trace of its own. A handler's span is a child of the scan that found the event in this process, and has a link to
    each offer that it sent. Without an OpenTelemetry SDK in the process, no span is recorded.

    Args:
        tracer_provider: The source of the tracer, default the global one.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("freight_exchange", tracer_provider=tracer_provider)
        self._calls: dict[str, Span] = {}
        self._last_scan: dict[str, SpanContext] = {}
        self._found_by: OrderedDict[tuple[str, int], SpanContext] = OrderedDict()

    def record(self, event: hooks.Event) -> None:
        """Add a record of the client's hooks to the span that it belongs to."""
        current = trace.get_current_span()
        match event:
            case hooks.Attempt() if span := self._calls.get(event.call_id):
                _add_attempt(span, event)
            case hooks.Retry():
                # The span of the call, as the current one may be that of a login.
                if span := self._calls.get(event.call_id):
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

    @contextmanager
    def call(self, call: CallInfo) -> Iterator[None]:
        """Surround a call with a client span."""
        with self._span(f"{call.method} {call.path}", _of_call(call), kind=SpanKind.CLIENT) as span:
            handler = _handler_span.get()
            if handler is not None and isinstance(call.write, SubmitOffer):
                handler.add_link(span.get_span_context(), {"freight_exchange.request.index": call.write.request})
            self._calls[call.call_id] = span
            try:
                yield
            finally:
                del self._calls[call.call_id]

    @contextmanager
    def scan(self, scan: ScanInfo) -> Iterator[None]:
        """Surround a scan with a span that starts a trace, and has a link to the current span."""
        current = trace.get_current_span().get_span_context()
        links = [Link(current)] if current.is_valid else []
        attributes: Attributes = {
            "freight_exchange.feed.name": scan.feed,
            "freight_exchange.scan.tier": scan.tier,
            "freight_exchange.scan.window": scan.window,
        }
        # A feed runs for months in the context of its start: without a new one, one trace would have all its scans.
        with self._span(f"scan {scan.feed}", attributes, context=Context(), links=links) as span:
            self._last_scan[scan.feed] = span.get_span_context()
            yield

    def found(self, feed: str, events: Sequence[int]) -> None:
        """Keep the last scan of the feed as the parent of the handlers of these events."""
        scan = self._last_scan.get(feed)
        if scan is None or not scan.is_valid:
            return
        self._found_by.update({(feed, event): scan for event in events})
        while len(self._found_by) > _REMEMBERED_EVENTS:
            self._found_by.popitem(last=False)

    @contextmanager
    def handler(self, run: HandlerRun) -> Iterator[None]:
        """Surround a handler with a consumer span."""
        scan = self._found_by.get((run.feed, run.event))
        context = Context() if scan is None else trace.set_span_in_context(NonRecordingSpan(scan), Context())
        with self._span(f"process {run.handler}", _of_handler(run), context=context, kind=SpanKind.CONSUMER) as span:
            token = _handler_span.set(span)
            try:
                yield
            finally:
                _handler_span.reset(token)
                if run.ending is not None:
                    span.set_attribute("freight_exchange.handler.ending", run.ending)
                if run.error is not None and run.ending in _FAILURES:
                    span.record_exception(run.error)
                    _set_error(span, run.error)

    @contextmanager
    def _span(self, name: str, attributes: Attributes, **options: Any) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False, **options
        ) as span:
            try:
                yield span
            except BaseException as error:
                _set_error(span, error)
                raise


def _add_attempt(span: Span, attempt: hooks.Attempt) -> None:
    attributes: Attributes = {
        "http.request.resend_count": max(attempt.number - 1, 0),
        "freight_exchange.attempt.duration": attempt.elapsed,
    }
    if attempt.status is not None:
        attributes["http.response.status_code"] = attempt.status
        span.set_attribute("http.response.status_code", attempt.status)
        if attempt.status >= 400:
            attributes["error.type"] = str(attempt.status)
    if attempt.request_id is not None:
        attributes["freight_exchange.request_id"] = attempt.request_id
    if attempt.abandoned:
        attributes["freight_exchange.attempt.abandoned"] = True
    span.add_event("attempt", attributes | _of_error(attempt.error))


def _of_call(call: CallInfo) -> Attributes:
    parts = urlsplit(call.base_url)
    attributes: Attributes = {
        "http.request.method": call.method,
        "url.full": f"{call.base_url}/{call.path}",
        "url.template": f"{parts.path}/{call.path}",
        "server.address": parts.hostname or "",
        "server.port": parts.port or _PORTS.get(parts.scheme, 0),
        "freight_exchange.call.id": call.call_id,
    }
    if isinstance(call.write, SubmitOffer):
        attributes["freight_exchange.request.index"] = call.write.request
    return attributes


def _of_handler(run: HandlerRun) -> Attributes:
    attributes: Attributes = {
        "messaging.system": "freight_exchange",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": run.feed,
        "messaging.consumer.group.name": run.handler,
        "messaging.message.id": str(run.event),
        "freight_exchange.event.kind": run.kind,
        "freight_exchange.handler.attempt": run.attempt,
    }
    if run.request is not None:
        attributes["freight_exchange.request.index"] = run.request
    return attributes


def _of_error(error: BaseException | None) -> Attributes:
    if error is None:
        return {}
    kind = type(error)
    # The public name of the package's own classes.
    module = "freight_exchange" if kind.__module__.startswith("freight_exchange.") else kind.__module__
    name = kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
    attributes: Attributes = {"error.type": name}
    if isinstance(error, FreightExchangeError) and error.may_have_taken_effect:
        attributes["freight_exchange.may_have_taken_effect"] = True
    return attributes


def _set_error(span: Span, error: BaseException | None) -> None:
    if error is None:
        return
    span.set_attributes(_of_error(error))
    # A cancelled caller has not failed.
    if isinstance(error, Exception):
        span.set_status(StatusCode.ERROR, str(error))
