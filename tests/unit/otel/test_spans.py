"""Tests of spans, with the SDK's in-memory exporter, against the sandbox."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from freight_exchange import Bot, ConfigurationError, Drop, FreightExchange, RetryPolicy, ServerError
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


@pytest.mark.both_backends
async def test_call_is_a_client_span_with_semantic_attributes(traced: Traced) -> None:
    async with traced.client() as exchange:
        await exchange.carriers.list()
    (span,) = traced.named("GET carrier")
    assert span.kind is SpanKind.CLIENT
    assert span.status.status_code is StatusCode.UNSET
    attributes = dict(span.attributes or {})
    assert len(str(attributes.pop("freight_exchange.call.id"))) == 16
    assert attributes == {
        "http.request.method": "GET",
        "url.full": "http://127.0.0.1/api/carrier",
        "url.template": "/api/carrier",
        "server.address": "127.0.0.1",
        "server.port": 80,
        "http.response.status_code": 200,
    }
    (login,) = traced.named("POST login")
    assert login.parent is not None
    assert login.parent.span_id == span.context.span_id
    assert [event.name for event in login.events] == ["attempt"]
    assert [event.name for event in span.events] == ["login", "attempt"]


@pytest.mark.virtual_time
async def test_attempts_and_waits_are_events_of_the_call(traced: Traced) -> None:
    traced.sandbox.strike(*FAULTS["server_error"](path="carrier"))
    async with traced.client() as exchange:
        await exchange.carriers.list()
    (span,) = traced.named("GET carrier")
    assert [event.name for event in span.events] == ["login", "attempt", "retry", "attempt"]
    first, retry, second = (dict(event.attributes or {}) for event in span.events[1:])
    assert (first["http.response.status_code"], first["http.request.resend_count"]) == (500, 0)
    assert (first["error.type"], retry["error.type"]) == ("500", "freight_exchange.ServerError")
    assert float(str(retry["freight_exchange.retry.delay"])) > 0
    assert (second["http.response.status_code"], second["http.request.resend_count"]) == (200, 1)
    assert span.status.status_code is StatusCode.UNSET


async def test_failed_call_has_error_status_and_type(traced: Traced) -> None:
    traced.sandbox.strike(*FAULTS["server_error"](path="carrier"))
    async with traced.client(retries=RetryPolicy(attempts=1)) as exchange:
        with pytest.raises(ServerError):
            await exchange.carriers.list()
    (span,) = traced.named("GET carrier")
    assert span.status.status_code is StatusCode.ERROR
    assert "status 500" in str(span.status.description)
    assert (span.attributes or {})["error.type"] == "freight_exchange.ServerError"
    assert (span.attributes or {})["http.response.status_code"] == 500


async def test_cancelled_call_is_no_error(traced: Traced) -> None:
    traced.sandbox.strike(*FAULTS["stall"](path="carrier"))
    async with traced.client() as exchange:
        await exchange.login()
        with anyio.move_on_after(0.01):
            await exchange.carriers.list()
    (span,) = traced.named("GET carrier")
    assert span.status.status_code is StatusCode.UNSET
    assert "Cancelled" in str((span.attributes or {})["error.type"])


@pytest.mark.both_backends
async def test_call_is_a_child_of_the_current_span(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("test")
    async with traced.client() as exchange:
        with tracer.start_as_current_span("request") as parent:
            await exchange.carriers.list()
        with traced.tracing._tracer.start_as_current_span("view"):
            await exchange.with_options(deadline=5).currencies.list()
    (span,) = traced.named("GET carrier")
    assert span.parent == parent.get_span_context()
    assert traced.named("GET currency")


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
        "freight_exchange.scan.pages": 1,
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


async def test_no_attribute_holds_a_secret(traced: Traced) -> None:
    traced.sandbox.strike(*FAULTS["server_error"](path="carrier"))
    async with traced.client() as exchange:
        await exchange.carriers.list()
        with pytest.raises(Exception, match="index 99"):
            await exchange.requests.get(99)
        request = await exchange.requests.get(traced.sandbox.publish())
        await exchange.bids.submit(request, amount=1840, currency="USD", terms="confidential")
    text = "".join(span.to_json() for span in traced.spans)
    (token,) = traced.sandbox.exchange.tokens
    for secret in (traced.sandbox.forwarder.password, token, "1840", "confidential", "Bearer"):
        assert secret not in text


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
    assert [link.context.span_id for link in done.links] == [offer.context.span_id]
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


def test_instrumentation_must_be_one() -> None:
    with pytest.raises(ConfigurationError, match="instrumentation must be Instrumentation"):
        FreightExchange("http://x/api", email="a", password="b", instrumentation=OpenTelemetry)  # type: ignore[arg-type]


async def test_call_without_instrumentation_does_nothing_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def describe(**facts: object) -> None:
        raise AssertionError("no instrumentation asks for it")

    monkeypatch.setattr("freight_exchange.transport.call.CallInfo", describe)
    async with Sandbox().client() as exchange:
        await exchange.carriers.list()


def test_without_instrumentation_no_opentelemetry_is_imported() -> None:
    code = """
import sys, anyio
from freight_exchange.testing import Sandbox
async def main():
    async with Sandbox().client() as exchange:
        await exchange.carriers.list()
anyio.run(main)
print(*(name for name in sys.modules if name.startswith(("opentelemetry", "freight_exchange.otel", "prometheus"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


@pytest.mark.parametrize("make", [OpenTelemetry])
async def test_without_an_sdk_calls_go_on(make: Callable[[], OpenTelemetry]) -> None:
    traced = Traced()
    traced.tracing = make()
    async with traced.client() as exchange:
        await exchange.carriers.list()
    assert traced.spans == ()
