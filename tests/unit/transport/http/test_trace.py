"""Tests of the trace of an attempt, with and without a proxy's tunnel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from freight_exchange.transport.http.trace import Trace
from freight_exchange.transport.message import SendProgress

CONNECT = {"request": SimpleNamespace(method=b"CONNECT")}
POST = {"request": SimpleNamespace(method=b"POST")}
Events = list[tuple[str, dict[str, Any]]]

TCP: Events = [
    ("connection.connect_tcp.started", {"host": "proxy.example", "port": 3128}),
    ("connection.connect_tcp.complete", {"return_value": None}),
]
ASKED: Events = [
    ("http11.send_request_headers.started", CONNECT),
    ("http11.send_request_headers.complete", {}),
    ("http11.send_request_body.started", CONNECT),
    ("http11.send_request_body.complete", {}),
    ("http11.receive_response_headers.started", CONNECT),
]


def answered(status: int) -> Events:
    return [
        ("http11.receive_response_headers.complete", {"return_value": (b"HTTP/1.1", status, b"", [])}),
        ("http11.response_closed.started", CONNECT),
        ("http11.response_closed.complete", {}),
    ]


TLS: Events = [("proxy.start_tls.started", {}), ("proxy.start_tls.complete", {})]
SENT: Events = [("http11.send_request_headers.started", POST)]


async def traced(*parts: Events, method: str = "POST") -> tuple[SendProgress, Trace]:
    progress = SendProgress()
    progress.record_send()
    trace = Trace(method, progress)
    for event, info in [one for part in parts for one in part]:
        await trace(event, info)
    return progress, trace


BROKEN = ConnectionResetError("reset")


@pytest.mark.parametrize(
    ("parts", "begun", "unsent", "at_proxy"),
    [
        ([TCP, ASKED], False, False, True),
        ([TCP, ASKED, answered(200)], True, False, False),
        ([TCP, ASKED, answered(502)], True, True, True),
        ([TCP, ASKED, [("http11.receive_response_headers.failed", {"exception": BROKEN})]], True, True, True),
        ([TCP, ASKED, answered(200), TLS[:1]], False, False, False),
        ([TCP, ASKED, answered(200), TLS[:1], [("proxy.start_tls.failed", {})]], True, True, False),
        ([TCP, ASKED, answered(200), TLS], True, False, False),
        ([TCP, ASKED, answered(200), TLS, SENT], True, False, False),
        # Without a proxy, and over a tunnel that is there already.
        ([TCP, SENT], True, False, False),
        ([SENT], True, False, False),
        # Another way after a refusal, through a proxy or past it.
        ([TCP, ASKED, answered(502), TCP, ASKED, answered(200), TLS, SENT], True, False, False),
        ([TCP, ASKED, answered(502), TCP, SENT], True, False, False),
        ([TCP, ASKED, answered(502), SENT], True, False, False),
        # SOCKS.
        ([TCP, [("socks.setup_socks5_connection.started", {})]], False, False, True),
        (
            [TCP, [("socks.setup_socks5_connection.started", {}), ("socks.setup_socks5_connection.failed", {})]],
            True,
            True,
            True,
        ),
    ],
)
async def test_trace_shows_the_progress(parts: list[Events], begun: bool, unsent: bool, at_proxy: bool) -> None:
    progress, trace = await traced(*parts)
    # Between two steps of connecting a transport that names its sending otherwise may send.
    assert progress.may_have_begun is begun
    assert progress.surely_unsent is unsent
    assert trace.at_proxy is at_proxy
    assert progress.began is (SENT[0] in [one for part in parts for one in part])


async def test_trace_shows_the_proxy() -> None:
    _, trace = await traced(TCP, ASKED, answered(407))
    assert (trace.peer, trace.refusal) == ("proxy.example:3128", 407)
    _, trace = await traced(TCP, ASKED, [("http11.receive_response_headers.failed", {"exception": BROKEN})])
    assert (trace.failure, trace.refusal) == (BROKEN, None)


async def test_a_request_whose_own_method_is_connect_is_a_request() -> None:
    progress, _ = await traced(TCP, ASKED, answered(502), method="CONNECT")
    assert (progress.began, progress.surely_unsent) == (True, False)


async def test_a_trace_that_names_no_request_counts_as_sent() -> None:
    progress, _ = await traced(TCP, [("http11.send_request_headers.started", {})])
    assert (progress.began, progress.surely_unsent) == (True, False)
