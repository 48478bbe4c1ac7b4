"""Tests that no password or token is printed, logged, raised, pickled or handed to a hook."""

from __future__ import annotations

import base64
import json
import logging
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

import anyio
import httpx
import httpx2
import pytest
import respx
from anyio.abc import ByteStream
from tests.calls.canary import NEEDLES, PASSWORD, PROXY_PASSWORD, TOKEN, Catch
from tests.calls.doubts import DRAFT
from tests.calls.servers import Server, proxying, reset, respond, serving, serving_h2, trust
from tests.calls.support import BRISK, QUICK, Next, client, scripted, stocked

from freight_exchange import FreightExchange, FreightExchangeError, Request, Response, to_dict

EMAIL = "canary@demo.example"
BEARER = f"Bearer {TOKEN}"
_QUOTED = quote(PROXY_PASSWORD, safe="")

Bytes = Callable[[], bytes | None]
"""Makes the bytes of a reply; `None` resets the connection."""

REASONS = {200: "OK", 307: "Temporary Redirect", 400: "Bad Request", 401: "Unauthorized", 429: "Too Many Requests"}


def reply(status: int, body: object, **headers: str) -> Bytes:
    kind = "text/html" if isinstance(body, bytes) else "application/json"
    named = {"Content-Type": kind} | {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda: respond(body, status=f"{status} {REASONS.get(status, 'Other')}", headers=named)


USER = {"access_token": TOKEN, "expires_on": 3600, "firstname": "A", "lastname": "B", "email": EMAIL}
GOOD_LOGIN = reply(200, {"user": USER})
# A token that no login gave yet is recognised by its place alone.
LOUD_LOGIN = {"message": f"no {PASSWORD}", "sent": {"password": PASSWORD, "access_token": TOKEN, "also": BEARER}}
SHOUT = {"message": f"{BEARER} and {PASSWORD}", "debug": {TOKEN: [PASSWORD, {"authorization": BEARER}]}}

LOGINS: dict[str, Bytes] = {
    "rejected": reply(401, {"message": f"wrong password {PASSWORD}"}),
    "rejected_200": reply(200, {"message": f"wrong password {PASSWORD}", "sent": {"password": PASSWORD}}),
    "bad_request": reply(400, LOUD_LOGIN), "server_error": reply(500, LOUD_LOGIN),
    "server_error_text": reply(500, f"Fatal: login({EMAIL}, {PASSWORD}) gave {json.dumps(USER)}".encode()),
    "throttled": reply(429, LOUD_LOGIN, retry_after=TOKEN),
    "redirect": reply(307, LOUD_LOGIN, location=f"https://elsewhere.example/?{quote(PASSWORD)}"),
    "redirect_path": reply(307, {}, location=f"https://elsewhere.example/cb/{TOKEN.replace('/', '')}"),
    "html": reply(200, f"<html>{PASSWORD} {TOKEN}</html>".encode()),
    "half": reply(200, json.dumps({"user": USER}).encode()[:-3]),
    "false_gzip": reply(200, {"user": USER}, content_encoding="gzip"),
    "strange_encoding": reply(200, {"user": USER}, content_encoding="br"),
    "no_user": reply(200, {"access_token": TOKEN}), "user_is_a_list": reply(200, {"user": [USER]}),
    "user_is_the_token": reply(200, {"user": TOKEN}),
    "token_is_a_list": reply(200, {"user": {**USER, "access_token": [TOKEN]}}),
    "token_with_a_newline": reply(200, {"user": {**USER, "access_token": f"{TOKEN}\r\nx: y"}}),
    "token_with_a_space": reply(200, {"user": {**USER, "access_token": f"{TOKEN} {TOKEN}"}}),
    "token_beyond_ascii": reply(200, {"user": {**USER, "access_token": f"{TOKEN}é"}}),
    "token_under_another_name": reply(200, {"user": {**USER, "access_token": None, "jwt": TOKEN}}),
    "user_is_broken": reply(200, {"user": {**USER, "company": [TOKEN, 7]}}),
    "token_twice": reply(200, {"user": {**USER, "session_token": TOKEN}, "access_token": TOKEN}),
    "deep": reply(200, b'{"user":' + b"[" * 100 + json.dumps(TOKEN).encode() + b"]" * 100 + b"}"),
    "not_utf8": reply(200, json.dumps({"user": USER}).encode() + b"\xff"), "header": reply(500, {}, x_debug=TOKEN),
    **{f"text_{status}": reply(status, f"Welcome. {TOKEN} is yours".encode()) for status in (200, 401, 403, 500)},
    **{f"string_{status}": reply(status, TOKEN) for status in (200, 401)},
    **{f"list_{status}": reply(status, [TOKEN, {"jwt": TOKEN}]) for status in (200, 422)},
    **{f"other_shape_{status}": reply(status, {"data": {"jwt": TOKEN}}) for status in (200, 400, 404, 500)},
    **{f"sentence_{status}": reply(status, {"message": f"welcome, {TOKEN}!"}) for status in (200, 403, 500)},
    **{f"error_{status}": reply(status, {"errors": [{"detail": TOKEN, TOKEN: 7}]}) for status in (200, 400, 503)},
    "rejected_beside_it": reply(200, {"message": "no", "jwt": TOKEN, "session": {"id": TOKEN}}),
    "cookies": reply(200, {"message": "no"}, x_session=TOKEN, etag=TOKEN, set_cookie=f"sid={TOKEN}"),
    "basic": reply(400, {"authorization": f"Basic {base64.b64encode(f'{EMAIL}:{PASSWORD}'.encode()).decode()}"}),
    "garbage": lambda: f"{TOKEN} {PASSWORD}\r\n\r\n".encode(), "reset": lambda: None,
}  # fmt: skip

# A secret just where an excerpt of some length is cut.
_CUTS = (180, 290, 490, 1990, 3990, 8175, 65_520)

REPLIES: dict[str, Bytes] = {
    "good": reply(200, {"raterequests": {"0": {"index": 2}}, "bid": {"index": 2, "offer": {"index": 1}}}),
    "bad_request": reply(400, SHOUT), "bad_request_text": reply(400, f"{PASSWORD} {BEARER}".encode()),
    "bad_request_escaped": reply(400, json.dumps({"error": [TOKEN, PASSWORD]}).replace("/", "\\/").encode()),
    "forbidden": reply(403, SHOUT), "not_found": reply(404, f"<html>{BEARER}</html>".encode()),
    "unauthorized": reply(401, {"Unauthorized": f"{BEARER} is not known"}), "server_error": reply(500, SHOUT),
    "throttled": reply(429, SHOUT, retry_after=BEARER),
    "redirect": reply(302, SHOUT, location=f"https://elsewhere.example/?{TOKEN}"),
    "broken_record": reply(200, {"raterequests": [{"index": TOKEN, "notes": PASSWORD}, SHOUT, BEARER]}),
    "broken_collection": reply(200, {"raterequests": BEARER}), "not_the_collection": reply(200, SHOUT),
    "login_in_its_place": reply(200, {"user": USER}), "html": reply(200, f"<html>{BEARER} {PASSWORD}</html>".encode()),
    "half": reply(200, json.dumps(SHOUT).encode()[:-3]), "false_gzip": reply(200, SHOUT, content_encoding="gzip"),
    "strange_encoding": reply(200, SHOUT, content_encoding=TOKEN),
    "number": reply(200, json.dumps(SHOUT).encode()[:-1] + b', "n": 1e999}'),
    "header": reply(500, {}, x_echo=BEARER, x_request_id=TOKEN, server=BEARER, via=f"1.1 {TOKEN}"),
    "password_in_a_header": reply(500, {}, x_echo=PASSWORD.encode().decode("latin-1")),
    "reason_phrase": lambda: f"HTTP/1.1 400 {BEARER}\r\nX-Token: {TOKEN}\r\nContent-Length: 2\r\n\r\n{{}}".encode(),
    "garbage": lambda: f"{BEARER}\r\n\r\n".encode(),
    "password_in_garbage": lambda: f"{BEARER} {PASSWORD}\r\n\r\n".encode(), "reset": lambda: None,
    **{f"text_cut_at_{at}": reply(500, f"{'.' * at}{PASSWORD} {BEARER} {'.' * 9000}".encode()) for at in _CUTS},
    **{
        f"json_cut_at_{at}": reply(400, {"message": f"{'.' * at}{TOKEN}", "debug": {TOKEN: [PASSWORD] * 900}})
        for at in _CUTS
    },
    "many_records": reply(200, {"raterequests": [{"index": "x", "notes": PASSWORD, TOKEN: BEARER}] * 300}),
}  # fmt: skip


@asynccontextmanager
async def replying(login: Bytes, others: Bytes) -> AsyncIterator[Server]:
    """Serve these replies on a socket."""

    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        content = (login if b"/login " in request.partition(b"\r\n")[0] else others)()
        if content is None:
            reset(stream)
            return False
        await stream.send(content)
        return content.startswith(b"HTTP")

    async with serving(answer, logs_in=False) as server:
        yield server


@asynccontextmanager
async def watched(catch: Catch, url: str, **options: Any) -> AsyncIterator[FreightExchange]:
    """Create a client that records the arguments of its middleware and hooks, and all objects that they can reach."""

    async def middleware(request: Request, call_next: Next) -> Response:
        catch.see("request in middleware", repr(request))
        try:
            response = await call_next(request)
        except FreightExchangeError as error:
            catch.error(error)
            raise
        catch.see("response in middleware", repr(response))
        return response

    def hook(event: object) -> None:
        catch.see(f"hook {type(event).__name__}", repr(event))
        catch.see("headers of a hook", repr(getattr(event, "headers", None)))
        catch.error(getattr(event, "error", None))

    settings = {
        "timeouts": QUICK,
        "retries": BRISK,
        "deadline": 2,
        "middleware": [middleware],
        "hooks": [hook],
        **options,
    }
    exchange = FreightExchange(url, email=EMAIL, password=PASSWORD, **settings)
    async with exchange:
        yield exchange
        catch.reachable(exchange)
    catch.reachable(exchange)


async def exercise(catch: Catch, exchange: FreightExchange) -> None:
    """Make a call of every kind, and collect the results and errors."""
    for act in (
        exchange.login,
        lambda: exchange.requests.get(2),
        lambda: exchange.requests.search().collect(),
        lambda: exchange.bids.submit(2, amount=1, currency=840),
        lambda: exchange.currencies.list().collect(),
        lambda: exchange.request("GET", "quote/bid"),
        lambda: exchange.request("POST", "quote/other", body={"a": 1}),
    ):
        try:
            result = await act()
        except FreightExchangeError as error:
            catch.error(error)
            catch.see("headers of an error", repr(error.headers))
        else:
            catch.see("result", repr(result) if act is exchange.login else type(result).__name__)
    catch.see("user", repr(exchange.user))
    catch.see("client", f"{exchange!r} {exchange.with_options(deadline=1)!r}")


def test_planted_leak_is_found() -> None:
    for leak in (PASSWORD, TOKEN, json.dumps(PASSWORD), TOKEN.encode().hex()):
        with Catch() as catch:
            logging.getLogger("freight_exchange.planted").debug("%s", leak)
        assert catch.hits()
    catch = Catch()
    try:
        planted = PASSWORD
        raise ValueError(len(planted))
    except ValueError as error:
        catch.error(error)
    assert any("traceback" in hit for hit in catch.hits())
    assert len(set(NEEDLES)) == len(NEEDLES)


@pytest.mark.parametrize(
    ("login", "others"),
    [
        *(pytest.param(login, "good", id=f"login-{login}") for login in LOGINS),
        *(pytest.param("good", others, id=f"call-{others}") for others in REPLIES),
    ],
)
async def test_no_reply_shows_a_secret(login: str, others: str) -> None:
    """Sockets are in use, all loggers are at DEBUG, and the service repeats what it was sent."""
    with Catch() as catch:
        async with replying(LOGINS.get(login, GOOD_LOGIN), REPLIES[others]) as server:
            async with watched(catch, server.url) as exchange:
                await exercise(catch, exchange)
            server.requests.clear()
    assert catch.hits() == []
    assert len(catch.texts) > 50
    assert any(what == "log of httpcore.http11" for what, _ in catch.texts)


# HTTP/2, and the logs of HTTP libraries


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_http_2_shows_no_secret(library: ModuleType) -> None:
    """The library of header compression logs each header at DEBUG."""
    served = 0
    echoes = {"x-session": f"session={TOKEN}", "x-echo": BEARER, "content-type": "application/json"}

    def answer(path: str) -> tuple[int, dict[str, str], bytes] | None:
        nonlocal served
        served += 1
        if path == "login":
            return 200, echoes, json.dumps({"user": USER}).encode()
        return None if served > 9 else (200, echoes, b'{"raterequests": []}')

    with Catch() as catch:
        async with (
            serving_h2(answer) as (url, trusting),
            library.AsyncClient(trust_env=False, http2=True, verify=trusting) as http_client,
            watched(catch, url, http_client=http_client) as exchange,
        ):
            for _ in range(2):
                await exercise(catch, exchange)
    assert catch.hits() == []
    assert any(what == f"log of {library.__name__.replace('httpx', 'httpcore')}.http2" for what, _ in catch.texts)


async def test_logs_of_other_clients_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Another client of the same HTTP library keeps its logs, even if it is used in a hook."""

    async def ask(_: object) -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200))) as other:
            await other.get("https://other.example/?password=abcdef")

    with caplog.at_level(logging.DEBUG, "httpx"):
        async with client(stocked(), hooks=[ask]) as exchange:
            await exchange.login()
        await ask(None)
    logged = [record.getMessage() for record in caplog.records if "other.example" in record.getMessage()]
    # In the hook for the attempt, in the hook for the login, and outside of the client.
    assert logged == ['HTTP Request: GET https://other.example/?password=abcdef "HTTP/1.1 200 OK"'] * 3


# Proxies

_ECHO = base64.b64encode(f"me:{PROXY_PASSWORD}".encode()).decode()
_PROXY_HEADERS = (
    f"Proxy-Authenticate: Basic realm={PROXY_PASSWORD}\r\nX-Got: Basic {_ECHO}\r\nContent-Length: 0\r\n\r\n"
)
PROXY_ANSWERS = {
    "connects": [],
    "407": [f"HTTP/1.1 407 not me:{PROXY_PASSWORD}\r\n{_PROXY_HEADERS}"] * 30,
    "502": [f"HTTP/1.1 502 {_ECHO}\r\n{_PROXY_HEADERS}"] * 30,
    "200_without_tls": [f"HTTP/1.1 200 {_ECHO}\r\n{_PROXY_HEADERS}{_ECHO}{PROXY_PASSWORD}"] * 30,
    "garbage": [f"{_ECHO} {PROXY_PASSWORD}\r\n\r\n"] * 30,
}


@pytest.mark.parametrize("answer", [*PROXY_ANSWERS, "refused"])
async def test_no_reply_of_a_proxy_shows_its_password(answer: str) -> None:
    server_side, client_side = trust()

    async def fine(_: Server, stream: ByteStream, __: bytes) -> bool:
        await stream.send(respond({"raterequests": []}))
        return True

    answers = [text.encode() for text in PROXY_ANSWERS.get(answer, [])]
    with Catch() as catch:
        async with serving(fine, server_side) as server, proxying(*answers, user=f"me:{_QUOTED}") as proxy:
            if answer == "refused":
                proxy.stops.set()
                await proxy.stopped.wait()
            async with watched(catch, server.url, proxy=proxy.url, verify=client_side) as exchange:
                await exercise(catch, exchange)
            # What the proxy itself received is the test's own.
            assert answer == "refused" or _ECHO.encode() in proxy.requests[0]
            proxy.requests.clear()
            proxy.answers.clear()
            proxy.url = ""
    assert [hit for hit in catch.hits() if "answers" not in hit] == []
    assert len(catch.texts) > 50


# Arguments and credentials


@pytest.mark.parametrize(
    "options",
    [
        {"deadline": -1}, {"max_connections": 0}, {"max_writes": 0}, {"get_parameters": "nowhere"},
        {"addresses": {"submit": "elsewhere"}}, {"timeouts": 5}, {"verify": False}, {"http_client": 7}, {"hooks": 5},
        {"proxy": f"nonsense {PROXY_PASSWORD}"}, {"proxy": f"ftp://me:{_QUOTED}@proxy.example"},
        {"proxy": f"http://me:{_QUOTED}@"}, {"proxy": f"http://me:{PROXY_PASSWORD}@proxy.example:no"},
        {"proxy": f"http://me:{_QUOTED}@proxy.example:70000"}, {"proxy": f"http://me:{_QUOTED}@[::1"},
        {"proxy": f"http://me:{_QUOTED}@proxy.example\x00"}, {"proxy": f"http://me:{_QUOTED}@xn--a☃.example"},
        {"proxy": f"http://me:{_QUOTED}\x01@proxy.example"},
        {"proxy": f"http://me:{_QUOTED}@proxy.example", "http_client": httpx.AsyncClient(verify=False)},
        {"proxy": f"http://me:{_QUOTED}@proxy.example", "verify": 7},
        {"proxy": f"http://me:{_QUOTED}@proxy.example", "keepalive": -1},
        {"proxy": f"http://me:{_QUOTED}@proxy.example", "base_url": "https://host\x00/api"},
        {"credentials": lambda: None}, {"email": ""}, {"token_store": 1}, {"base_url": "http://exchange.example/api"},
        {"base_url": f"https://me:{_QUOTED}@exchange.example/api"},
        {"base_url": f"https://exchange.example/api?token={_QUOTED}"},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
async def test_no_refusal_of_an_argument_shows_a_secret(options: dict[str, Any]) -> None:
    arguments = {"base_url": "https://exchange.example/api", "email": EMAIL, **options}
    with Catch() as catch:
        catch.error(await _refused(arguments))
    # The test's own frames hold what it gives.
    assert [hit for hit in catch.hits() if "arguments" not in hit and "options" not in hit] == []


async def _refused(arguments: dict[str, Any]) -> FreightExchangeError:
    with pytest.raises(FreightExchangeError) as caught:
        async with FreightExchange(password=PASSWORD, **arguments):
            pytest.fail("it was taken")
    error = caught.value
    return error.with_traceback(error.__traceback__.tb_next if error.__traceback__ is not None else None)


async def test_no_cancelled_call_shows_a_secret() -> None:
    with Catch() as catch:
        async with replying(GOOD_LOGIN, lambda: b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n") as server:
            async with watched(catch, server.url, timeouts=None, deadline=30) as exchange:
                for _ in range(3):
                    with anyio.move_on_after(0.05):
                        await exercise(catch, exchange)
                with anyio.move_on_after(0.05):
                    await exchange.bids.submit(2, amount=1, currency=840)
            server.requests.clear()
    assert catch.hits() == []


# What is returned and stored


async def test_login_that_repeats_its_token_elsewhere_does_not_return_it() -> None:
    token = "tok.canary.4711"  # no real one
    user = {"access_token": token, "session": {"id": [token]}, "imageUrl": f"https://x.example/?t={token}"}
    user |= {"company": {"name": "Co", "key": token}, "email": "p@co.example", "pw": "p"}
    login = httpx.Response(200, json={"user": user})
    with scripted(httpx.Response(200), login=login):
        async with FreightExchange("https://exchange.example/api", email="p@co.example", password="p") as exchange:
            found = await exchange.login()
    assert token not in repr(found)
    assert token.encode() not in pickle.dumps(found)
    assert found.email == "p@co.example"


ECHO = f"seen with {TOKEN}, {BEARER} and {PASSWORD}"
OFFER = {"offerId": 5, "offerAmount": 7, "terms": ECHO, "rates": {TOKEN: 7}, "seen": [ECHO]}
ECHOES: dict[str, dict[str, Any]] = {
    "raterequests": {"index": 4, "notes": ECHO, "sessions": {TOKEN: [{"by": ECHO}]}},
    "offers": {"index": 4, "notes": ECHO, "offer": {"0": OFFER}, "loadingPOC": {"name": ECHO}},
    "bids": {"index": 4, "price": 7, "notes": ECHO, "offer": OFFER},
    "routes": {"index": 4, "vesselName": ECHO, "cycutoff": ECHO, "more": ECHO},
    "carriers": {"index": 4, "name": ECHO},
}


def _content_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


@pytest.mark.virtual_time
async def test_secrets_that_the_service_repeats_in_records_are_neither_returned_nor_stored(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/quote/").removeprefix("/api/")
        if path == "submitoffer":
            return httpx.Response(200, json={"bid": {"index": 4, "notes": ECHO, "offer": OFFER}})
        names = {"bid": "bids", "route": "routes", "carrier": "carriers", "approveoffer": "offers", "offer": "offers"}
        name = names.get(path, "raterequests")
        return httpx.Response(200, json={name: {"0": ECHOES[name]} if b'"offset":1' not in request.content else {}})

    login = httpx.Response(200, json={"user": {**USER, "expires_on": 10**6}})
    with scripted(answer, login=login):
        async with FreightExchange("https://exchange.example/api", email=EMAIL, password=PASSWORD) as exchange:
            records: list[Any] = [
                await exchange.requests.get(4),
                *await exchange.requests.search().collect(),
                *await exchange.offers.list().collect(),
                *await exchange.bids.list(sweep=True).collect(),
                *await exchange.routes.list().collect(),
                *await exchange.carriers.list().collect(),
                await exchange.offers.get(4),
                await exchange.bids.submit(4, amount=7, currency=1),
                await exchange.requests.publish(DRAFT),
            ]
            async with exchange.watch(store=tmp_path / "feed.db", start="backfill") as feed:
                async for event in feed:
                    records.append(event)
                    break
    kept = _content_of(tmp_path)
    assert b"seen with" in kept
    for secret in (TOKEN, PASSWORD):
        assert all(secret not in repr(record) for record in records)
        assert all(secret not in str(to_dict(record)) for record in records[:-1])
        assert secret.encode() not in kept
    assert all("***" in str(to_dict(record)) for record in records[:-1])
    assert {record.index for record in records[:-1]} == {4}


async def test_reply_that_repeats_a_token_loses_nothing_else() -> None:
    fees = {"Freight": 100, "Authorization fee": 50}
    bid = {"index": 4, "notes": f"Bearer cheques, {TOKEN}", "offer": {**OFFER, "rates": fees}}
    with scripted(httpx.Response(200, json={"bid": bid}), login=httpx.Response(200, json={"user": USER})):
        async with FreightExchange("https://exchange.example/api", email=EMAIL, password=PASSWORD) as exchange:
            found = await exchange.bids.submit(4, amount=7, currency=1)
    assert found.notes == "Bearer cheques, ***"
    assert found.offer is not None
    assert dict(found.offer.rates or {}) == {name: Decimal(fee) for name, fee in fees.items()}


@pytest.mark.virtual_time
async def test_late_reply_does_not_show_an_earlier_token() -> None:
    """A reply may be older than the login that replaced its token."""
    tokens = [f"needle-{number}-of-a-token" for number in range(3)]
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["Authorization"].removeprefix("Bearer "))
        if len({*sent}) < len(tokens):
            return httpx.Response(401, json={"Unauthorized": "expired"})
        return httpx.Response(400, json={"message": f"{tokens[0]} has expired"})

    def login(_: httpx.Request) -> httpx.Response:
        number = len({*sent})
        return httpx.Response(200, json={"user": {**USER, "access_token": tokens[number], "expires_on": 10**6}})

    with respx.mock(base_url="https://exchange.example/api") as router:
        router.post("/login").mock(side_effect=login)
        router.route().mock(side_effect=answer)
        async with FreightExchange("https://exchange.example/api", email=EMAIL, password=PASSWORD) as exchange:
            errors = []
            for _ in tokens:
                with pytest.raises(FreightExchangeError) as caught:
                    await exchange.carriers.list()
                errors.append(caught.value)
                await anyio.sleep(120)
    assert {*sent} == {*tokens}
    assert "has expired" in str(errors[-1])
    assert tokens[0] not in f"{errors[-1]!r}{errors[-1]}{errors[-1].__cause__!r}"
