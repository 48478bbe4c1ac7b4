"""Tests that the logs of HTTP libraries contain no password or token."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import attrs
import httpx
import httpx2
import pytest
from tests.faults.connections.h2_server import serve_h2
from tests.faults.secrets.canary import TOKEN, Catch
from tests.faults.secrets.test_canary import USER, canaries, exercise, watched
from tests.faults.support import patient, stocked

from freight_exchange.testing import Sandbox
from freight_sandbox.faults import Fault
from freight_sandbox.server import serve
from freight_sandbox.wire import Reply

EMAIL = "canary@demo.example"
BEARER = f"Bearer {TOKEN}"


def _repeating(reply: Reply, _: float, __: Random) -> Reply:
    """Return a reply that repeats secrets in its headers: those it received, and those it issues."""
    echoed = (("x-session", f"session={TOKEN}"), ("x-echo", BEARER), ("x-token", TOKEN))
    return attrs.evolve(reply, headers=(*reply.headers, *echoed))


REPEATING = Fault(name="repeating", times=None, mutate=_repeating)


@pytest.mark.parametrize("struck", [REPEATING, attrs.evolve(REPEATING, path="login")], ids=["all", "login"])
async def test_headers_of_replies_in_the_librarys_log(struck: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = stocked(Sandbox())
    canaries(sandbox, monkeypatch)
    sandbox.strike(struck)
    with Catch() as catch:
        async with serve(sandbox.exchange) as face, watched(catch, None, face.url) as exchange:
            await exercise(catch, exchange)
    assert catch.hits() == []
    assert sandbox.exchange.faults.fired
    logged = [text for what, text in catch.texts if what == "log of httpcore.http11"]
    # Still of use: the names of the headers are there, and the status.
    assert any("receive_response_headers.complete" in text and "content-type" in text for text in logged)


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_headers_of_replies_over_http_2(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = stocked(Sandbox())
    canaries(sandbox, monkeypatch)
    sandbox.strike(REPEATING)
    with Catch() as catch:
        async with serve_h2(sandbox.exchange) as (url, trusting):
            http_client = library.AsyncClient(trust_env=False, http2=True, verify=trusting)
            async with http_client, watched(catch, http_client, url) as exchange:
                await exercise(catch, exchange)
    assert catch.hits() == []
    assert any("receive_response_headers.complete" in text for _, text in catch.texts)


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_the_reason_phrase_in_the_librarys_log(library: Any) -> None:
    def answer(request: Any) -> Any:
        extensions = {"reason_phrase": TOKEN.encode()}
        body = {"user": USER} if request.url.path.endswith("login") else {}
        return library.Response(200, json=body, extensions=extensions)

    with Catch() as catch:
        http_client = library.AsyncClient(transport=library.MockTransport(answer))
        async with http_client, watched(catch, http_client) as exchange:
            await exercise(catch, exchange)
    assert catch.hits() == []
    assert any(what == f"log of {library.__name__}" and "200" in text for what, text in catch.texts)


async def test_the_logs_of_others_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Another client of the same HTTP library keeps its logs, even if it is used in a hook."""

    async def ask(_: object) -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200))) as other:
            await other.get("https://other.example/?password=abcdef")

    sandbox = stocked(Sandbox())
    with caplog.at_level(logging.DEBUG, "httpx"):
        async with sandbox.http_client() as http_client:
            async with patient(sandbox, http_client=http_client, hooks=[ask]) as exchange:
                await exchange.login()
            await ask(None)
    logged = [record.getMessage() for record in caplog.records if "other.example" in record.getMessage()]
    # In the hook for the attempt, in the hook for the login, and outside of the client.
    assert logged == ['HTTP Request: GET https://other.example/?password=abcdef "HTTP/1.1 200 OK"'] * 3
