"""Limits on the requests under way, each of which is sent in a task that no caller can interrupt."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import ConfigurationError, DeadlineExceededError, FreightExchangeError, TransportError
from freight_exchange.transport.background import TaskCancelledError
from freight_exchange.transport.message import AbandonedError, Kind
from freight_exchange.transport.middleware.tracing import Tracing

if TYPE_CHECKING:
    from freight_exchange.hooks import Hooks
    from freight_exchange.transport.background import BackgroundTask, BackgroundTasks
    from freight_exchange.transport.message import Next, Request, Response
    from freight_exchange.transport.secrets import Redactor

__all__ = ["LENT", "Limiter"]

LENT = 2
"""Connections for each write that may be under way: one more, for a write whose caller was cancelled."""

_GRACE = 1.0
"""Seconds after its caller was cancelled for which a write that has begun still counts as under way."""

_REMEMBERED = 20
"""Writes that are remembered. With nine in ten of them covered, one that stalled does not count."""

_MARGIN = 1.5
"""Times the usual latency: a write that is given exactly the usual time ends in doubt as often as not."""

_FLOOR = 0.1
"""Seconds: the least that a write is given, also before any latency is known."""

_LARGEST_SHARE = 0.5
"""The largest part of a call's deadline that is asked for: a call that did not wait for anything is always sent."""


class Limiter:
    """Bounds the requests under way; each is sent in a job of the client, so that no caller can interrupt it.

    - The HTTP library's pool loses a connection for good when a caller that waits for one is cancelled. Callers wait
      here and not in the pool: a cancelled one leaves at once, while its job ends in its own time.
    - Writes have a limit of their own. A write that would leave with less time than writes usually take is refused
      while nothing of it has left: it would end in doubt.
    - A write whose caller was cancelled goes on, but counts towards that limit for a second only. Its connection stays
      its own: there are twice as many for writes as `writes`, or as many as `reads` where both kinds share them.
    """

    def __init__(
        self, tasks: BackgroundTasks, hooks: Hooks, redactor: Redactor, *, reads: int, writes: int, shared: bool = False
    ) -> None:
        """`shared` says that writes use the same connections as reads."""
        self._tasks = tasks
        self._tracing = Tracing(hooks, redactor)
        self._reads = _Queue(reads, f"one of {reads} connections", "max_connections")
        self._writes = _Queue(writes, f"one of {writes} places for writes", "max_writes")
        spare = LENT * writes
        self._write_connections = (
            self._reads if shared else _Queue(spare, f"one of {spare} connections for writes", "max_writes")
        )
        self._latency = WriteLatency()

    async def __call__(self, request: Request, call_next: Next) -> Response:
        place = await self._place(request)
        try:
            task = self._tasks.start(lambda: self._send(request, call_next, place), place.free)
        except ConfigurationError:
            place.free()
            raise
        try:
            return await task.wait()
        except TaskCancelledError:
            closed = TransportError(
                "the client was closed while the call was under way",
                permanent=True,
                unsent=not request.progress.may_have_begun,
            )
        finally:
            if not task.is_finished:
                request.progress.abandon()
                # A write that has begun is not cut off: that would turn one that happens into one that may.
                whole = request.kind is Kind.WRITE and request.progress.may_have_begun
                task.cancel(request.ends_at if whole else None)
                if whole:
                    place.lend_after(_GRACE, self._tasks)
        raise closed

    async def _place(self, request: Request) -> _Place:
        """Wait for a place; `DeadlineExceededError` for a write that would be sent too late."""
        place = _Place()
        if request.kind is not Kind.WRITE:
            await place.take(self._reads, request)
            return place
        began = anyio.current_time()
        for queue in (self._writes, self._write_connections):
            needed = self._latency.needed(request.deadline)
            try:
                with anyio.CancelScope(deadline=request.ends_at - needed) as scope:
                    await place.take(queue, request)
            except BaseException:
                place.free()
                raise
            now = anyio.current_time()
            left = request.ends_at - now
            needed = self._latency.needed(request.deadline)
            if scope.cancelled_caught or left < needed:
                place.free()
                waited, advice = "", "raise the deadline"
                if now > began:
                    waited = f" after {now - began:.2f} s of waiting for {queue.name} ({queue.waiting} more waiting)"
                    advice = f"raise {queue.option} or the deadline"
                raise _too_late(waited, left, needed, advice)
        return place

    async def _send(self, request: Request, call_next: Next, place: _Place) -> Response:
        started = anyio.current_time()
        first_byte = _FirstByte(request, self._latency)
        try:
            try:
                response = await self._tracing.send(request, call_next)
            finally:
                if request.kind is Kind.WRITE and request.progress.may_have_begun:
                    self._latency.observe(anyio.current_time() - (first_byte.at or started))
        except FreightExchangeError as failure:
            place.free()
            error: FreightExchangeError = failure
            # A transport that was stopped may have turned to another way: its failure has to say that it did not.
            if first_byte.refusal is not None and isinstance(failure, TransportError) and failure.unsent:
                error = first_byte.refusal
                # Stopped here, right before its first byte: that is the proof.
                request.progress.reset()
                error.attempts = failure.attempts
            await self._tracing.failed(request, started, error)
            if error is failure:
                raise
        except anyio.get_cancelled_exc_class():
            place.free()
            await self._tracing.cut_off(request, started)
            raise
        else:
            request.progress.reply = response
            place.free()
            await self._tracing.replied(request, started, response)
            return response
        raise error


