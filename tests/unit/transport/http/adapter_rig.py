"""Adapter over a simulated transport of either HTTP library."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import httpx
import httpx2

from freight_exchange.options import Timeouts
from freight_exchange.transport.http import adapter
from freight_exchange.transport.message import Request, RequestKind, Response

__all__ = ["BASE", "CANARY", "LIBRARIES", "LOOPBACK", "network", "network_over", "received", "request", "sent"]

BASE = "https://host.example/api"
LOOPBACK = "http://127.0.0.1/api"
CANARY = "c4nary-t0ken"
LIBRARIES = [httpx, httpx2]


def request(kind: RequestKind = RequestKind.READ, **changes: Any) -> Request:
    values: dict[str, Any] = {"method": "GET", "path": "quote/offer", "kind": kind, "timeouts": Timeouts(), **changes}
    return Request(**values)


def network(library: ModuleType, handler: Callable[[Any], Any], base: str = BASE) -> adapter.Network:
    return network_over(library.AsyncClient(transport=library.MockTransport(handler)), library, base)


def network_over(client: Any, library: ModuleType, base: str = BASE) -> adapter.Network:
    return adapter.Network(base, adapter.client_sender(client), adapter.client_sender(client), library)


async def sent(library: ModuleType, request: Request, base: str = BASE) -> Any:
    seen = []

    def handler(native: Any) -> Any:
        seen.append(native)
        return library.Response(200, json={})

    await network(library, handler, base)(request)
    return seen[0]


async def received(library: ModuleType, *arguments: Any, **values: Any) -> Response:
    return await network(library, lambda _: library.Response(*arguments, **values))(request())
