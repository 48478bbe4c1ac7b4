"""Tasks: errors of task groups, and a task that outlives the block that started it."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio


def flatten(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from flatten(inner)
    else:
        yield error


def failures_in(error: BaseException) -> list[BaseException]:
    """Return the errors inside that are not cancellations."""
    kind = anyio.get_cancelled_exc_class()
    return [leaf for leaf in flatten(error) if not isinstance(leaf, kind)]


class Background:
    """Work in a task of the event loop itself, for a block that may be left in another task."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._ended = anyio.Event()
        self._error: BaseException | None = None
        trio = sys.modules.get("trio")
        self._task: Any
        if trio is not None and trio.lowlevel.in_trio_run():
            self._task = trio.lowlevel.spawn_system_task(self._run, context=contextvars.copy_context())
        else:
            import asyncio

            # The loop has only weak references to its tasks.
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def wait(self) -> None:
        await self._ended.wait()

    def raise_error(self) -> None:
        """Raise the error that ended the work, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def _run(self) -> None:
        try:
            await self._work()
        except BaseException as error:
            self._error = error
            # An event loop that ends cancels its tasks: only a cancellation may leave the task.
            if isinstance(error, anyio.get_cancelled_exc_class()):
                raise
        finally:
            self._ended.set()
