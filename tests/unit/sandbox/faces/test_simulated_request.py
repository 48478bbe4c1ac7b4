"""Tests of trace events in process, compared with those of httpcore over sockets."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from tests.unit.sandbox.faces.test_parity import (
    BEFORE_A_CONNECTION,
    LATE,
    ask,
    in_process,
    libraries,
    outcome,
    over_tcp,
    really,
    settled,
    struck,
    timeouts_for,
)

from freight_exchange.sandbox.core.exchange import Exchange
from freight_exchange.sandbox.faces.tcp import serve_tcp
from freight_exchange.sandbox.model.messages import Cut


class Trace:
    """Trace callback that records names, and acts at one of them."""

    def __init__(self, at: str = "", act: Callable[[], None] | None = None) -> None:
        self.names: list[str] = []
        self._at = at
        self._act = act

    async def __call__(self, name: str, info: dict[str, Any]) -> None:
        if name.startswith("http11.response_closed"):
            await anyio.lowlevel.checkpoint()  # a cancelled call must still report its end
        self.names.append(name)
        if name == self._at and self._act is not None:
            self._act()


def traced(trace: Trace) -> dict[str, Any]:
    return {"trace": trace}


NORMAL = [
    "connection.connect_tcp.started",
    "connection.connect_tcp.complete",
    "http11.send_request_headers.started",
    "http11.send_request_headers.complete",
    "http11.send_request_body.started",
    "http11.send_request_body.complete",
    "http11.receive_response_headers.started",
    "http11.receive_response_headers.complete",
    "http11.receive_response_body.started",
    "http11.receive_response_body.complete",
    "http11.response_closed.started",
    "http11.response_closed.complete",
]


@pytest.mark.parametrize(
    ("method", "cut"),
    [
        ("GET", None),
        ("POST", None),
        # httpx keeps a connection with bytes on it, and has them answer the next request: the face here does not.
        *(("POST", cut) for cut in LATE if cut is not Cut.BYTES_AFTER_REPLY),
        *(("GET", cut) for cut in (Cut.RESET_AFTER_SEND, Cut.RESET_MID_BODY, Cut.IDLE_FIN)),
    ],
)
@libraries
async def test_trace_is_the_same_as_over_sockets(method: str, cut: Cut | None, library: ModuleType) -> None:
    there, here = (Exchange() if cut is None else struck(cut) for _ in range(2))
    timeout = timeouts_for(cut, library)
    async with serve_tcp(there) as face, over_tcp(face.url, library) as client:
        by_socket = await two_traces(client, library, method, timeout)
    async with in_process(here, library) as client:
        by_process = await two_traces(client, library, method, timeout)
    assert by_process == by_socket
    if cut is None:
        assert by_process == [NORMAL, NORMAL[2:]]


async def two_traces(client: Any, library: ModuleType, method: str, timeout: Any) -> list[list[str]]:
    """Return the traces of two successive calls: the second one may reuse a connection."""
    first, second = Trace(), Trace()
    for trace in (first, second):
        await outcome(client, library, method, timeout=timeout, extensions=traced(trace))
    return [first.names, second.names]


@libraries
async def test_reset_before_headers_fails_the_write(library: ModuleType) -> None:
    trace = Trace()
    async with in_process(struck(Cut.RESET_BEFORE_HEADERS), library) as client:
        assert await outcome(client, library, extensions=traced(trace)) == "ReadError"
    assert trace.names[2:6] == [
        "http11.send_request_headers.started",
        "http11.send_request_headers.failed",
        "http11.receive_response_headers.started",
        "http11.receive_response_headers.failed",
    ]


@pytest.mark.parametrize("cut", BEFORE_A_CONNECTION)
@libraries
async def test_trace_of_failed_connections_is_the_same(
    cut: Cut, library: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = Trace(), Trace()
    timeout = timeouts_for(cut, library)
    await really(cut, library, monkeypatch, timeout=timeout, extensions=traced(there))
    async with in_process(struck(cut), library) as client:
        await outcome(client, library, timeout=timeout, extensions=traced(here))
    assert here.names == there.names
    assert not any("send_request" in name for name in here.names)


class TraceError(Exception):
    """Error of a callback that no library knows."""


# From these events on, the server has the whole request: its head is all, where it has no body.
SENT = {"GET": NORMAL[3:], "POST": NORMAL[5:]}


def fail() -> None:
    raise TraceError


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("name", NORMAL[2:])
@libraries
async def test_trace_error_ends_the_request_at_its_step(name: str, method: str, library: Any) -> None:
    there, here = Exchange(), Exchange()
    by_socket, by_process = Trace(name, fail), Trace(name, fail)
    async with serve_tcp(there) as face, over_tcp(face.url, library) as client:
        with pytest.raises(TraceError):
            await ask(client, method, extensions=traced(by_socket))
        await client.aclose()
        await settled(lambda: face.connections == 1 and not face.open_connections)
    async with in_process(here, library) as client:
        with pytest.raises(TraceError):
            await ask(client, method, extensions=traced(by_process))
        assert by_process.names == by_socket.names
        assert len(here.audit_log.calls) == len(there.audit_log.calls) == (name in SENT[method])
        assert await outcome(client, library) == "200"


# httpcore leaks the new connection when a callback raises as it stands: there is nothing to compare with.
@pytest.mark.parametrize("name", NORMAL[:2])
@libraries
async def test_trace_error_while_connecting_sends_nothing(name: str, library: Any) -> None:
    exchange, trace = Exchange(), Trace(name, fail)
    async with in_process(exchange, library) as client:
        with pytest.raises(TraceError):
            await ask(client, "POST", extensions=traced(trace))
        assert trace.names[-1] == name
        assert not exchange.audit_log.calls


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("name", NORMAL)
async def test_cancelled_call_reaches_the_exchange_only_once_sent(name: str, method: str) -> None:
    exchange, scope = Exchange(), anyio.CancelScope()
    trace = Trace(name, scope.cancel)
    with scope:
        async with in_process(exchange, httpx) as client:
            await ask(client, method, extensions=traced(trace))
    assert len(exchange.audit_log.calls) == (name in SENT[method])
    if len(trace.names) > 2:
        assert trace.names[-2:] == NORMAL[-2:]
    async with in_process(exchange, httpx) as client:
        assert await outcome(client, httpx) == "200"
