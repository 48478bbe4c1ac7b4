"""Throttle: the service's `Retry-After` applies to every call of a client."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import RateLimitedError
from freight_exchange.platform import clock
from freight_exchange.transport.message import RequestKind
from freight_exchange.transport.rules.retry_after import MAX_HONOURED, format_seconds, retry_after

if TYPE_CHECKING:
    from freight_exchange.transport.message import Next, Request, Response

__all__ = ["Throttle"]

_MAX_WAIT = 120.0
"""Longest wait of a call in seconds. A call that would wait longer, or past its deadline, fails without sending."""


class Throttle:
    """Middleware that delays reads and logins until the time that the service asked for.

    A 429 or 503 with `Retry-After` delays all reads and logins of the client, for at most an hour. Writes are not
    delayed, since the user ordered them; their retries have waits of their own. The reply to a login delays logins
    only, in `LoginBackoff`.
    """

    __slots__ = ("_status", "_until")

    def __init__(self) -> None:
        self._until = -math.inf
        self._status = 429

    async def __call__(self, request: Request, call_next: Next) -> Response:
        if request.kind is not RequestKind.WRITE:
            await self._wait(request)
        response = await call_next(request)
        if response.status in (429, 503) and request.kind is not RequestKind.LOGIN:
            delay = retry_after(response.header("retry-after"), wall=clock.wall_time())
            if delay is not None:
                self._until = max(self._until, anyio.current_time() + min(delay, MAX_HONOURED))
                self._status = response.status
        return response

    async def _wait(self, request: Request) -> None:
        while (remaining := self._until - anyio.current_time()) > 0:
            if remaining > min(_MAX_WAIT, request.ends_at - anyio.current_time()):
                error = RateLimitedError(
                    f"nothing was sent: the service asked to wait, {format_seconds(remaining)} more",
                    retry_after=remaining,
                    method=request.method,
                    path=request.path,
                    status=self._status,
                )
                error.settled = True
                raise error
            await anyio.sleep(remaining)
