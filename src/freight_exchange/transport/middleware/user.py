"""Guard around the middleware of users."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from freight_exchange.errors import ConfigurationError, TransportError
from freight_exchange.transport.message import RequestKind, Response

if TYPE_CHECKING:
    from freight_exchange.transport.message import Middleware, Next, Request

__all__ = ["guard_middleware"]


def guard_middleware(layer: Middleware) -> Middleware:
    """Wrap a user's middleware, so that it sends a write at most once, and cannot replace it with another request.

    It cannot return a response of its own for a write without a reply: the outcome of that write is unknown.
    """

    async def guard(request: Request, call_next: Next) -> Response:
        was_sent = in_flight = replied = False

        async def send(changed: Request) -> Response:
            nonlocal was_sent, in_flight, replied
            if was_sent and request.kind is RequestKind.WRITE:
                raise ConfigurationError(
                    "a middleware may send a write only once, and before it returns: a second time could do it twice"
                )
            was_sent = in_flight = True
            try:
                response = await call_next(changed if changed is request else changed.in_place_of(request))
            finally:
                in_flight = False
            replied = True
            return response

        try:
            answer: object = layer(request, send)
            response = await answer if isinstance(answer, Awaitable) else answer
        except Exception as error:
            if in_flight and request.kind is RequestKind.WRITE:
                raise TransportError(f"the middleware {_name(layer)} failed and left a write in flight") from error
            raise
        finally:
            # After the middleware has returned, a task of it cannot send the write any more.
            was_sent = True
        if not isinstance(response, Response):
            raise ConfigurationError(
                f"the middleware {_name(layer)} must be async and return a Response, not {type(response).__name__}"
            )
        if request.kind is RequestKind.WRITE and not replied and (in_flight or request.progress.may_have_begun):
            raise TransportError(f"the middleware {_name(layer)} answered for a write that has no reply")
        return response

    return guard


def _name(layer: Middleware) -> str:
    return str(getattr(layer, "__qualname__", type(layer).__qualname__))
