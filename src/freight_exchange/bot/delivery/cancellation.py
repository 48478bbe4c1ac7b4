"""Distinguish the bot's own cancellation from a handler's."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import anyio
import anyio.lowlevel

if TYPE_CHECKING:
    from asyncio import Task

__all__ = ["ServingTask", "absorb_cancellations", "count_cancellations"]


class ServingTask:
    """The task that runs the bot, created in it; handlers run in child tasks."""

    def __init__(self) -> None:
        self._task = _current_task()
        self._before = count_cancellations()

    def is_cancelled(self) -> bool:
        """Return whether the bot or its event loop cancels the current task, and not the task's own code."""
        if anyio.current_effective_deadline() == -math.inf:
            return True
        return self._task is not None and self._task.cancelling() > self._before


def count_cancellations() -> int:
    """Count the pending `task.cancel()` calls of the current asyncio task."""
    task = _current_task()
    return 0 if task is None else task.cancelling()


async def absorb_cancellations(before: int) -> None:
    """Undo the `task.cancel()` calls beyond the first `before`, so that the task continues."""
    task = _current_task()
    if task is None or task.cancelling() <= before:
        return
    while task.cancelling() > before:
        task.uncancel()
    # A cancellation that was not raised yet is raised at the next await, here.
    with suppress(anyio.get_cancelled_exc_class()):
        await anyio.lowlevel.cancel_shielded_checkpoint()


def _current_task() -> Task[object] | None:
    """Return the current task on asyncio. On trio only scopes cancel tasks."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return None
    return cast("Task[object] | None", asyncio.current_task())
