"""Limits of a client: requests in flight, and the pace that the service asks for."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import DeadlineExceededError, RateLimitedError
from freight_exchange.transport.retry import MAX_HONOURED, MAX_WAIT, format_seconds, retry_after

if TYPE_CHECKING:
    from freight_exchange.transport.call import Call, Request, Response, Send

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class Brake:
    """Middleware that holds all calls of a client while the service asks for fewer.

    After a 429, or a 503 with `Retry-After`, no call is sent until the time that the service asked for, or without one
    for a pause that doubles from one second to a minute. Then one call goes first as a probe. When the service has
    accepted it, the others follow.
    """

    def __init__(self) -> None:
        self._until = -math.inf
        self._pause = 0.0
        self._status = 429
        self._probe = anyio.Lock()

    async def __call__(self, call: Call, request: Request, call_next: Send) -> Response:
        if not self._pause:
            return self._observed(await call_next(call, request))
        await self._wait(call, self._until - anyio.current_time())
        async with self._probe:
            if self._pause:
                await self._wait(call, self._until - anyio.current_time())
                return self._observed(await call_next(call, request))
        return self._observed(await call_next(call, request))

    def _observed(self, response: Response) -> Response:
        wait = retry_after(response)
        if response.status == 429 or (response.status == 503 and wait is not None):
            self._pause = min(_LONGEST_PAUSE, max(_FIRST_PAUSE, 2 * self._pause))
            # With jitter, or all clients would come back in the same second.
            delay = self._pause * random.uniform(0.5, 1.0) if wait is None else min(wait, MAX_HONOURED)
            self._until = max(self._until, anyio.current_time() + delay)
            self._status = response.status
        elif response.status < 500:
            self._pause = 0.0
        return response

    async def _wait(self, call: Call, seconds: float) -> None:
        if seconds > 0 and seconds > min(MAX_WAIT, call.latest_start - anyio.current_time()):
            raise RateLimitedError(
                f"nothing was sent: the service asked for fewer calls; the next is sent in {format_seconds(seconds)}",
                retry_after=seconds,
                method=call.method,
                path=call.path,
                status=self._status,
                settled=True,
            )
        await anyio.sleep(max(0.0, seconds))


class Slots:
    """Middleware that bounds the requests in flight.

    A write is sent only while a quarter of its deadline is left: later, its outcome would probably be unknown.
    """

    def __init__(self, size: int, what: str, option: str) -> None:
        self._slots = anyio.Semaphore(size, fast_acquire=True)
        self._name = f"one of {size} {what}"
        self._option = option

    async def __call__(self, call: Call, request: Request, call_next: Send) -> Response:
        if call.is_late():
            raise _too_late(call)
        try:
            self._slots.acquire_nowait()
        except anyio.WouldBlock:
            call.queue = f" in the queue for {self._name}: raise {self._option} or the deadline"
            with anyio.CancelScope(deadline=call.latest_start):
                await self._slots.acquire()
                call.queue = ""
            if call.queue:
                raise _too_late(call) from None
        try:
            return await call_next(call, request)
        finally:
            self._slots.release()


def _too_late(call: Call) -> DeadlineExceededError:
    remaining = max(call.ends_at - anyio.current_time(), 0.0)
    return DeadlineExceededError(
        f"the call was not sent: {remaining:.2f} s of its deadline of {call.limits.deadline:g} s"
        f" remained{call.queue}; nothing took effect"
    )
