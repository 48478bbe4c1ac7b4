"""The service's `Retry-After`, kept for every call of a client."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import RateLimitedError
from freight_exchange.platform import clock
from freight_exchange.transport.message import Kind
from freight_exchange.transport.retry_after import LONGEST_HONOURED, retry_after, spoken

if TYPE_CHECKING:
    from freight_exchange.transport.message import Next, Request, Response

__all__ = ["Throttle"]

_LONGEST_WAIT = 120.0
"""Seconds that a call waits for the end of the quiet time, if its deadline allows it; else it fails without sending."""


class Throttle:
    """Middleware that sends no read and no login before the time that the service asked for.

    A 429 or 503 with `Retry-After` holds back every read and login of the client, whichever call received it, for an
    hour at most. Writes are sent all the same: they are the user's own, and their retries heed the header themselves.
    The reply to a login holds back logins only, which `Holdback` does.
    """

    __slots__ = ("_status", "_until")

    def __init__(self) -> None:
        self._until = -math.inf
        self._status = 429

    async def __call__(self, request: Request, call_next: Next) -> Response:
        if request.kind is not Kind.WRITE:
            await self._wait(request)
        response = await call_next(request)
        if response.status in (429, 503) and request.kind is not Kind.LOGIN:
            asked = retry_after(response.header("retry-after"), wall=clock.wall_time())
            if asked is not None:
                self._until = max(self._until, anyio.current_time() + min(asked, LONGEST_HONOURED))
                self._status = response.status
        return response

    async def _wait(self, request: Request) -> None:
        while (left := self._until - anyio.current_time()) > 0:
            if left > min(_LONGEST_WAIT, request.ends_at - anyio.current_time()):
                error = RateLimitedError(
                    f"nothing was sent: the service asked to wait, {spoken(left)} more",
                    retry_after=left,
                    method=request.method,
                    path=request.path,
                    status=self._status,
                )
                error.settled = True
                raise error
            await anyio.sleep(left)
