"""Tests of the progress of a request."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.options import Timeouts
from freight_exchange.platform.clock import SendLimit
from freight_exchange.transport.message import AbandonedError, Request, RequestKind, Response, SendProgress
from freight_exchange.transport.secrets import Secret

TCP = ["connection.connect_tcp.started", "connection.connect_tcp.complete"]
TLS = ["connection.start_tls.started", "connection.start_tls.complete"]
TCP_FAILED = [TCP[0], "connection.connect_tcp.failed"]
TLS_FAILED = [*TCP, TLS[0], "connection.start_tls.failed"]
HEADERS = ["http11.send_request_headers.started", "http11.send_request_headers.complete"]
BODY = ["http11.send_request_body.started", "http11.send_request_body.complete"]
REPLY = ["http11.receive_response_headers.started", "http11.receive_response_headers.failed"]
RETRY = ["connection.retry.started", "connection.retry.complete"]
PASSED, AHEAD = (cast("SendLimit", SimpleNamespace(is_over=is_over)) for is_over in (True, False))

SENDING = {
    "headers begun": [*TCP, HEADERS[0]],
    "headers failed": [*TCP, HEADERS[0], "http11.send_request_headers.failed"],
    "body begun": [*TCP, *TLS, *HEADERS, BODY[0]],
    "no reply": [*TCP, *TLS, *HEADERS, *BODY, *REPLY],
    "on a kept connection": [*HEADERS, *BODY],
    "HTTP/2 on a kept connection": ["http2.send_request_headers.started"],
    "HTTP/2 preface": [*TCP, *TLS, "http2.send_connection_init.started"],
    "a name of tomorrow": ["http3.send_request_headers.started"],
    "CONNECT to a proxy": [*TCP, *HEADERS, *REPLY],
    "TLS fails behind a proxy": [*TCP, *HEADERS, *BODY, "proxy.start_tls.started", "proxy.start_tls.failed"],
    "a second connection fails after a first was used": [*TCP, *HEADERS, *TCP_FAILED],
}
UNCONNECTED = {
    "refused": TCP_FAILED,
    "TLS failed": TLS_FAILED,
    "TLS to a proxy failed": [*TCP, "proxy.start_tls.started", "proxy.start_tls.failed"],
    "socket file": ["connection.connect_unix_socket.started", "connection.connect_unix_socket.failed"],
    "failed again after a retry": [*TCP_FAILED, *RETRY, *TCP_FAILED],
    "waiting for its retry": [*TCP_FAILED, RETRY[0]],
    "SOCKS handshake": [*TCP, "socks.setup_socks5_connection.started", "socks.setup_socks5_connection.failed"],
}
CONNECTING = {
    "TCP": [TCP[0]],
    "TLS": [*TCP, TLS[0]],
    "TCP again after a retry": [*TCP_FAILED, *RETRY, TCP[0]],
}
SILENT = {
    "nothing": [],
    "unknown words": ["aiohttp.request.started", "pool.wait.started"],
    "connected": TCP,
    "connected, then words of its own": [*TCP, *TLS, "quic.open_stream.started"],
    "connected at the second try": [*TCP_FAILED, *RETRY, *TCP],
}


def after(events: list[str]) -> SendProgress:
    progress = SendProgress()
    progress.record_send()
    for event in events:
        progress.trace(event)
    return progress


@pytest.mark.parametrize("events", SENDING.values(), ids=SENDING)
def test_request_may_have_begun_once_sending_begins(events: list[str]) -> None:
    assert (after(events).may_have_begun, after(events).surely_unsent) == (True, False)


@pytest.mark.parametrize("events", UNCONNECTED.values(), ids=UNCONNECTED)
def test_a_connection_that_failed_is_proof(events: list[str]) -> None:
    # Proof once the transport has raised for it; until then it may turn to another way, and one that does not trace.
    assert (after(events).may_have_begun, after(events).surely_unsent) == (True, True)


@pytest.mark.parametrize("events", CONNECTING.values(), ids=CONNECTING)
def test_connecting_sends_nothing_and_proves_nothing(events: list[str]) -> None:
    assert (after(events).may_have_begun, after(events).surely_unsent) == (False, False)


@pytest.mark.parametrize("events", SILENT.values(), ids=SILENT)
def test_request_without_trace_events_may_have_begun(events: list[str]) -> None:
    assert (after(events).may_have_begun, after(events).surely_unsent) == (True, False)


def test_request_that_was_not_handed_over_has_not_begun() -> None:
    progress = SendProgress()
    assert not progress.may_have_begun
    assert not progress.surely_unsent


@pytest.mark.parametrize("events", [*SENDING.values(), *UNCONNECTED.values(), *SILENT.values()])
def test_a_new_attempt_begins_at_nothing(events: list[str]) -> None:
    progress = after(events)
    progress.reset()
    assert not progress.may_have_begun
    assert not progress.surely_unsent


class TestAbandoned:
    @pytest.mark.parametrize(
        "event",
        [HEADERS[0], "http2.send_request_headers.started", "http2.send_connection_init.started", BODY[0]],
    )
    def test_abandoned_request_is_stopped_before_the_first_byte(self, event: str) -> None:
        progress = after([*TCP, *TLS])
        progress.abandon()
        with pytest.raises(AbandonedError):
            progress.trace(event)
        assert not progress.surely_unsent
        with pytest.raises(AbandonedError):
            progress.trace(event)

    @pytest.mark.parametrize("event", [*TCP, *TLS, *RETRY, "connection.connect_tcp.failed", "pool.wait.started"])
    def test_abandoned_request_is_not_stopped_by_other_events(self, event: str) -> None:
        progress = SendProgress()
        progress.abandon()
        progress.trace(event)
        assert progress.abandoned

    def test_abandoned_request_that_has_begun_is_not_stopped(self) -> None:
        progress = after([*TCP, HEADERS[0]])
        progress.abandon()
        for event in (HEADERS[1], *BODY, *REPLY):
            progress.trace(event)
        assert progress.may_have_begun


class TestLimit:
    @pytest.mark.parametrize("event", [HEADERS[0], "http2.send_connection_init.started", BODY[0]])
    def test_no_part_of_a_request_leaves_after_its_limit(self, event: str) -> None:
        progress = SendProgress(PASSED)
        with pytest.raises(AbandonedError):
            progress.trace(event)
        assert not progress.began

    def test_request_is_not_handed_to_a_transport_after_its_limit(self) -> None:
        progress = SendProgress(PASSED)
        with pytest.raises(AbandonedError):
            progress.record_send()
        assert (progress.sends, progress.may_have_begun) == (0, False)

    def test_request_leaves_and_is_answered_within_its_limit(self) -> None:
        progress = SendProgress(AHEAD)
        progress.record_send()
        for event in (*TCP, *HEADERS, *BODY, *REPLY):
            progress.trace(event)
        assert progress.began

    def test_reply_may_come_after_the_limit(self) -> None:
        progress = SendProgress(PASSED)
        for event in (HEADERS[1], BODY[1], *REPLY):
            progress.trace(event)


EVENTS = sorted({event for events in [*SENDING.values(), *UNCONNECTED.values(), *SILENT.values()] for event in events})


@given(st.lists(st.sampled_from(EVENTS), max_size=12))
def test_proof_and_doubt_exclude_each_other_and_doubt_stays(events: list[str]) -> None:
    progress = SendProgress()
    progress.record_send()
    sending = False
    for event in events:
        progress.trace(event)
        sending = sending or ".send_" in event
        assert not (progress.began and progress.surely_unsent)
        assert progress.may_have_begun or not sending


@given(st.lists(st.sampled_from(EVENTS), max_size=12), st.integers(0, 12))
def test_abandoned_request_is_not_sent(events: list[str], left_after: int) -> None:
    progress = SendProgress()
    progress.record_send()
    for event in events[:left_after]:
        progress.trace(event)
    sending = any(".send_" in event for event in events[:left_after])
    progress.abandon()
    for event in events[left_after:]:
        first = ".send_" in event and not sending
        with pytest.raises(AbandonedError) if first else contextlib.nullcontext():
            progress.trace(event)


class TestRequest:
    def test_repr_of_a_request_shows_no_secret_and_no_body(self) -> None:
        request = Request(
            method="POST",
            path="login",
            kind=RequestKind.LOGIN,
            timeouts=Timeouts(),
            content=b'{"password": "canary"}',
            headers=(("X-Key", "canary"),),
            token=Secret("canary"),
        )
        assert "canary" not in repr(request)
        assert "canary" not in repr(Response(status=200, content=b"canary", headers=((b"x", b"canary"),)))

    def test_headers_are_added_to_a_copy(self) -> None:
        request = Request(method="GET", path="carrier", kind=RequestKind.READ, timeouts=Timeouts())
        more = request.with_header("a", "1").with_header("b", "2").with_token(Secret("t"))
        assert request.headers == ()
        assert request.token is None
        assert more.headers == (("a", "1"), ("b", "2"))
        assert more.token == Secret("t")
        assert more.progress is request.progress

    def test_header_names_ignore_case(self) -> None:
        response = Response(status=200, content=b"", headers=((b"ReTRY-After", b"7"), (b"retry-after", b"8")))
        assert response.header("Retry-After") == "7"
        assert response.header("x") is None
