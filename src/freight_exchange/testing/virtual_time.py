"""A clock that jumps: days of waiting pass in milliseconds, on asyncio and on trio.

`anyio.sleep`, `anyio.fail_after` and the loop's own timers wait for nothing: whenever no task can go on,
the clock moves to the next timer. `time.monotonic` and `time.time` are not touched.

The clock knows nothing of other threads and of peers at the far end of a socket. While a worker thread
runs, or an answer is on its way, it may jump past the timers that were meant to wait for it: what is tested
under virtual time does its work in the loop.
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

_THREAD_PATIENCE: Final = 30.0
_TASKS_NAMED: Final = 10


class VirtualDeadlockError(RuntimeError):
    """Every task waits, and nothing is left that could wake one: no timer, no socket, no thread."""


class _JumpingSelector(selectors.BaseSelector):
    """Polls the files, and moves the clock on where a selector would wait for its timeout."""

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
        return self._wait_for_the_outside()

    def _wait_for_the_outside(self) -> list[tuple[selectors.SelectorKey, int]]:
        # The one file that is always there is the loop's own waker: only another thread or a signal writes
        # to it.
        if len(self._files.get_map()) > 1:
            return self._files.select(None)
        # An idle thread of a pool looks like a busy one: patience tells them apart, at the price of a late
        # error.
        if threading.active_count() > 1 and (ready := self._files.select(_THREAD_PATIENCE)):
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
    """An asyncio event loop whose clock starts at 0 and jumps to the next timer when nothing is ready.

    Sockets and callbacks that are ready always go first. Where nothing is ready, no timer is set and no
    socket is watched, `VirtualDeadlockError` names the tasks that wait, instead of a test that hangs. While
    other threads live, one of them may be about to wake the loop, so the error then comes after thirty real
    seconds of silence.
    """

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)
        # The loop takes a timer as due within this many seconds. Its own nanosecond drowns in the rounding
        # of a float after 97 days, and a timer that is due exactly now, as here they all are, would then
        # never fire.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._clock.now


def virtual_time_options(backend: Literal["asyncio", "trio"]) -> dict[str, Any]:
    """The options that make an anyio backend's time virtual, for `anyio.run` or the `anyio_backend` fixture.

    Each call makes a new trio clock, so that no run begins at the time at which another one ended.
    """
    if backend == "asyncio":
        return {"loop_factory": VirtualTimeLoop}
    # Trio is the choice of whoever asks for it, and no dependency.
    from trio.testing import MockClock

    return {"clock": MockClock(autojump_threshold=0)}


def _deadlock_message() -> str:
    waiting = sorted(_whereabouts(task) for task in asyncio.all_tasks())
    named = "; ".join(waiting[:_TASKS_NAMED])
    more = f"; and {len(waiting) - _TASKS_NAMED} more" if len(waiting) > _TASKS_NAMED else ""
    return f"every task waits, and no timer, socket or thread is left to wake one: {named or 'no task'}{more}"


def _whereabouts(task: asyncio.Task[Any]) -> str:
    # A task's own stack ends at its outermost coroutine, often a test runner's: the innermost one says what
    # is wrong.
    innermost = task.get_coro()
    while isinstance(innermost, CoroutineType) and isinstance(innermost.cr_await, CoroutineType):
        innermost = innermost.cr_await
    if not isinstance(innermost, CoroutineType) or innermost.cr_frame is None:
        return task.get_name()
    return f"{task.get_name()} in {innermost.__qualname__}, line {innermost.cr_frame.f_lineno}"
