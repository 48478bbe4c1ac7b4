"""Whose cancellation ends a handler: the bot's, or one of the handler's own."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import anyio
import anyio.lowlevel

from freight_exchange.bot.outcomes import leaves

if TYPE_CHECKING:
    from asyncio import Task

__all__ = ["ServingTask", "quieten", "requested", "split"]


class ServingTask:
    """The task that serves a bot, made in it; handlers run in tasks of their own beneath it."""

    def __init__(self) -> None:
        self._task = _task()
        self._before = requested()

    def is_cut_off(self) -> bool:
        """Whether it is the bot that cancels, or its event loop, and not somebody the handler's task alone."""
        if anyio.current_effective_deadline() == -math.inf:
            return True
        return self._task is not None and self._task.cancelling() > self._before


def requested() -> int:
    """How many cancellations of this task were asked for, not by scopes, and not taken back."""
    task = _task()
    return 0 if task is None else task.cancelling()


async def quieten(before: int) -> None:
    """Take back the cancellations of this task that were asked for since there were `before`: it is to go on."""
    task = _task()
    if task is None or task.cancelling() <= before:
        return
    while task.cancelling() > before:
        task.uncancel()
    # One that was asked for and not met with yet waits for the next await: this one.
    with suppress(anyio.get_cancelled_exc_class()):
        await anyio.lowlevel.cancel_shielded_checkpoint()


def split(error: BaseException) -> tuple[list[BaseException], list[BaseException]]:
    """The cancellations in it, and the rest."""
    found = [*leaves(error)]
    kind = anyio.get_cancelled_exc_class()
    cancelled = [leaf for leaf in found if isinstance(leaf, kind)]
    return cancelled, [leaf for leaf in found if leaf not in cancelled]


def _task() -> Task[object] | None:
    """The task of asyncio's that this is, if it is one: tasks of trio's are cancelled by scopes alone."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return None
    return cast("Task[object] | None", asyncio.current_task())
