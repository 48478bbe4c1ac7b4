"""Timing of writes: their usual latency, and a check before the first byte that enough time is left."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import DeadlineExceededError, TransportError
from freight_exchange.transport.message import AbandonedError, RequestKind

if TYPE_CHECKING:
    from freight_exchange.transport.message import Next, Request, Response

__all__ = ["WriteLatency", "WriteTiming", "too_late_error"]

_SAMPLE_SIZE = 20
"""Number of writes in the sample. Its ninth decile ignores a single slow one."""

_MARGIN = 1.5
"""Factor on the usual latency: with exactly the usual time left, the outcome of a write would often be unknown."""

_MIN_LATENCY = 0.1
"""Minimum time for a write in seconds, also before any latency is known."""

_MAX_SHARE = 0.5
"""Largest part of a call's deadline that a write may need, so that a call that has not waited is always sent."""


class WriteTiming:
    """Middleware that measures the latency of writes, and refuses a write whose connection is ready too late.

    Raises:
        DeadlineExceededError: Right before the first byte, less time was left than writes usually take.
    """

    __slots__ = ("_latency",)

    def __init__(self, latency: WriteLatency) -> None:
        self._latency = latency

    async def __call__(self, request: Request, call_next: Next) -> Response:
        if request.kind is not RequestKind.WRITE:
            return await call_next(request)
        started = anyio.current_time()
        first_byte = _FirstByteCheck(request, self._latency)
        try:
            try:
                return await call_next(request)
            finally:
                if request.progress.may_have_begun:
                    self._latency.observe(anyio.current_time() - (first_byte.at or started))
        except TransportError as failure:
            # A stopped transport may have tried another connection: its error must state that nothing was sent.
            if first_byte.refusal is None or not failure.unsent:
                raise
            refusal = first_byte.refusal
            # Stopped right before its first byte, which proves that nothing was sent.
            request.progress.reset()
            refusal.attempts = failure.attempts
        raise refusal


class _FirstByteCheck:
    """Check right before the first byte of a write that enough time is left."""

    __slots__ = ("_latency", "_request", "at", "refusal")

    def __init__(self, request: Request, latency: WriteLatency) -> None:
        self.at: float | None = None
        self.refusal: DeadlineExceededError | None = None
        self._request = request
        self._latency = latency
        request.progress.before_first_byte = self._check

    def _check(self) -> None:
        now = anyio.current_time()
        remaining, needed = self._request.ends_at - now, self._latency.needed(self._request.deadline)
        if remaining < needed:
            self.refusal = too_late_error(" when its connection was ready", remaining, needed, "raise the deadline")
            raise AbandonedError
        self.at = now


class WriteLatency:
    """Latency of the last 20 writes: seconds from the first byte to the end of the reply."""

    __slots__ = ("_recent", "usual")

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=_SAMPLE_SIZE)
        self.usual = 0.0
        """The ninth decile, in seconds; 0 before the first write."""

    def observe(self, seconds: float) -> None:
        """Record the latency of a write, successful or not."""
        self._recent.append(seconds)
        self.usual = sorted(self._recent)[len(self._recent) * 9 // 10]

    def needed(self, deadline: float) -> float:
        """Return the seconds of a call's `deadline` that must remain when its first byte is sent."""
        return min(max(_MIN_LATENCY, _MARGIN * self.usual), _MAX_SHARE * deadline)


def too_late_error(moment: str, remaining: float, needed: float, advice: str) -> DeadlineExceededError:
    """Return the error for a write that was not sent, as too little time was left.

    `moment` says when, with a leading space, or is empty.
    """
    return DeadlineExceededError(
        f"the write was not sent: {max(remaining, 0.0):.2f} s of its deadline remained{moment}, and writes need"
        f" {needed:.2f} s here; nothing took effect; {advice}"
    )
