"""Tests of the bytes of one request: address, headers, body and query; and of where it may go."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from tests.calls.support import BID, FOUND, TOKEN, Kind, perform, reply, scripted, stranger

from freight_exchange import ConfigurationError, Request, ValidationError

ANY = reply(200, {**FOUND, **BID})


@pytest.mark.parametrize("kind", [Kind.READ, Kind.WRITE])
async def test_call_carries_the_token_and_the_headers_that_the_document_asks_for(kind: Kind) -> None:
    with scripted(ANY) as service:
        async with stranger() as exchange:
            await perform(exchange, kind)
    [request] = service.requests
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["content-type"] == "application/json"
    assert int(request.headers["content-length"]) == len(request.content)
    assert request.headers["host"] == "exchange.example"
    assert "cookie" not in request.headers
    assert set(request.headers.get("accept-encoding", "identity").split(", ")) <= {"gzip", "identity"}
    assert "freight-exchange" in request.headers["user-agent"]


@pytest.mark.parametrize(
    ("call", "body", "query"),
    [
        (("GET", "carrier", {}), b"", {}),
        (("GET", "carrier", {"body": {"index": 1}}), {"index": 1}, {}),
        (("GET", "carrier", {"params": {"index": 1}}), b"", {"index": "1"}),
        (("GET", "route", {"params": {"origin": "Köln & Bonn"}}), b"", {"origin": "Köln & Bonn"}),
        (("POST", "quote/x", {"body": {"a": [1, None, "é"]}}), {"a": [1, None, "é"]}, {}),
        (("POST", "quote/x", {"params": {"p": "1"}, "body": {"a": 1}}), {"a": 1}, {"p": "1"}),
        (("POST", "quote/x", {}), b"", {}),
        (("PUT", "route", {"body": {"index": 1}}), {"index": 1}, {}),
        (("DELETE", "route", {"params": {"index": "1"}}), b"", {"index": "1"}),
    ],
)
async def test_parameters_have_their_place(call: Any, body: Any, query: dict[str, str]) -> None:
    method, path, arguments = call
    with scripted(ANY) as service:
        async with stranger() as exchange:
            await exchange.request(method, path, **arguments)
    [request] = service.requests
    assert (request.method, request.url.path) == (method, f"/api/{path}")
    assert dict(request.url.params) == query
    assert (json.loads(request.content) if body else request.content) == body
    assert ("content-type" in request.headers) == bool(body)
    if method in ("POST", "PUT"):
        assert int(request.headers["content-length"]) == len(request.content)


@pytest.mark.parametrize(
    "path",
    [
        *("https://elsewhere.example/steal", "//elsewhere.example/steal", "\\\\elsewhere.example", "../steal"),
        *("a/../../steal", "%2e%2e/steal", "a?b=c", "a#b", "", "a\nb", "a b", "@elsewhere.example"),
    ],
)
async def test_no_path_leads_the_token_elsewhere(path: str) -> None:
    with scripted(ANY) as service:
        async with stranger() as exchange:
            with contextlib.suppress(ValidationError, ConfigurationError):
                await exchange.request("GET", path)
    for request in service.requests:
        assert request.url.host == "exchange.example"
        assert request.url.path.startswith("/api/")


async def test_headers_of_a_middleware_stand_beside_those_of_the_sdk() -> None:
    async def named(request: Request, call_next: Any) -> Any:
        return await call_next(request.with_header("X-Trace", "4711").with_header("User-Agent", "theirs"))

    with scripted(ANY) as service:
        async with stranger(middleware=[named]) as exchange:
            await perform(exchange, Kind.READ)
    for request in (*service.logins, *service.requests):
        assert request.headers["x-trace"] == "4711"
        assert request.headers.get_list("user-agent") == ["theirs"]
