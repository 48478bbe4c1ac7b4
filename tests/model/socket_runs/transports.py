"""HTTP clients of the runs, and their shared certificates."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import httpx
import httpx2
import trustme
from httpx_aiohttp import AiohttpTransport
from tests.model.socket_runs.plan import Transport

__all__ = ["client_context", "http_client", "server_context"]


@cache
def _authority() -> trustme.CA:
    return trustme.CA()


@cache
def _server_context(protocol: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols([protocol])
    _authority().issue_cert("127.0.0.1").configure_cert(context)
    return context


def server_context(transport: Transport) -> ssl.SSLContext:
    return _server_context("h2" if transport == "http2" else "http/1.1")


@cache
def client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    _authority().configure_trust(context)
    return context


@contextlib.asynccontextmanager
async def http_client(transport: Transport, *, tls: bool) -> AsyncIterator[Any]:
    """Create the caller's HTTP client of a run, or `None` where the SDK uses its own connections."""
    match transport:
        case "own":
            yield None
        case "httpx":
            async with httpx.AsyncClient(trust_env=False, verify=client_context()) as client:
                yield client
        case "httpx2":
            async with httpx2.AsyncClient(trust_env=False, verify=client_context()) as client:
                yield client
        case "aiohttp":
            adapter = AiohttpTransport(trust_env=False, verify=client_context())
            async with httpx.AsyncClient(trust_env=False, transport=adapter) as client:
                yield client
        case "http2":
            # Without TLS, which would agree on it, HTTP/2 has to be the only choice.
            async with httpx.AsyncClient(trust_env=False, verify=client_context(), http1=tls, http2=True) as client:
                yield client
