"""Guard around the middleware of users."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from freight_exchange.errors import ConfigurationError, TransportError
from freight_exchange.transport.message import Kind, Response

if TYPE_CHECKING:
    from freight_exchange.transport.message import Middleware, Next, Request

__all__ = ["guarded"]


def guarded(layer: Middleware) -> Middleware:
    """A user's middleware, which cannot make a request count for another, and sends a write at most once.

    Nor can it answer for a write: one that was sent without a reply, or is still being sent, is in doubt.
    """

    async def guard(request: Request, call_next: Next) -> Response:
        spent = under_way = replied = False

        async def send(changed: Request) -> Response:
            nonlocal spent, under_way, replied
            if spent and request.kind is Kind.WRITE:
                raise ConfigurationError(
                    "a middleware may send a write only once, and before it returns: a second time could do it twice"
                )
            spent = under_way = True
            try:
                response = await call_next(changed if changed is request else changed.in_place_of(request))
            finally:
                under_way = False
            replied = True
            return response

        try:
            answer: object = layer(request, send)
            response = await answer if isinstance(answer, Awaitable) else answer
        except Exception as error:
            if under_way and request.kind is Kind.WRITE:
                raise TransportError(f"the middleware {_name(layer)} failed and left a write on its way") from error
            raise
        finally:
            spent = True
        if not isinstance(response, Response):
            raise ConfigurationError(
                f"the middleware {_name(layer)} must be async and return a Response, not {type(response).__name__}"
            )
        if request.kind is Kind.WRITE and not replied and (under_way or request.progress.may_have_begun):
            raise TransportError(f"the middleware {_name(layer)} answered for a write that has no reply")
        return response

    return guard


def _name(layer: Middleware) -> str:
    return str(getattr(layer, "__qualname__", type(layer).__qualname__))
