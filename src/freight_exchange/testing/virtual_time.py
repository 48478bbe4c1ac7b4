"""Virtual time: days of waiting pass in milliseconds, on asyncio and on trio.

If no task can run, the clock jumps to the next timer of `anyio.sleep`, `anyio.fail_after` or the loop itself.
`time.monotonic` and `time.time` do not change.

The clock does not wait for other threads or for peers on sockets: while a worker thread runs or a reply is in flight,
it may jump past the timers that guard them. Code under virtual time does its work in the loop.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import FileDescriptorLike

__all__ = ["VirtualDeadlockError", "VirtualTimeLoop", "virtual_time_options"]

_THREAD_TIMEOUT: Final = 30.0
_MAX_TASKS_NAMED: Final = 10


class VirtualDeadlockError(RuntimeError):
    """All tasks wait, and no timer, socket or thread can wake one."""


class _JumpingSelector(selectors.BaseSelector):
    """Selector that advances its clock instead of waiting for a timeout."""

    def __init__(self) -> None:
        self.now = 0.0
        self._files = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._files.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is not None:
            self.now += timeout
            return ready
        return self._wait_for_thread_or_signal()

    def _wait_for_thread_or_signal(self) -> list[tuple[selectors.SelectorKey, int]]:
        # One file is always registered: the loop's waker, to which only threads and signals write.
        if len(self._files.get_map()) > 1:
            return self._files.select(None)
        # An idle pool thread looks like a busy one: only a timeout distinguishes them.
        if threading.active_count() > 1 and (ready := self._files.select(_THREAD_TIMEOUT)):
            return ready
        raise VirtualDeadlockError(_deadlock_message())

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._files.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._files.unregister(fileobj)

    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._files.modify(fileobj, events, data)

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._files.get_map()

    def close(self) -> None:
        self._files.close()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Asyncio event loop whose clock starts at 0 and jumps to the next timer when nothing is ready.

    Ready sockets and callbacks always go first. If nothing is ready, no timer is set and no socket is watched, the loop
    raises `VirtualDeadlockError` with the tasks that wait. While other threads are alive, one of them may still wake
    the loop, so it raises after thirty real seconds.
    """

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)
        # Timers within this many seconds of now are due. Here all of them are due exactly now. After 97 days, the
        # default of a nanosecond is lost in float rounding, and they would never fire.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._clock.now


def virtual_time_options(backend: Literal["asyncio", "trio"]) -> dict[str, Any]:
    """Return the backend options for virtual time, for `anyio.run` or the `anyio_backend` fixture.

    Each call makes a new trio clock, so that every run starts at 0.
    """
    if backend == "asyncio":
        return {"loop_factory": VirtualTimeLoop}
    # Imported here, as the package does not depend on trio.
    from trio.testing import MockClock

    return {"clock": MockClock(autojump_threshold=0)}


def _deadlock_message() -> str:
    waiting = sorted(_location(task) for task in asyncio.all_tasks())
    named = "; ".join(waiting[:_MAX_TASKS_NAMED])
    more = f"; and {len(waiting) - _MAX_TASKS_NAMED} more" if len(waiting) > _MAX_TASKS_NAMED else ""
    return f"every task waits, and no timer, socket or thread is left to wake one: {named or 'no task'}{more}"


def _location(task: asyncio.Task[Any]) -> str:
    # The innermost coroutine shows the cause; the outermost is often the test runner's.
    innermost = task.get_coro()
    while isinstance(innermost, CoroutineType) and isinstance(innermost.cr_await, CoroutineType):
        innermost = innermost.cr_await
    if not isinstance(innermost, CoroutineType) or innermost.cr_frame is None:
        return task.get_name()
    return f"{task.get_name()} in {innermost.__qualname__}, line {innermost.cr_frame.f_lineno}"