def _too_late(when: str, left: float, needed: float, advice: str) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"the write was not sent: {max(left, 0.0):.2f} s of its deadline were left{when}, and writes need"
        f" {needed:.2f} s here; nothing took effect; {advice}"
    )


class _FirstByte:
    """When the first byte of a write left, and why it was not let go, if it was too late for it."""

    __slots__ = ("_latency", "_request", "at", "refusal")

    def __init__(self, request: Request, latency: WriteLatency) -> None:
        self.at: float | None = None
        self.refusal: DeadlineExceededError | None = None
        self._request = request
        self._latency = latency
        if request.kind is Kind.WRITE:
            request.progress.before_first_byte = self._check

    def _check(self) -> None:
        now = anyio.current_time()
        left, needed = self._request.ends_at - now, self._latency.needed(self._request.deadline)
        if left < needed:
            self.refusal = _too_late(" when its connection was ready", left, needed, "raise the deadline")
            raise AbandonedError
        self.at = now


class _Queue:
    """Places for requests under way, given in the order of asking."""

    __slots__ = ("_places", "name", "option")

    def __init__(self, places: int, name: str, option: str) -> None:
        self._places = anyio.Semaphore(places, fast_acquire=True)
        self.name = name
        self.option = option
        """The option that would help."""

    @property
    def waiting(self) -> int:
        return self._places.statistics().tasks_waiting

    async def enter(self, request: Request) -> None:
        began = anyio.current_time()
        try:
            await self._places.acquire()
        except anyio.get_cancelled_exc_class():
            request.progress.queue = (
                f"after {anyio.current_time() - began:.2f} s of waiting for {self.name} ({self.waiting} more waiting);"
                f" raise {self.option} or the deadline"
            )
            raise

    def leave(self) -> None:
        self._places.release()


class _Place:
    """Places in the queues that a request has passed, freed once: at its end, or that of a job that never began."""

    __slots__ = ("_taken", "_timer")

    def __init__(self) -> None:
        self._taken: list[_Queue] = []
        self._timer: BackgroundTask[None] | None = None

    async def take(self, queue: _Queue, request: Request) -> None:
        await queue.enter(request)
        self._taken.append(queue)

    def free(self) -> None:
        taken, self._taken = self._taken, []
        for queue in taken:
            queue.leave()
        if self._timer is not None:
            self._timer.cancel()

    def lend_after(self, seconds: float, tasks: BackgroundTasks) -> None:
        """Give up the first place, the one among the writes, unless all are free by then."""

        async def lend() -> None:
            await anyio.sleep(seconds)
            if self._taken:
                self._taken.pop(0).leave()

        # A client that is closed meanwhile has no next write.
        with suppress(ConfigurationError):
            self._timer = tasks.start(lend)


class WriteLatency:
    """Seconds from the first byte of a write to the end of its reply, over the last 20 writes."""

    __slots__ = ("_recent", "usual")

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)
        self.usual = 0.0
        """The ninth decile, in seconds; 0 before the first write."""

    def observe(self, seconds: float) -> None:
        """Record how long a write took, whatever came of it."""
        self._recent.append(seconds)
        self.usual = sorted(self._recent)[len(self._recent) * 9 // 10]

    def needed(self, deadline: float) -> float:
        """Seconds that must be left of a call's `deadline` when its first byte leaves."""
        return min(max(_FLOOR, _MARGIN * self.usual), _LARGEST_SHARE * deadline)
