"""Background tasks of a client, on asyncio and on trio.

A caller may be cancelled at any moment, natively or by a scope, even twice. A request on a connection must not be
cancelled with it. So it runs in a task of the loop itself, which only the client cancels, when it is closed.
"""

from __future__ import annotations

import contextvars
import itertools
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

import anyio

from freight_exchange.errors import ConfigurationError, FreightExchangeError

__all__ = ["BackgroundTask", "BackgroundTasks", "TaskCancelledError"]

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange.transport")

_ids = itertools.count(1)

# An id and not the task: an idle connection keeps the context in which it was opened, and would keep the reply too.
_current_id: contextvars.ContextVar[int] = contextvars.ContextVar("background_task", default=0)


class TaskCancelledError(Exception):
    """The task was cancelled before it had a result."""


class BackgroundTask(Generic[T]):
    """Work in a task of its own, and its outcome."""

    __slots__ = (
        "_error",
        "_error_reported",
        "_finished",
        "_has_result",
        "_on_end",
        "_result",
        "_scope",
        "_traceback",
        "_waiters",
        "_work",
        "id",
    )

    def __init__(
        self,
        work: Callable[[], Awaitable[T]],
        on_end: Callable[[BackgroundTask[T]], None],
        *,
        log_errors: bool = True,
    ) -> None:
        self._work = work
        self._on_end: Callable[[BackgroundTask[T]], None] | None = on_end
        self._scope = anyio.CancelScope()
        self._finished = anyio.Event()
        self._waiters = 0
        self._error_reported = not log_errors
        self._has_result = False
        self.id = next(_ids)
        self._result: T | None = None
        self._error: BaseException | None = None

    async def run(self) -> None:
        _current_id.set(self.id)
        try:
            with self._scope:
                self._result = await self._work()
                self._has_result = True
        except BaseException as error:
            deliverable = _deliverable(error)
            if deliverable is None:
                raise
            self._error = deliverable
            self._traceback = deliverable.__traceback__
            self._log_unawaited_error()
        finally:
            self.finish()

    def _log_unawaited_error(self) -> None:
        if self._error is None or self._waiters or self._error_reported:
            return
        if isinstance(self._error, FreightExchangeError):
            return
        self._error_reported = True
        _logger.error("background task failed, and no caller waits for it", exc_info=self._error)

    def finish(self) -> None:
        """Release the waiters. The loop calls it for a task that was cancelled before its first step."""
        if self._on_end is not None:
            self._on_end(self)
            self._on_end = None
            self._finished.set()

    def cancel(self, at: float | None = None) -> None:
        """Cancel the work now, or when the loop's clock shows `at`."""
        if at is None:
            self._scope.cancel()
        else:
            self._scope.deadline = at

    @property
    def is_finished(self) -> bool:
        return self._finished.is_set()

    async def wait_finished(self) -> None:
        """Wait until the work is over, and ignore its outcome."""
        await self._finished.wait()

    async def wait(self) -> T:
        """Wait for the result, or raise the error that ended the work. Cancelling the waiter does not stop the work.

        Raises:
            TaskCancelledError: The work was cancelled.
        """
        self._waiters += 1
        is_over = False
        try:
            await self._finished.wait()
            is_over = True
        finally:
            self._waiters -= 1
            if not is_over:
                # The waiter was cancelled, perhaps in the same tick in which the error came that it would have raised.
                self._log_unawaited_error()
        if self._error is not None:
            self._error_reported = True
            # Each waiter adds frames: with a traceback of its own, none gets those of the others.
            raise self._error.with_traceback(self._traceback)
        if not self._has_result:
            raise TaskCancelledError
        return self._result  # type: ignore[return-value]  # it was set, to None perhaps


def _deliverable(error: BaseException) -> BaseException | None:
    """Return the error for the waiters, or `None` if it must end the task or the process.

    Other errors must not leave the task: they would end the loop, or be lost.
    """
    ends = (KeyboardInterrupt, SystemExit, GeneratorExit)
    if isinstance(error, BaseExceptionGroup):
        return None if error.subgroup(ends) is not None else error.split(anyio.get_cancelled_exc_class())[1]
    return None if isinstance(error, (*ends, anyio.get_cancelled_exc_class())) else error


class _Loop(Protocol):
    def is_current(self) -> bool: ...
    def spawn(self, task: BackgroundTask[Any]) -> None: ...


class _Asyncio:
    def __init__(self) -> None:
        import asyncio

        self._running = asyncio._get_running_loop
        self._loop = asyncio.get_running_loop()
        # The loop has only weak references to its tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    def is_current(self) -> bool:
        return self._running() is self._loop

    def spawn(self, task: BackgroundTask[Any]) -> None:
        self._tasks.add(native := self._loop.create_task(task.run()))
        native.add_done_callback(self._tasks.discard)
        native.add_done_callback(lambda _: task.finish())


class _Trio:
    def __init__(self) -> None:
        from trio import lowlevel

        self._lowlevel = lowlevel
        self._token = lowlevel.current_trio_token()

    def is_current(self) -> bool:
        return self._lowlevel.in_trio_run() and self._lowlevel.current_trio_token() is self._token

    def spawn(self, task: BackgroundTask[Any]) -> None:
        self._lowlevel.spawn_system_task(task.run, context=contextvars.copy_context())


def _current_loop() -> _Loop:
    trio = sys.modules.get("trio")
    return _Trio() if trio is not None and trio.lowlevel.in_trio_run() else _Asyncio()


class BackgroundTasks:
    """Background tasks of one client, on the loop that it was entered on."""

    def __init__(self) -> None:
        self._loop = _current_loop()
        self._running: set[BackgroundTask[Any]] = set()
        self._closed = False

    def check_loop(self) -> None:
        """Raise `ConfigurationError` if the running loop is not the one that the client was entered on."""
        if not self._loop.is_current():
            raise ConfigurationError(
                "this client was entered on another event loop: enter one client for each loop that uses it"
            )

    def start(
        self, work: Callable[[], Awaitable[T]], on_end: Callable[[], None] | None = None, *, log_errors: bool = True
    ) -> BackgroundTask[T]:
        """Start work in a task of its own.

        Args:
            work: The work.
            on_end: Called at the end of the work, even if it never began.
            log_errors: Whether to log an error that no caller waits for. Turn it off if a caller waits later.

        Raises:
            ConfigurationError: The client is closed.
        """
        if self._closed:
            raise ConfigurationError("this client is closed: make a new one")

        def end(task: BackgroundTask[T]) -> None:
            self._running.discard(task)
            if on_end is not None:
                on_end()

        task = BackgroundTask(work, end, log_errors=log_errors)
        self._running.add(task)
        self._loop.spawn(task)
        return task

    def close(self, last_work: Callable[[], Awaitable[None]]) -> BackgroundTask[None]:
        """Cancel all tasks, wait for their end, and run `last_work`. No other task can be started any more.

        If a task itself calls this, for example in a hook, that task is not cancelled: it could not wait for its own
        end, and it has its reply already.
        """
        self._closed = True
        caller_id = _current_id.get()

        async def finish() -> None:
            running = [task for task in self._running if task.id != caller_id]
            for task in running:
                task.cancel()
            for task in running:
                await task.wait_finished()
            await last_work()

        task = BackgroundTask(finish, lambda _: None)
        self._loop.spawn(task)
        return task
