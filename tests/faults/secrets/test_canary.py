"""Tests that no password or token is printed, logged, raised or pickled."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
import httpx2
import pytest
from anyio.abc import ByteStream
from tests.faults.connections.h2_server import serve_h2
from tests.faults.connections.raw import Server, proxying, serving
from tests.faults.connections.raw import reply as raw_reply
from tests.faults.connections.test_sockets import trust
from tests.faults.secrets.canary import NEEDLES, PASSWORD, PROXY_PASSWORD, TOKEN, Catch
from tests.faults.support import BRISK, QUICK, Kind, stocked

from freight_exchange import FreightExchange, FreightExchangeError, Request, Response
from freight_exchange.sandbox import Account
from freight_exchange.sandbox.faces.tcp import serve_tcp
from freight_exchange.testing import FAULTS, Sandbox
from freight_exchange.transport.call import Next
from freight_exchange.transport.redact import LONGEST

EMAIL = "canary@demo.example"
BEARER = f"Bearer {TOKEN}"
_QUOTED = quote(PROXY_PASSWORD, safe="")

Answer = Callable[[], tuple[int, dict[str, str], bytes]]


def reply(status: int, body: object, **headers: str) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "text/html" if isinstance(body, bytes) else "application/json"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda: (status, {"content-type": kind, **named}, content)


USER = {"access_token": TOKEN, "expires_on": 3600, "firstname": "A", "lastname": "B", "email": EMAIL}
GOOD_LOGIN = reply(200, {"user": USER})
# A token that no login gave yet is recognised by its place alone.
LOUD_LOGIN = {"message": f"no {PASSWORD}", "sent": {"password": PASSWORD, "access_token": TOKEN, "also": BEARER}}
SHOUT = {"message": f"{BEARER} and {PASSWORD}", "debug": {TOKEN: [PASSWORD, {"authorization": BEARER}]}}

LOGINS: dict[str, Answer] = {
    "rejected": reply(401, {"message": f"wrong password {PASSWORD}"}),
    "rejected_200": reply(200, {"message": f"wrong password {PASSWORD}", "sent": {"password": PASSWORD}}),
    "bad_request": reply(400, LOUD_LOGIN),
    "server_error": reply(500, LOUD_LOGIN),
    "server_error_text": reply(500, f"Fatal: login({EMAIL}, {PASSWORD}) gave {json.dumps(USER)}".encode()),
    "throttled": reply(429, LOUD_LOGIN, retry_after=TOKEN),
    "redirect": reply(307, LOUD_LOGIN, location=f"https://elsewhere.example/?{quote(PASSWORD)}"),
    "html": reply(200, f"<html>{PASSWORD} {TOKEN}</html>".encode()),
    "half": reply(200, json.dumps({"user": USER}).encode()[:-3]),
    "false_gzip": reply(200, {"user": USER}, content_encoding="gzip"),
    "strange_encoding": reply(200, {"user": USER}, content_encoding="br"),
    "no_user": reply(200, {"access_token": TOKEN}),
    "user_is_a_list": reply(200, {"user": [USER]}),
    "user_is_the_token": reply(200, {"user": TOKEN}),
    "token_is_a_list": reply(200, {"user": {**USER, "access_token": [TOKEN]}}),
    "token_with_a_newline": reply(200, {"user": {**USER, "access_token": f"{TOKEN}\r\nx: y"}}),
    "token_with_a_space": reply(200, {"user": {**USER, "access_token": f"{TOKEN} {TOKEN}"}}),
    "token_beyond_ascii": reply(200, {"user": {**USER, "access_token": f"{TOKEN}é"}}),
    "token_under_another_name": reply(200, {"user": {**USER, "access_token": None, "jwt": TOKEN}}),
    "user_is_broken": reply(200, {"user": {**USER, "company": [TOKEN, 7]}}),
    "token_twice": reply(200, {"user": {**USER, "session_token": TOKEN}, "access_token": TOKEN}),
    "deep": reply(200, b'{"user":' + b"[" * 100 + json.dumps(TOKEN).encode() + b"]" * 100 + b"}"),
    "not_utf8": reply(200, json.dumps({"user": USER}).encode() + b"\xff"),
    "header": reply(500, {}, x_debug=TOKEN),
    **{f"text_{status}": reply(status, f"Welcome. {TOKEN} is yours".encode()) for status in (200, 400, 401, 403, 500)},
    **{f"bare_token_{status}": reply(status, TOKEN.encode()) for status in (200, 400, 401, 429)},
    **{f"string_{status}": reply(status, TOKEN) for status in (200, 401, 403)},
    **{f"list_{status}": reply(status, [TOKEN, {"jwt": TOKEN}]) for status in (200, 422)},
    **{f"other_shape_{status}": reply(status, {"data": {"jwt": TOKEN}}) for status in (200, 400, 404, 500)},
    **{f"sentence_{status}": reply(status, {"message": f"welcome, {TOKEN}!"}) for status in (200, 403, 404, 500)},
    **{f"error_{status}": reply(status, {"errors": [{"detail": TOKEN, TOKEN: 7}]}) for status in (200, 400, 503)},
    "rejected_beside_it": reply(200, {"message": "no", "jwt": TOKEN, "session": {"id": TOKEN}}),
    "cookies": reply(200, {"message": "no"}, x_session=TOKEN, etag=TOKEN, retry_after=TOKEN),
    "basic": reply(400, {"authorization": f"Basic {base64.b64encode(f'{EMAIL}:{PASSWORD}'.encode()).decode()}"}),
}

REPLIES: dict[str, Answer] = {
    "good": reply(200, {"raterequests": {"0": {"index": 2}}, "bid": {"index": 2, "offer": {"index": 1}}}),
    "bad_request": reply(400, SHOUT),
    "bad_request_text": reply(400, f"{PASSWORD} {BEARER}".encode()),
    "bad_request_escaped": reply(400, json.dumps({"error": [TOKEN, PASSWORD]}).replace("/", "\\/").encode()),
    "forbidden": reply(403, SHOUT),
    "not_found": reply(404, f"<html>{BEARER}</html>".encode()),
    "unauthorized": reply(401, {"Unauthorized": f"{BEARER} is not known"}),
    "server_error": reply(500, SHOUT),
    "throttled": reply(429, SHOUT, retry_after=BEARER),
    "redirect": reply(302, SHOUT, location=f"https://elsewhere.example/?{TOKEN}"),
    "broken_record": reply(200, {"raterequests": [{"index": TOKEN, "notes": PASSWORD}, SHOUT, BEARER]}),
    "broken_collection": reply(200, {"raterequests": BEARER}),
    "not_the_collection": reply(200, SHOUT),
    "login_in_its_place": reply(200, {"user": USER}),
    "html": reply(200, f"<html>{BEARER} {PASSWORD}</html>".encode()),
    "half": reply(200, json.dumps(SHOUT).encode()[:-3]),
    "false_gzip": reply(200, SHOUT, content_encoding="gzip"),
    "strange_encoding": reply(200, SHOUT, content_encoding=TOKEN),
    "number": reply(200, json.dumps(SHOUT).encode()[:-1] + b', "n": 1e999}'),
    "header": reply(500, {}, x_echo=BEARER),
    "long_text": reply(500, f"{'.' * (LONGEST - 20)}{PASSWORD} {BEARER} {'.' * 9000}".encode()),
    "long_json": reply(500, {"message": f"{'.' * (LONGEST - 20)}{PASSWORD}", "debug": {TOKEN: [PASSWORD] * 9000}}),
    "long_records": reply(200, {"raterequests": [{"index": "x", "notes": PASSWORD, TOKEN: BEARER}] * 300}),
}


class Echo(httpx.AsyncBaseTransport):
    """Server that replies as scripted, and echoes much of each request."""

    def __init__(self, login: Answer, others: Answer) -> None:
        self._login = login
        self._others = others

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        status, headers, body = (self._login if request.url.path.endswith("/login") else self._others)()
        return httpx.Response(status, headers=headers, content=body)


@asynccontextmanager
async def watched(
    catch: Catch, http_client: Any, url: str = "http://127.0.0.1/api", **options: Any
) -> AsyncIterator[FreightExchange]:
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
        catch.error(getattr(event, "error", None))

    exchange = FreightExchange(
        url,
        email=EMAIL,
        password=PASSWORD,
        http_client=http_client,
        timeouts=QUICK,
        retries=BRISK,
        deadline=2,
        middleware=[middleware],
        hooks=[hook],
        **options,
    )
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
        else:
            catch.see("result", repr(result) if act is exchange.login else type(result).__name__)
    catch.see("user", repr(exchange.user))


def test_a_leak_is_found() -> None:
    """The search finds a secret that is planted in each kind of place."""
    for leak in (PASSWORD, TOKEN, json.dumps(PASSWORD), TOKEN.encode().hex()):
        catch = Catch()
        with catch:
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


@pytest.mark.parametrize("login", list(LOGINS))
async def test_no_reply_to_a_login_shows_a_secret(login: str) -> None:
    with Catch() as catch:
        http_client = httpx.AsyncClient(transport=Echo(LOGINS[login], REPLIES["good"]))
        async with http_client, watched(catch, http_client) as exchange:
            await exercise(catch, exchange)
    assert catch.hits() == []
    assert len(catch.texts) > 50


@pytest.mark.parametrize("others", list(REPLIES))
async def test_no_reply_to_a_call_shows_a_secret(others: str) -> None:
    with Catch() as catch:
        http_client = httpx.AsyncClient(transport=Echo(GOOD_LOGIN, REPLIES[others]))
        async with http_client, watched(catch, http_client) as exchange:
            await exercise(catch, exchange)
    assert catch.hits() == []
    assert len(catch.texts) > 50


async def test_no_module_keeps_a_secret() -> None:
    with Catch() as catch:
        http_client = httpx.AsyncClient(transport=Echo(GOOD_LOGIN, REPLIES["good"]))
        async with http_client, watched(catch, http_client) as exchange:
            await exercise(catch, exchange)
            ours = [module for name, module in sys.modules.items() if name.startswith("freight_exchange")]
            catch.reachable(*(thing for module in ours for thing in vars(module).values()))
    assert catch.hits() == []


def canaries(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the canary account to the sandbox, with the canary as its token."""
    account: Account = sandbox.exchange.add_account(EMAIL, PASSWORD)
    database = sandbox.exchange._database
    issue = database.issue_token

    def issued(*arguments: Any) -> Any:
        token = issue(*arguments)
        return type(token)(**{**{name: getattr(token, name) for name in _fields(token)}, "value": TOKEN})

    def _fields(token: Any) -> list[str]:
        return [field.name for field in token.__attrs_attrs__] if hasattr(token, "__attrs_attrs__") else token._fields

    def keep(*arguments: Any) -> Any:
        token = issued(*arguments)
        database.tokens[TOKEN] = token
        return token

    monkeypatch.setattr(database, "issue_token", keep)
    assert account.password == PASSWORD


