"""Tests of the spans of calls, scans and handlers, with the in-memory exporter of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.calls.support import ONCE, PASSWORD, TOKEN, URL, client, reply, scripted, stocked, stranger

from freight_exchange import (
    Bot,
    ConfigurationError,
    Drop,
    FreightExchange,
    FreightExchangeError,
    OutcomeUnknownError,
    ServerError,
)
from freight_exchange.otel import OpenTelemetry
from freight_exchange.testing import FAULTS, Sandbox

CARRIERS = reply(200, {"carriers": [{"index": 1, "name": "C"}]})


class Traced:
    """Provider whose spans are kept."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.instrumentation = OpenTelemetry(self.provider)
        self.sandbox = Sandbox()

    def client(self) -> FreightExchange:
        """Make a client of the sandbox."""
        return client(self.sandbox, instrumentation=self.instrumentation)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """Spans that have ended."""
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> Sequence[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def the(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span


@pytest.fixture
def traced() -> Traced:
    return Traced()


def facts(span: Any) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.both_backends
async def test_call_is_a_client_span_with_semantic_attributes(traced: Traced) -> None:
    with scripted(CARRIERS):
        async with stranger(instrumentation=traced.instrumentation) as exchange:
            await exchange.carriers.list()
    span, login = traced.the("GET carrier"), traced.the("POST login")
    assert span.kind is SpanKind.CLIENT
    assert span.status.status_code is StatusCode.UNSET
    expected = {
        "http.request.method": "GET",
        "url.full": f"{URL}/carrier",
        "url.template": "/api/carrier",
        "server.address": "exchange.example",
        "server.port": 443,
        "http.response.status_code": 200,
    }
    assert expected.items() <= facts(span).items()
    assert login.parent is not None
    assert login.parent.span_id == span.context.span_id
    assert [event.name for event in login.events] == ["attempt"]
    assert [event.name for event in span.events] == ["login", "attempt"]


@pytest.mark.virtual_time
async def test_attempts_and_waits_are_events_of_the_call(traced: Traced) -> None:
    with scripted(reply(500), CARRIERS):
        async with stranger(instrumentation=traced.instrumentation) as exchange:
            await exchange.carriers.list()
    span = traced.the("GET carrier")
    assert [event.name for event in span.events] == ["login", "attempt", "retry", "attempt"]
    first, retry, second = (facts(event) for event in span.events[1:])
    assert (first["http.response.status_code"], first["http.request.resend_count"]) == (500, 0)
    assert (first["error.type"], retry["error.type"]) == ("500", "freight_exchange.ServerError")
    assert retry["freight_exchange.retry.delay"] > 0
    assert (second["http.response.status_code"], second["http.request.resend_count"]) == (200, 1)
    assert span.status.status_code is StatusCode.UNSET


async def test_failed_call_has_an_error_status_and_type(traced: Traced) -> None:
    with scripted(reply(500)):
        async with stranger(instrumentation=traced.instrumentation, retries=ONCE) as exchange:
            with pytest.raises(ServerError):
                await exchange.carriers.list()
            with pytest.raises(OutcomeUnknownError):
                await exchange.bids.submit(2, amount=1, currency=840)
    for name, kind in (("GET carrier", "ServerError"), ("POST quote/submitoffer", "OutcomeUnknownError")):
        span = traced.the(name)
        assert span.status.status_code is StatusCode.ERROR
        assert facts(span)["error.type"] == f"freight_exchange.{kind}"
        assert facts(span)["http.response.status_code"] == 500


@pytest.mark.virtual_time
async def test_cancelled_call_is_no_error(traced: Traced) -> None:
    sandbox = stocked()
    sandbox.strike(*FAULTS["stall"](path="carrier"))
    async with client(sandbox, instrumentation=traced.instrumentation) as exchange:
        await exchange.login()
        with anyio.move_on_after(1):
            await exchange.carriers.list()
    assert traced.the("GET carrier").status.status_code is StatusCode.UNSET


@pytest.mark.both_backends
async def test_call_is_a_child_of_the_current_span(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("test")
    with scripted(CARRIERS):
        async with stranger(instrumentation=traced.instrumentation) as exchange:
            with tracer.start_as_current_span("request") as parent:
                await exchange.with_options(deadline=5).carriers.list()
    assert traced.the("GET carrier").parent == parent.get_span_context()


async def test_no_attribute_holds_a_secret(traced: Traced) -> None:
    with scripted(reply(400, {"message": f"no {TOKEN} {PASSWORD}"})):
        async with stranger(instrumentation=traced.instrumentation) as exchange:
            for call in (
                exchange.requests.get(2),
                exchange.bids.submit(2, amount=1840, currency=840, terms="in confidence"),
            ):
                with pytest.raises(FreightExchangeError):
                    await call
    text = "".join(span.to_json() for span in traced.spans)
    for secret in (TOKEN, PASSWORD, "1840", "in confidence", "Bearer"):
        assert secret not in text


def test_instrumentation_must_be_one() -> None:
    with pytest.raises(ConfigurationError, match="instrumentation"):
        FreightExchange(URL, email="a", password="b", instrumentation=OpenTelemetry)  # type: ignore[arg-type]  # what must fail


# Scans and handlers


@pytest.mark.virtual_time
async def test_scan_starts_a_trace_that_holds_its_calls(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("test")
    with tracer.start_as_current_span("start") as start:
        async with (
            traced.client() as exchange,
            exchange.watch(start="backfill") as feed,
        ):
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
