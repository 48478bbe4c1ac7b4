"""Shared helpers: a call of each kind, its outcome, and what the exchange received."""

from __future__ import annotations

import asyncio
import enum
from typing import Any, NamedTuple

import httpx

from freight_exchange import FreightExchange, FreightExchangeError, RetryPolicy, Timeouts
from freight_exchange.testing import FAULTS, Cargo, Sandbox

__all__ = [
    "BRISK",
    "QUICK",
    "REQUEST",
    "CallResult",
    "Kind",
    "arm",
    "call_result",
    "is_on_asyncio",
    "outcome",
    "patient",
    "perform",
    "stocked",
    "unkept",
]

QUICK = Timeouts(connect=0.2, read=0.2, write=0.2)
BRISK = RetryPolicy(base=0.001, cap=0.002)
REQUEST = 2
"""Request that the tests read and offer on: neither the newest nor the oldest, which some faults change."""


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


def stocked(sandbox: Sandbox) -> Sandbox:
    """Publish three requests, and return the sandbox."""
    for origin in ("Hong Kong", "Ningbo", "Busan"):
        sandbox.publish(Cargo(origin=origin))
    return sandbox


def patient(sandbox: Sandbox, **options: Any) -> FreightExchange:
    """Create a forwarder's client; `url` may name another server."""
    account = sandbox.forwarder
    url = options.pop("url", sandbox.url)
    return FreightExchange(url, email=account.email, password=account.password, **options)


def unkept(sandbox: Sandbox) -> httpx.AsyncClient:
    """Create an HTTP client to the sandbox that opens a connection for each request, so that each may fail."""
    unkeeping = sandbox.transport(limits=httpx.Limits(max_keepalive_connections=0))
    return httpx.AsyncClient(transport=unkeeping, trust_env=False)


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
    try:
        await perform(exchange, kind)
    except FreightExchangeError as error:
        return type(error).__name__
    return "ok"


async def call_result(sandbox: Sandbox, exchange: FreightExchange, kind: Kind) -> CallResult:
    """Perform a call, and return its result at the client and at the exchange."""
    before = len(sandbox.audit_log.calls)
    result = await outcome(exchange, kind)
    calls = [call for call in sandbox.audit_log.calls[before:] if call.path == kind.value]
    return CallResult(result, len(calls), sum(call.processed for call in calls))


def is_on_asyncio() -> bool:
    """Return whether the running event loop is one of asyncio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
