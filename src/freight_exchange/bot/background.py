"""Background run of a bot, in a task of the event loop itself, for a block that may be left in another task."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

__all__ = ["Background"]


class Background:
    """Work in a task of its own, and its outcome.

    Args:
        work: The work.
        on_end: Called at its end.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], on_end: Callable[[], None] = lambda: None) -> None:
        self._work = work
        self._on_end = on_end
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

    @property
    def has_ended(self) -> bool:
        """`True` once the work is over."""
        return self._ended.is_set()

    async def wait(self) -> None:
        """Wait until the work is over."""
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
            self._on_end()
            self._ended.set()
