"""Middleware around a sender."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from freight_exchange.errors import ConfigurationError
from freight_exchange.transport.message import Kind

if TYPE_CHECKING:
    from freight_exchange.transport.message import Middleware, Next, Request, Response

__all__ = ["chain", "once_for_writes"]


def chain(middleware: Sequence[Middleware], send: Next) -> Next:
    """`send` with the middleware around it, the first outermost."""
    for layer in reversed(middleware):
        send = _around(layer, send)
    return send


def _around(layer: Middleware, call_next: Next) -> Next:
    async def call(request: Request) -> Response:
        return await layer(request, call_next)

    return call


def once_for_writes(layer: Middleware) -> Middleware:
    """A user's middleware, held to sending a write at most once."""

    async def guarded(request: Request, call_next: Next) -> Response:
        if request.kind is not Kind.WRITE:
            return await layer(request, call_next)
        sent = False

        async def send_once(request: Request) -> Response:
            nonlocal sent
            if sent:
                raise ConfigurationError("a middleware may send a write only once: a second time could do it twice")
            sent = True
            return await call_next(request)

        return await layer(request, send_once)

    return guarded
