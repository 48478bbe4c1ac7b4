"""Spans of OpenTelemetry around calls, scans and handlers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TracerProvider

from freight_exchange.hooks import Attempt, Degraded, Event, Login, Recovered, Retry, Scan
from freight_exchange.instrumentation import CallInfo, HandlerRun, Instrumentation, ScanInfo
from freight_exchange.models import SubmitOffer
from freight_exchange.otel import attributes

__all__ = ["OpenTelemetry"]

_NAME: Final = "freight_exchange"
_REMEMBERED_EVENTS: Final = 10_000
_FAILURES: Final = frozenset({"failed", "dead", "transient"})
"""Results of a handler that are errors; others, such as `RetryLater`, are decisions."""

_handler_span: ContextVar[Span | None] = ContextVar("freight_exchange_handler_span", default=None)


class OpenTelemetry(Instrumentation):
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
        self._tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        self._calls: dict[str, Span] = {}
        self._last_scan: dict[str, SpanContext] = {}
        self._found_by: OrderedDict[tuple[str, int], SpanContext] = OrderedDict()

    def record(self, event: Event) -> None:
        """Add a record of the client's hooks to the span that it belongs to."""
        match event:
            case Attempt() | Retry():
                self._record_attempt(event)
            case Scan():
                span = trace.get_current_span()
                span.set_attributes(attributes.of_scan_result(event))
                _set_error(span, event.error)
            case Login():
                trace.get_current_span().add_event("login", attributes.of_login(event))
            case Degraded():
                trace.get_current_span().add_event("degraded", attributes.of_error(event.error))
            case Recovered():
                trace.get_current_span().add_event("recovered")
            case _:
                pass

    def _record_attempt(self, event: Attempt | Retry) -> None:
        # Found by its id, since an attempt runs in a task of the client and its current span is another one.
        span = self._calls.get(event.call_id)
        if span is None:
            return
        if isinstance(event, Retry):
            span.add_event("retry", attributes.of_retry(event))
            return
        span.add_event("attempt", attributes.of_attempt(event))
        if event.status is not None:
            span.set_attribute("http.response.status_code", event.status)

    @contextmanager
    def call(self, call: CallInfo) -> Iterator[None]:
        """Surround a call with a client span."""
        with self._tracer.start_as_current_span(
            f"{call.method} {call.path}",
            kind=SpanKind.CLIENT,
            attributes=attributes.of_call(call),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            self._link_offer(call, span)
            self._calls[call.call_id] = span
            try:
                yield
            except BaseException as error:
                _set_error(span, error)
                raise
            finally:
                del self._calls[call.call_id]

    def _link_offer(self, call: CallInfo, span: Span) -> None:
        handler = _handler_span.get()
        if handler is not None and isinstance(call.write, SubmitOffer):
            handler.add_link(span.get_span_context(), {"freight_exchange.request.index": call.write.request})

    @contextmanager
    def scan(self, scan: ScanInfo) -> Iterator[None]:
        """Surround a scan with a span that starts a trace, and has a link to the current span."""
        current = trace.get_current_span().get_span_context()
        with self._tracer.start_as_current_span(
            f"scan {scan.feed}",
            # A feed runs for months in the context of its start: without this, one trace would have all its scans.
            context=Context(),
            links=[Link(current)] if current.is_valid else [],
            attributes=attributes.of_scan(scan),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            self._last_scan[scan.feed] = span.get_span_context()
            try:
                yield
            except BaseException as error:
                _set_error(span, error)
                raise

    def found(self, feed: str, events: Sequence[int]) -> None:
        """Keep the last scan of the feed as the parent of the handlers of these events."""
        scan = self._last_scan.get(feed)
        if scan is None or not scan.is_valid:
            return
        for event in events:
            self._found_by[feed, event] = scan
        while len(self._found_by) > _REMEMBERED_EVENTS:
            self._found_by.popitem(last=False)

    @contextmanager
    def handler(self, run: HandlerRun) -> Iterator[None]:
        """Surround a handler with a consumer span."""
        scan = self._found_by.get((run.feed, run.event))
        with self._tracer.start_as_current_span(
            f"process {run.handler}",
            context=Context() if scan is None else trace.set_span_in_context(NonRecordingSpan(scan), Context()),
            kind=SpanKind.CONSUMER,
            attributes=attributes.of_handler(run),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            token = _handler_span.set(span)
            try:
                yield
            except BaseException as error:
                _set_error(span, error)
                raise
            finally:
                _handler_span.reset(token)
                _set_outcome(span, run)


def _set_error(span: Span, error: BaseException | None) -> None:
    if error is None:
        return
    span.set_attributes(attributes.of_error(error))
    # A cancelled caller has not failed.
    if isinstance(error, Exception):
        span.set_status(StatusCode.ERROR, str(error))


def _set_outcome(span: Span, run: HandlerRun) -> None:
    if run.ending is not None:
        span.set_attribute("freight_exchange.handler.ending", run.ending)
    if run.error is not None and run.ending in _FAILURES:
        span.record_exception(run.error)
        _set_error(span, run.error)
