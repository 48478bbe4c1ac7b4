"""Shared helpers: clients of the sandbox, a call of each kind with its outcome, and services that reply by a script."""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import httpx
import respx

from freight_exchange import FreightExchange, FreightExchangeError, Request, Response, RetryPolicy, Timeouts
from freight_exchange.hooks import Attempt, Event
from freight_exchange.testing import FAULTS, Cargo, Sandbox
from freight_sandbox.server import serve

if TYPE_CHECKING:
    import ssl

QUICK = Timeouts(connect=0.2, read=0.2, write=0.2)
BRISK = RetryPolicy(base=0.001, cap=0.002)
ONCE = RetryPolicy(attempts=1)
REQUEST = 2
"""Request that the tests read and offer on: neither the newest nor the oldest, which some faults change."""

URL = "https://exchange.example/api"
EMAIL, PASSWORD, TOKEN = "me@co.example", "password-of-me", "token-of-me"
LOGGED_IN = {"user": {"access_token": TOKEN, "expires_on": 3600, "firstname": "A", "email": EMAIL}}
BID = {"bid": {"index": REQUEST, "offer": {"index": 9, "offerAmount": 1840.5, "currencyIndex": 840}}}
FOUND = {"raterequests": {"0": {"index": REQUEST}}}

Next = Callable[[Request], Awaitable[Response]]


class Kind(enum.Enum):
    """Kinds of calls, by the effect of a repeat; the value is the path."""

    READ = "quote/getrequests"
    LOGIN = "login"
    WRITE = "quote/submitoffer"


class CallResult(NamedTuple):
    """Result of a call: `ok` or the name of its error, and how many calls the exchange received and carried out."""

    outcome: str
    received: int
    processed: int


class Face(Protocol):
    """Sandbox on a socket, with counters."""

    url: str
    connections: int
    open_connections: int
    requests: int


def stocked(sandbox: Sandbox | None = None) -> Sandbox:
    """Publish three requests, and return the sandbox."""
    sandbox = Sandbox() if sandbox is None else sandbox
    for origin in ("Hong Kong", "Ningbo", "Busan"):
        sandbox.publish(Cargo(origin=origin))
    return sandbox


def client(sandbox: Sandbox, account: Any = None, **options: Any) -> FreightExchange:
    """Create a client of an account, default the forwarder, in this process."""
    return sandbox.client(account, **options)


def patient(sandbox: Sandbox, account: Any = None, *, url: str = Sandbox.url, **options: Any) -> FreightExchange:
    """Create a client of an account over sockets, or through a caller's `http_client`."""
    holder = sandbox.forwarder if account is None else account
    return FreightExchange(url, email=holder.email, password=holder.password, **options)


@contextlib.asynccontextmanager
async def served(sandbox: Sandbox, tls: ssl.SSLContext | None = None) -> AsyncIterator[Face]:
    """Serve the sandbox on a free port of this machine."""
    async with serve(sandbox.exchange, tls=tls) as face:
        yield face


@contextlib.asynccontextmanager
async def over_sockets(sandbox: Sandbox, **options: Any) -> AsyncIterator[tuple[Face, FreightExchange]]:
    """Serve the sandbox, and yield an entered client with the SDK's own connections."""
    settings = {"retries": BRISK, **options}
    async with served(sandbox) as face, patient(sandbox, url=face.url, **settings) as exchange:
        yield face, exchange


async def unkept(request: Request, call_next: Next) -> Response:
    """Middleware that keeps no connection, so that each request may fail to connect."""
    return await call_next(request.with_header("Connection", "close"))


def arm(sandbox: Sandbox, name: str, kind: Kind, **options: Any) -> None:
    """Have a fault of the catalogue strike calls of a kind."""
    sandbox.strike(*FAULTS[name](path=kind.value, **options))


async def perform(exchange: FreightExchange, kind: Kind) -> object:
    """Make one call of a kind, which is one request without faults."""
    if kind is Kind.LOGIN:
        return await exchange.login()
    if kind is Kind.READ:
        return await exchange.requests.get(REQUEST)
    return await exchange.bids.submit(REQUEST, amount="1840.50", currency=840)


async def outcome(exchange: FreightExchange, kind: Kind) -> str:
    """Make one call, and return `ok` or the name of its error."""
    try:
        await perform(exchange, kind)
    except FreightExchangeError as error:
        return type(error).__name__
    return "ok"


async def call_result(sandbox: Sandbox, exchange: FreightExchange, kind: Kind) -> CallResult:
    """Make one call, and return its result at the client and at the exchange."""
    before = len(sandbox.audit_log.calls)
    result = await outcome(exchange, kind)
    calls = [call for call in sandbox.audit_log.calls[before:] if call.path == kind.value]
    return CallResult(result, len(calls), sum(call.processed for call in calls))


def logins(sandbox: Sandbox) -> int:
    return len(sandbox.audit_log.calls_to("POST", "login"))


def attempts(events: Sequence[Event], kind: Kind) -> list[Attempt]:
    """Return the attempts of calls of a kind among the records of a hook."""
    return [event for event in events if isinstance(event, Attempt) and event.path == kind.value]


def is_on_asyncio() -> bool:
    """Return whether the running event loop is one of asyncio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


Answer = httpx.Response | Exception | Callable[[httpx.Request], Any]


class Script:
    """Service behind the SDK's own connections: it replies by a script, and then repeats its last reply."""

    def __init__(self, router: respx.MockRouter, answers: Sequence[Answer], logged_in: Answer) -> None:
        self.answers = list(answers)
        self.logged_in = logged_in
        self.requests: list[httpx.Request] = []
        """Requests other than logins."""
        self.logins: list[httpx.Request] = []
        router.post("/login").mock(side_effect=self._log_in)
        router.route().mock(side_effect=self._answer)

    def _log_in(self, request: httpx.Request) -> Any:
        self.logins.append(request)
        return _given(self.logged_in, request)

    def _answer(self, request: httpx.Request) -> Any:
        self.requests.append(request)
        return _given(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0], request)


def _given(answer: Answer, request: httpx.Request) -> Any:
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, httpx.Response):
        # A stream is read once, so each request gets its own.
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
    return answer(request)


def reply(status: int = 200, body: object = None, headers: dict[str, str] | None = None) -> httpx.Response:
    """Make a reply; bytes are sent as they are, anything else as JSON."""
    if isinstance(body, bytes):
        return httpx.Response(status, content=body, headers=headers)
    return httpx.Response(status, json={} if body is None else body, headers=headers)


@contextlib.contextmanager
def scripted(*answers: Answer, login: Answer | None = None) -> Iterator[Script]:
    """Answer all requests in place of the network."""
    with respx.mock(base_url=URL, assert_all_called=False) as router:
        yield Script(router, answers, reply(200, LOGGED_IN) if login is None else login)


def stranger(**options: Any) -> FreightExchange:
    """Create a client of the scripted service, with the SDK's own connections."""
    return FreightExchange(URL, email=EMAIL, password=PASSWORD, **options)
