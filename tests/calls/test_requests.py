"""Tests of the bytes of one request: address, headers, body and query; and of where it may go."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.calls.support import (
    BID,
    EMAIL,
    FOUND,
    LOGGED_IN,
    PASSWORD,
    TOKEN,
    URL,
    Kind,
    perform,
    reply,
    scripted,
    stranger,
)

from freight_exchange import ConfigurationError, FreightExchange, FreightExchangeError, Request, ValidationError

ANY = reply(200, {**FOUND, **BID})


async def test_login_is_a_post_of_email_and_password_without_a_token() -> None:
    with scripted(ANY) as service:
        async with stranger() as exchange:
            await exchange.login()
    [request] = service.logins
    assert (request.method, str(request.url)) == ("POST", f"{URL}/login")
    assert json.loads(request.content) == {"email": EMAIL, "password": PASSWORD}
    assert request.headers["content-type"] == "application/json"
    assert "authorization" not in request.headers


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


@pytest.mark.parametrize("place", ["body", "query"])
async def test_parameters_of_a_get_are_sent_where_the_option_says(place: Any) -> None:
    with scripted(reply(200, {"carriers": [{"index": 7, "name": "C"}]})) as service:
        async with stranger(get_parameters=place) as exchange:
            await exchange.carriers.get(7)
    [request] = service.requests
    assert request.method == "GET"
    assert request.url.query == (b"index=7" if place == "query" else b"")
    assert (b'"index"' in request.content) == (place == "body")


@pytest.mark.parametrize(
    "url", ["https://exchange.example/api", "https://exchange.example/api/", " https://exchange.example/api "]
)
async def test_address_is_the_root_and_the_path(url: str) -> None:
    with scripted(ANY) as service:
        async with FreightExchange(url, email=EMAIL, password=PASSWORD) as exchange:
            await perform(exchange, Kind.READ)
    assert str(service.requests[0].url) == f"{URL}/{Kind.READ.value}"


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
            try:
                await exchange.request("GET", path)
            except FreightExchangeError as error:
                assert isinstance(error, ValidationError | ConfigurationError)
    for request in service.requests:
        assert request.url.host == "exchange.example"
        assert request.url.path.startswith("/api/")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://exchange.example/api", "https"),
        ("ftp://exchange.example/api", "http"),
        ("exchange.example/api", "http"),
        ("https:///api", "host"),
        ("https://me:word@exchange.example/api", "user"),
        ("https://exchange.example/api?token=word", "query"),
        ("https://exchange.example/api#word", "fragment"),
        ("https://exchange.example:99999/api", "host"),
        ("https://exch ange.example/api", "host"),
    ],
)
def test_impossible_base_url_is_refused_without_showing_its_secrets(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        FreightExchange(url, email=EMAIL, password=PASSWORD)
    assert "word" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/api", "http://localhost:1/api", "http://[::1]:1/api"])
def test_this_machine_may_be_reached_without_tls(url: str) -> None:
    assert url in repr(FreightExchange(url, email=EMAIL, password=PASSWORD))


async def test_headers_of_a_middleware_stand_beside_those_of_the_sdk() -> None:
    async def named(request: Request, call_next: Any) -> Any:
        return await call_next(request.with_header("X-Trace", "4711").with_header("User-Agent", "theirs"))

    with scripted(ANY) as service:
        async with stranger(middleware=[named]) as exchange:
            await perform(exchange, Kind.READ)
    for request in (*service.logins, *service.requests):
        assert request.headers["x-trace"] == "4711"
        assert request.headers.get_list("user-agent") == ["theirs"]


@pytest.mark.parametrize("value", ["€", "a\nb", "a\r\nAuthorization: x"])
async def test_header_that_cannot_be_sent_is_refused_and_no_doubt(value: str) -> None:
    async def mistaken(request: Request, call_next: Any) -> Any:
        return await call_next(request if request.path == "login" else request.with_header("x-note", value))

    with scripted(ANY) as service:
        async with stranger(middleware=[mistaken]) as exchange:
            for kind in (Kind.READ, Kind.WRITE):
                with pytest.raises((FreightExchangeError, ValueError)):
                    await perform(exchange, kind)
    assert not any("\n" in name for request in service.requests for name in request.headers)


async def test_no_cookie_is_kept() -> None:
    with scripted(
        reply(200, FOUND, {"Set-Cookie": "sid=1; Path=/"}), login=reply(200, LOGGED_IN, {"Set-Cookie": "a=1"})
    ) as service:
        async with stranger() as exchange:
            for _ in range(3):
                await perform(exchange, Kind.READ)
    assert not any("cookie" in request.headers for request in service.requests)


async def test_netrc_of_the_user_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine exchange.example login someone password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with scripted(ANY) as service:
        async with stranger() as exchange:
            await perform(exchange, Kind.READ)
    assert "authorization" not in service.logins[0].headers
    assert service.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
