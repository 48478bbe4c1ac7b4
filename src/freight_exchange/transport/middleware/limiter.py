"""Concurrency limits: requests in flight, each sent in a task that no caller can interrupt."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import ConfigurationError, DeadlineExceededError, FreightExchangeError, TransportError
from freight_exchange.transport.background import TaskCancelledError
from freight_exchange.transport.message import AbandonedError, RequestKind
from freight_exchange.transport.middleware.tracing import Tracing

if TYPE_CHECKING:
    from freight_exchange.hooks import Hooks
    from freight_exchange.transport.background import BackgroundTask, BackgroundTasks
    from freight_exchange.transport.message import Next, Request, Response
    from freight_exchange.transport.secrets import Redactor

__all__ = ["CONNECTIONS_PER_WRITE", "Limiter"]

CONNECTIONS_PER_WRITE = 2
"""Connections for each slot of a write: the second is for a write whose caller was cancelled."""

_ABANDONED_WRITE_GRACE = 1.0
"""Seconds for which a write keeps its slot after its caller was cancelled."""

_SAMPLE_SIZE = 20
"""Number of writes in the sample. Its ninth decile ignores a single slow one."""

_MARGIN = 1.5
"""Factor on the usual latency: with exactly the usual time left, the outcome of a write would often be unknown."""

_MIN_LATENCY = 0.1
"""Minimum time for a write in seconds, also before any latency is known."""

_MAX_SHARE = 0.5
"""Largest part of a call's deadline that a write may need, so that a call that has not waited is always sent."""


class Limiter:
    """Middleware that bounds the requests in flight, and sends each in a background task.

    - The HTTP library's pool loses a connection for good if a caller is cancelled while it waits for one. So callers
      wait here. A cancelled caller leaves at once, and its task goes on to its end.
    - Writes have a limit of their own. If less time is left than writes usually take, the write is refused before its
      first byte, since its outcome would probably be unknown.
    - A write whose caller was cancelled continues, but counts towards that limit for one second only. It keeps its
      connection. Writes have `2 * writes` connections, or share the `reads` connections with reads.
    """

    def __init__(
        self, tasks: BackgroundTasks, hooks: Hooks, redactor: Redactor, *, reads: int, writes: int, shared: bool = False
    ) -> None:
        """Create the queues; `shared` means that writes use the same connections as reads."""
        self._tasks = tasks
        self._tracing = Tracing(hooks, redactor)
        self._reads = _Queue(reads, f"one of {reads} connections", "max_connections")
        self._writes = _Queue(writes, f"one of {writes} slots for writes", "max_writes")
        spare = CONNECTIONS_PER_WRITE * writes
        self._write_connections = (
            self._reads if shared else _Queue(spare, f"one of {spare} connections for writes", "max_writes")
        )
        self._latency = WriteLatency()

    async def __call__(self, request: Request, call_next: Next) -> Response:
        slots = await self._acquire_slots(request)
        try:
            task = self._tasks.start(lambda: self._send(request, call_next, slots), slots.release)
        except ConfigurationError:
            slots.release()
            raise
        try:
            return await task.wait()
        except TaskCancelledError:
            closed = TransportError(
                "the client was closed during the call",
                permanent=True,
                unsent=not request.progress.may_have_begun,
            )
        finally:
            if not task.is_finished:
                request.progress.abandon()
                # A write that has begun is not cancelled, as that would make its outcome unknown.
                must_finish = request.kind is RequestKind.WRITE and request.progress.may_have_begun
                task.cancel(request.ends_at if must_finish else None)
                if must_finish:
                    slots.release_write_slot_after(_ABANDONED_WRITE_GRACE, self._tasks)
        raise closed

    async def _acquire_slots(self, request: Request) -> _Slots:
        """Wait for a slot; raise `DeadlineExceededError` for a write that would be sent too late."""
        slots = _Slots()
        if request.kind is not RequestKind.WRITE:
            await slots.acquire(self._reads, request)
            return slots
        began = anyio.current_time()
        for queue in (self._writes, self._write_connections):
            needed = self._latency.needed(request.deadline)
            try:
                with anyio.CancelScope(deadline=request.ends_at - needed) as scope:
                    await slots.acquire(queue, request)
            except BaseException:
                slots.release()
                raise
            now = anyio.current_time()
            remaining = request.ends_at - now
            needed = self._latency.needed(request.deadline)
            if scope.cancelled_caught or remaining < needed:
                slots.release()
                waited, advice = "", "raise the deadline"
                if now > began:
                    waited = f" after {now - began:.2f} s of waiting for {queue.name} ({queue.waiting} more waiting)"
                    advice = f"raise {queue.option} or the deadline"
                raise _too_late_error(waited, remaining, needed, advice)
        return slots

    async def _send(self, request: Request, call_next: Next, slots: _Slots) -> Response:
        started = anyio.current_time()
        first_byte = _FirstByte(request, self._latency)
        try:
            try:
                response = await self._tracing.send(request, call_next)
            finally:
                if request.kind is RequestKind.WRITE and request.progress.may_have_begun:
                    self._latency.observe(anyio.current_time() - (first_byte.at or started))
        except FreightExchangeError as failure:
            slots.release()
            error: FreightExchangeError = failure
            # A stopped transport may have tried another connection: its error must state that nothing was sent.
            if first_byte.refusal is not None and isinstance(failure, TransportError) and failure.unsent:
                error = first_byte.refusal
                # Stopped right before its first byte, which proves that nothing was sent.
                request.progress.reset()
                error.attempts = failure.attempts
            await self._tracing.failed(request, started, error)
            if error is failure:
                raise
        except anyio.get_cancelled_exc_class():
            slots.release()
            await self._tracing.cut_off(request, started)
            raise
        else:
            request.progress.reply = response
            slots.release()
            await self._tracing.replied(request, started, response)
            return response
        raise error


