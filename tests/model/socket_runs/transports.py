"""The HTTP clients that runs are made over, and the certificates that all of them share."""

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
def _contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


def server_context() -> ssl.SSLContext:
    return _contexts()[0]


def client_context() -> ssl.SSLContext:
    return _contexts()[1]


@contextlib.asynccontextmanager
async def http_client(transport: Transport) -> AsyncIterator[Any]:
    """The caller's HTTP client of a run; `None` where the SDK uses its own connections."""
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
