"""Tests of the spans of scans and handlers, with the SDK's in-memory exporter, against the sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from freight_exchange import Bot, Drop, FreightExchange
from freight_exchange.otel import OpenTelemetry
from freight_exchange.testing import FAULTS, Sandbox

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class Traced:
    """Sandbox, and the spans of its clients."""

    def __init__(self) -> None:
        self.sandbox = Sandbox()
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = OpenTelemetry(self.provider)

    def client(self, **options: object) -> FreightExchange:
        account = self.sandbox.forwarder
        return FreightExchange(
            self.sandbox.url,
            email=account.email,
            password=account.password,
            http_client=self.sandbox.http_client(),
            instrumentation=self.tracing,
            **options,  # type: ignore[arg-type]  # options of the client
        )

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """Spans that have ended."""
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> Sequence[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def traced() -> Traced:
    return Traced()


@pytest.mark.virtual_time
async def test_scan_starts_a_trace_that_holds_its_calls(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("test")
    with tracer.start_as_current_span("start") as start:
        async with traced.client() as exchange, exchange.watch(start="backfill") as feed:
            with anyio.move_on_after(60):
                await anext(aiter(feed))
    scan, *others = traced.named("scan requests")
    assert scan.parent is None
    assert scan.context.trace_id != start.get_span_context().trace_id
    assert [link.context for link in scan.links] == [start.get_span_context()]
    assert dict(scan.attributes or {}) == {
        "freight_exchange.feed.name": "requests",
        "freight_exchange.scan.tier": "five days",
        "freight_exchange.scan.window": 432000,
        "freight_exchange.scan.pages": 5,
        "freight_exchange.scan.rows": 0,
        "freight_exchange.scan.events": 0,
        "freight_exchange.scan.complete": True,
    }
    scans = {span.context.span_id for span in (scan, *others)}
    calls = traced.named("POST quote/getrequests")
    assert {call.parent.span_id for call in calls if call.parent} == scans


@pytest.mark.virtual_time
async def test_failed_scan_has_error_status(traced: Traced) -> None:
    async with traced.client() as exchange, exchange.watch() as feed:
        traced.sandbox.strike(*FAULTS["server_error"](path="quote/getrequests", times=40))
        with anyio.move_on_after(3600):
            await anext(aiter(feed))
    failed, *_ = (span for span in traced.named("scan requests") if span.status.status_code is StatusCode.ERROR)
    assert (failed.attributes or {})["error.type"] == "freight_exchange.ServerError"
    assert "degraded" in {event.name for event in failed.events}
    assert any(event.name == "recovered" for span in traced.named("scan requests") for event in span.events)


@pytest.mark.virtual_time
@pytest.mark.both_backends
async def test_offer_is_one_trace_from_scan_to_reply(traced: Traced) -> None:
    bot = Bot(traced.client(), store=None, start="backfill")
    index = traced.sandbox.publish()
    offered = anyio.Event()

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        if ctx.attempt == 1:
            raise LookupError("no rate for Long Beach")
        await ctx.offer(amount=1840, currency="USD")
        offered.set()

    async with bot:
        await offered.wait()
    failed, done = traced.named("process quote")
    (offer,) = traced.named("POST quote/submitoffer")
    assert done.parent is not None
    assert offer.parent is not None
    (scan,) = [span for span in traced.named("scan bot") if span.context.span_id == done.parent.span_id]
    assert {span.context.trace_id for span in (failed, done, offer)} == {scan.context.trace_id}
    assert offer.parent.span_id == done.context.span_id
    assert done.kind is SpanKind.CONSUMER
    assert dict(done.attributes or {}) == {
        "messaging.system": "freight_exchange",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "bot",
        "messaging.consumer.group.name": "quote",
        "messaging.message.id": "1",
        "freight_exchange.event.kind": "new",
        "freight_exchange.request.index": index,
        "freight_exchange.handler.attempt": 2,
        "freight_exchange.handler.ending": "done",
    }
    assert done.status.status_code is StatusCode.UNSET
    assert (failed.attributes or {})["freight_exchange.handler.ending"] == "failed"
    assert failed.status.status_code is StatusCode.ERROR
    (exception,) = failed.events
    assert (exception.attributes or {})["exception.message"] == "no rate for Long Beach"
    assert (offer.attributes or {})["freight_exchange.request.index"] == index
    assert (offer.attributes or {})["http.response.status_code"] == 200


@pytest.mark.virtual_time
async def test_answers_of_a_handler_are_no_errors(traced: Traced) -> None:
    bot = Bot(traced.client(), store=None, start="backfill")
    traced.sandbox.publish()
    called = anyio.Event()

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        called.set()
        raise Drop("no tariff")

    async with bot:
        await called.wait()
    (span,) = traced.named("process quote")
    assert (span.attributes or {})["freight_exchange.handler.ending"] == "dropped"
    assert span.status.status_code is StatusCode.UNSET
    assert span.events == ()
