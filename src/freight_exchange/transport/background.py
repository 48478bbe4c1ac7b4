"""Work that outlives its caller, on asyncio and on trio.

A caller may be cancelled at any moment, twice, natively or by a scope; a request in the middle of a connection must
not be. So such work runs in a task of the loop itself, known to the client, which ends it when it is closed.
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

__all__ = ["BackgroundTask", "BackgroundTasks", "EndedError"]

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange.transport")

_numbers = itertools.count(1)

# A number and not the job: a kept connection carries the context that it was opened in, and would keep the reply too.
_within: contextvars.ContextVar[int] = contextvars.ContextVar("job", default=0)


class EndedError(Exception):
    """The job was ended before it had a result."""


class BackgroundTask(Generic[T]):
    """One piece of work in a task of its own."""

    __slots__ = (
        "_awaited",
        "_done",
        "_error",
        "_finished",
        "_forget",
        "_heard",
        "_scope",
        "_traceback",
        "_value",
        "_work",
        "number",
    )

    def __init__(
        self, work: Callable[[], Awaitable[T]], forget: Callable[[BackgroundTask[T]], None], *, heard: bool = False
    ) -> None:
        self._work = work
        self._forget: Callable[[BackgroundTask[T]], None] | None = forget
        self._scope = anyio.CancelScope()
        self._finished = anyio.Event()
        self._awaited = 0
        self._heard = heard
        self._done = False
        self.number = next(_numbers)
        self._value: T | None = None
        self._error: BaseException | None = None

    async def run(self) -> None:
        _within.set(self.number)
        try:
            with self._scope:
                self._value = await self._work()
                self._done = True
        except BaseException as error:
            found = _carried(error)
            if found is None:
                raise
            self._error = found
            self._traceback = found.__traceback__
            self._log_unheard()
        finally:
            self.conclude()

    def _log_unheard(self) -> None:
        """A bug is told to somebody: to whoever waits, or, if nobody does any more, to the log."""
        if self._error is None or self._awaited or self._heard or isinstance(self._error, FreightExchangeError):
            return
        self._heard = True
        _logger.error("an error that nobody waits for", exc_info=self._error)

    def conclude(self) -> None:
        """Let go of whoever waits. A task that is cancelled before its first step never comes to say so itself."""
        if self._forget is not None:
            self._forget(self)
            self._forget = None
            self._finished.set()

    def end(self, at: float | None = None) -> None:
        """Cancel the work now, or when the loop's clock says `at`."""
        if at is None:
            self._scope.cancel()
        else:
            self._scope.deadline = at

    @property
    def finished(self) -> bool:
        return self._finished.is_set()

    async def ended(self) -> None:
        """Wait until the work is over, however it ended."""
        await self._finished.wait()

    async def wait(self) -> T:
        """The result, or the error that ended the work; `EndedError` if it was cancelled. Leaving is free."""
        self._awaited += 1
        arrived = False
        try:
            await self._finished.wait()
            arrived = True
        finally:
            self._awaited -= 1
            if not arrived:
                # Cancelled, perhaps in the very tick in which the error came, and it was counted on to raise that.
                self._log_unheard()
        if self._error is not None:
            self._heard = True
            # Each waiter adds its own frames, and not all of them to one traceback.
            raise self._error.with_traceback(self._traceback)
        if not self._done:
            raise EndedError
        return self._value  # type: ignore[return-value]  # done means that it was set, to None perhaps


def _carried(error: BaseException) -> BaseException | None:
    """What of it goes to whoever waits: from a task of the loop's own an error would end the loop, or be lost there.
    `None` where it is to end the task, or the process."""
    ends = (KeyboardInterrupt, SystemExit, GeneratorExit)
    if isinstance(error, BaseExceptionGroup):
        return None if error.subgroup(ends) is not None else error.split(anyio.get_cancelled_exc_class())[1]
    return None if isinstance(error, (*ends, anyio.get_cancelled_exc_class())) else error


class _Loop(Protocol):
    def is_current(self) -> bool: ...
    def spawn(self, job: BackgroundTask[Any]) -> None: ...


class _Asyncio:
    def __init__(self) -> None:
        import asyncio

        self._running = asyncio._get_running_loop
        self._loop = asyncio.get_running_loop()
        # The loop itself forgets a task that nothing refers to.
        self._tasks: set[asyncio.Task[None]] = set()

    def is_current(self) -> bool:
        return self._running() is self._loop

    def spawn(self, job: BackgroundTask[Any]) -> None:
        self._tasks.add(task := self._loop.create_task(job.run()))
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: job.conclude())


class _Trio:
    def __init__(self) -> None:
        from trio import lowlevel

        self._lowlevel = lowlevel
        self._token = lowlevel.current_trio_token()

    def is_current(self) -> bool:
        return self._lowlevel.in_trio_run() and self._lowlevel.current_trio_token() is self._token

    def spawn(self, job: BackgroundTask[Any]) -> None:
        self._lowlevel.spawn_system_task(job.run, context=contextvars.copy_context())


def _current_loop() -> _Loop:
    trio = sys.modules.get("trio")
    return _Trio() if trio is not None and trio.lowlevel.in_trio_run() else _Asyncio()


class BackgroundTasks:
    """The jobs of one client, on the loop that it was entered on."""

    def __init__(self) -> None:
        self._loop = _current_loop()
        self._running: set[BackgroundTask[Any]] = set()
        self._closed = False

    def check_loop(self) -> None:
        """`ConfigurationError` unless called on the loop that this was made on."""
        if not self._loop.is_current():
            raise ConfigurationError(
                "this client was entered on another event loop: enter one client for each loop that uses it"
            )

    def start(
        self, work: Callable[[], Awaitable[T]], afterwards: Callable[[], None] | None = None, *, heard: bool = False
    ) -> BackgroundTask[T]:
        """Begin a piece of work in a task of its own; `afterwards` is called at its end, even if it never began. Where
        it is sure to be `heard` who waits for it, however late, its error is not told to the log."""
        if self._closed:
            raise ConfigurationError("this client is closed: make a new one")

        def forget(job: BackgroundTask[T]) -> None:
            self._running.discard(job)
            if afterwards is not None:
                afterwards()

        job = BackgroundTask(work, forget, heard=heard)
        self._running.add(job)
        self._loop.spawn(job)
        return job

    def start_last(self, work: Callable[[], Awaitable[None]]) -> BackgroundTask[None]:
        """End every job, wait until all have ended, and do the last piece of work; nothing starts any more.

        Called within a job, by a hook say, it leaves that one alone: its own caller could not wait for its end, and
        its reply is there.
        """
        self._closed = True
        caller = _within.get()

        async def finish() -> None:
            running = [job for job in self._running if job.number != caller]
            for job in running:
                job.end()
            for job in running:
                await job.ended()
            await work()

        job = BackgroundTask(finish, lambda _: None)
        self._loop.spawn(job)
        return job
