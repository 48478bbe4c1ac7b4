"""Concurrency limits: requests in flight, each sent in a task that no caller can interrupt."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio
import attrs

from freight_exchange.errors import ConfigurationError, TransportError
from freight_exchange.transport.background import TaskCancelledError
from freight_exchange.transport.message import RequestKind
from freight_exchange.transport.middleware.write_timing import WriteLatency, too_late_error

if TYPE_CHECKING:
    from freight_exchange.transport.background import BackgroundTask, BackgroundTasks
    from freight_exchange.transport.message import Next, Request, Response

__all__ = ["CONNECTIONS_PER_WRITE", "Limiter", "release_slots"]

CONNECTIONS_PER_WRITE = 2
"""Connections for each slot of a write: the second is for a write whose caller was cancelled."""

_ABANDONED_WRITE_GRACE = 1.0
"""Seconds for which a write keeps its slot after its caller was cancelled."""


class Limiter:
    """Middleware that bounds the requests in flight, and sends each in a background task.

    - The HTTP library's pool loses a connection for good if a caller is cancelled while it waits for one. So callers
      wait here. A cancelled caller leaves at once, and its task goes on to its end.
    - Writes have a limit of their own. If less time is left than writes usually take, the write is not sent, since its
      outcome would probably be unknown. `WriteTiming` checks this again right before the first byte.
    - A write whose caller was cancelled continues, but counts towards that limit for one second only. It keeps its
      connection. Writes have `2 * writes` connections, or share the `reads` connections with reads.
    """

    def __init__(self, tasks: BackgroundTasks, *, reads: int, writes: int, shared: bool = False) -> None:
        """Create the queues; `shared` means that writes use the same connections as reads."""
        self.latency = WriteLatency()
        """Latency of writes, which `WriteTiming` measures."""
        self._tasks = tasks
        self._reads = _Queue(reads, f"one of {reads} connections", "max_connections")
        self._writes = _Queue(writes, f"one of {writes} slots for writes", "max_writes")
        spare = CONNECTIONS_PER_WRITE * writes
        self._write_connections = (
            self._reads if shared else _Queue(spare, f"one of {spare} connections for writes", "max_writes")
        )

    async def __call__(self, request: Request, call_next: Next) -> Response:
        slots = await self._acquire_slots(request)
        try:
            attempt = attrs.evolve(request, release_slots=slots.release)
            task = self._tasks.start(partial(call_next, attempt), slots.release)
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
            needed = self.latency.needed(request.deadline)
            try:
                with anyio.CancelScope(deadline=request.ends_at - needed) as scope:
                    await slots.acquire(queue, request)
            except BaseException:
                slots.release()
                raise
            now = anyio.current_time()
            remaining = request.ends_at - now
            needed = self.latency.needed(request.deadline)
            if scope.cancelled_caught or remaining < needed:
                slots.release()
                waited, advice = "", "raise the deadline"
                if now > began:
                    waited = f" after {now - began:.2f} s of waiting for {queue.name} ({queue.waiting} more waiting)"
                    advice = f"raise {queue.option} or the deadline"
                raise too_late_error(waited, remaining, needed, advice)
        return slots


async def release_slots(request: Request, call_next: Next) -> Response:
    """Middleware that frees the slots of a request when it ends, before hooks run."""
    try:
        return await call_next(request)
    finally:
        request.release_slots()


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