def _too_late_error(moment: str, remaining: float, needed: float, advice: str) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"the write was not sent: {max(remaining, 0.0):.2f} s of its deadline remained{moment}, and writes need"
        f" {needed:.2f} s here; nothing took effect; {advice}"
    )


class _FirstByte:
    """Check right before the first byte of a write: there must be time enough left."""

    __slots__ = ("_latency", "_request", "at", "refusal")

    def __init__(self, request: Request, latency: WriteLatency) -> None:
        self.at: float | None = None
        self.refusal: DeadlineExceededError | None = None
        self._request = request
        self._latency = latency
        if request.kind is RequestKind.WRITE:
            request.progress.before_first_byte = self._check

    def _check(self) -> None:
        now = anyio.current_time()
        remaining, needed = self._request.ends_at - now, self._latency.needed(self._request.deadline)
        if remaining < needed:
            self.refusal = _too_late_error(" when its connection was ready", remaining, needed, "raise the deadline")
            raise AbandonedError
        self.at = now


class _Queue:
    """Slots for requests in flight, in the order of arrival."""

    __slots__ = ("_slots", "name", "option")

    def __init__(self, slots: int, name: str, option: str) -> None:
        self._slots = anyio.Semaphore(slots, fast_acquire=True)
        self.name = name
        self.option = option
        """Name of the option that sets the number of slots."""

    @property
    def waiting(self) -> int:
        return self._slots.statistics().tasks_waiting

    async def acquire(self, request: Request) -> None:
        began = anyio.current_time()
        try:
            await self._slots.acquire()
        except anyio.get_cancelled_exc_class():
            request.progress.queue = (
                f"after {anyio.current_time() - began:.2f} s of waiting for {self.name} ({self.waiting} more waiting);"
                f" raise {self.option} or the deadline"
            )
            raise

    def release(self) -> None:
        self._slots.release()


class _Slots:
    """Slots of one request. They are released once, at the end of its task, even if that never began."""

    __slots__ = ("_acquired", "_timer")

    def __init__(self) -> None:
        self._acquired: list[_Queue] = []
        self._timer: BackgroundTask[None] | None = None

    async def acquire(self, queue: _Queue, request: Request) -> None:
        await queue.acquire(request)
        self._acquired.append(queue)

    def release(self) -> None:
        acquired, self._acquired = self._acquired, []
        for queue in acquired:
            queue.release()
        if self._timer is not None:
            self._timer.cancel()

    def release_write_slot_after(self, seconds: float, tasks: BackgroundTasks) -> None:
        """Release the slot for writes, which is the first one, after some seconds."""

        async def release_write_slot() -> None:
            await anyio.sleep(seconds)
            if self._acquired:
                self._acquired.pop(0).release()

        # A closed client sends no other write, so the slot is not needed.
        with suppress(ConfigurationError):
            self._timer = tasks.start(release_write_slot)


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
