"""Tasks: errors of task groups, and a task that outlives the block that started it."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio


def flatten(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from flatten(inner)
    else:
        yield error


def split_cancellations(error: BaseException) -> tuple[list[BaseException], list[BaseException]]:
    """Split an error into its cancellations and its other errors."""
    found = [*flatten(error)]
    kind = anyio.get_cancelled_exc_class()
    cancelled = [leaf for leaf in found if isinstance(leaf, kind)]
    return cancelled, [leaf for leaf in found if leaf not in cancelled]


def find_failure(error: BaseException) -> BaseException | None:
    """Return the first error inside that is not a cancellation."""
    return next(iter(split_cancellations(error)[1]), None)


@contextmanager
def unwrap_errors() -> Iterator[None]:
    """Raise the error inside an exception group, if all errors of the group have the same type.

    For example, a failing store raises the same error in every task that uses it.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        found = [*flatten(group)]
        raise (found[0] if len({type(leaf) for leaf in found}) == 1 else group) from None


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