_SOCKETS = ("stall", "reset_after_send", "truncated_length", "garbage_status", "html_200", "nan", "redirect")


@pytest.mark.parametrize("kind", list(Kind))
async def test_the_faults_of_a_network(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets are in use, and all loggers are at DEBUG, also those of the HTTP library."""
    sandbox = stocked(Sandbox())
    canaries(sandbox, monkeypatch)
    with Catch() as catch:
        async with serve_tcp(sandbox.exchange) as face:
            for name in _SOCKETS:
                async with watched(catch, None, face.url) as exchange:
                    sandbox.strike(*FAULTS[name](path=kind.value, times=3))
                    await exercise(catch, exchange)
                    sandbox.exchange.faults.clear()
    assert catch.hits() == []
    assert any(what == "log of httpcore.http11" for what, _ in catch.texts)
    assert sandbox.audit_log.logins[-1].accepted


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_http_2_shows_no_secret(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = stocked(Sandbox())
    canaries(sandbox, monkeypatch)
    with Catch() as catch:
        async with serve_h2(sandbox.exchange) as (url, trusting):
            http_client = library.AsyncClient(trust_env=False, http2=True, verify=trusting)
            async with http_client, watched(catch, http_client, url) as exchange:
                await exercise(catch, exchange)
                sandbox.strike(*FAULTS["reset_after_send"](times=3))
                await exercise(catch, exchange)
    assert catch.hits() == []
    assert any(what == f"log of {library.__name__.replace('httpx', 'httpcore')}.http2" for what, _ in catch.texts)
    assert any(call.path == Kind.WRITE.value and call.processed for call in sandbox.audit_log.calls)


_ECHO = base64.b64encode(f"me:{PROXY_PASSWORD}".encode()).decode()
_PROXY_HEADERS = (
    f"Proxy-Authenticate: Basic realm={PROXY_PASSWORD}\r\nX-Got: Basic {_ECHO}\r\nContent-Length: 0\r\n\r\n"
)
PROXY_ANSWERS = {
    "connects": [],
    "407": [f"HTTP/1.1 407 not me:{PROXY_PASSWORD}\r\n{_PROXY_HEADERS}"],
    "502": [f"HTTP/1.1 502 {_ECHO}\r\n{_PROXY_HEADERS}"] * 30,
    "200_without_tls": [f"HTTP/1.1 200 {_ECHO}\r\n{_PROXY_HEADERS}{_ECHO}{PROXY_PASSWORD}"] * 30,
    "garbage": [f"{_ECHO} {PROXY_PASSWORD}\r\n\r\n"] * 30,
}


@pytest.mark.parametrize("answer", [*PROXY_ANSWERS, "refused"])
async def test_the_password_of_a_proxy(answer: str) -> None:
    """All loggers are at DEBUG, and the proxy echoes the password."""
    server_side, client_side = trust()

    async def fine(_: Server, stream: ByteStream, __: bytes) -> bool:
        await stream.send(raw_reply({"raterequests": []}))
        return True

    answers = [text.encode() for text in PROXY_ANSWERS.get(answer, [])]
    with Catch() as catch:
        async with (
            serving(fine, server_side) as server,
            proxying(*answers, user=f"me:{_QUOTED}") as proxy,
        ):
            if answer == "refused":
                proxy.stops.set()
                await proxy.stopped.wait()
            async with watched(catch, None, server.url, proxy=proxy.url, verify=client_side) as exchange:
                await exercise(catch, exchange)
            # What the proxy itself received is the test's own.
            assert answer == "refused" or _ECHO.encode() in proxy.requests[0]
            proxy.requests.clear()
            proxy.url = ""
    hits = [hit for hit in catch.hits() if "answers" not in hit]
    assert hits == []
    assert len(catch.texts) > 50


@pytest.mark.parametrize(
    "credentials",
    [
        ("a", PASSWORD, "more"),
        [EMAIL, PASSWORD],
        (EMAIL, PASSWORD.encode()),
        (EMAIL, f"{PASSWORD}\ud800"),
        PASSWORD,
        None,
    ],
    ids=lambda credentials: type(credentials).__name__,
)
async def test_wrong_credentials_from_a_provider(credentials: Any) -> None:
    async def provider() -> Any:
        return credentials

    with Catch() as catch:
        async with FreightExchange("https://exchange.invalid/api", credentials=provider) as exchange:
            with pytest.raises(FreightExchangeError) as caught:
                await exchange.login()
            catch.error(caught.value.with_traceback(None))
            catch.reachable(exchange._shared)
    assert catch.hits() == []


@pytest.mark.parametrize("value", ["€", "a\nb", "a\r\nAuthorization: x"])
async def test_a_header_that_cannot_be_sent(value: str) -> None:
    """A middleware sets an invalid header next to the token."""

    async def mistaken(request: Request, call_next: Next) -> Response:
        return await call_next(request.with_header("x-note", value))

    sandbox = stocked(Sandbox())
    with Catch() as catch:
        async with serve_tcp(sandbox.exchange) as face:
            account = sandbox.exchange.add_account(EMAIL, PASSWORD)
            async with FreightExchange(
                face.url, email=account.email, password=PASSWORD, middleware=[mistaken], hooks=[]
            ) as exchange:
                for act in (exchange.login, lambda: exchange.requests.get(2)):
                    with pytest.raises(FreightExchangeError) as caught:
                        await act()
                    catch.error(caught.value)
    assert catch.hits() == []


async def test_a_login_that_repeats_its_token_elsewhere_does_not_show_it() -> None:
    token = "tok.canary.4711"  # no real one
    user = {"access_token": token, "session": {"id": [token]}, "imageUrl": f"https://x.example/?t={token}"}
    user["company"] = {"name": "Co", "key": token}

    def reply(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"user": user | {"email": "p@co.example", "pw": "p"}})

    client = httpx.AsyncClient(transport=httpx.MockTransport(reply))
    async with FreightExchange("http://127.0.0.1/api", email="p@co.example", password="p", http_client=client) as fx:
        found = await fx.login()
    assert token not in repr(found)
    assert token.encode() not in pickle.dumps(found)
    assert found.email == "p@co.example"
