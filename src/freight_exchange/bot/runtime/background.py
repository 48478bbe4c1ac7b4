"""Bot that runs in the background of an `async with` block."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from freight_exchange.bot.outcomes import ProcessEnd
from freight_exchange.bot.runtime.background_tasks import BackgroundTask, BackgroundTasks
from freight_exchange.bot.tasks import find_failure

__all__ = ["BackgroundRun"]

_logger = logging.getLogger("freight_exchange.bot")


class BackgroundRun:
    """Run of a bot in a background task.

    Args:
        serve: Runs the bot.
        stop: Makes it drain and end.
    """

    def __init__(self, serve: Callable[[], Awaitable[None]], stop: Callable[[], None]) -> None:
        self._serve = serve
        self._stop = stop
        self._task: BackgroundTask[None] | None = None

    async def start(self, ready: anyio.Event) -> None:
        """Start the bot, and wait until it is ready. Raises the error of a bot that ends before."""
        task = self._task = BackgroundTasks().start(self._run, ready.set, log_errors=False)
        try:
            await ready.wait()
        except BaseException:
            await self.end()
            raise
        if task.is_finished:
            await self._raise_error(task)

    async def end(self) -> None:
        """Stop the bot, wait until it has ended, and raise the error that ended it."""
        if (task := self._task) is None:
            return
        self._stop()
        with anyio.CancelScope(shield=True):
            await task.wait_finished()
        await self._raise_error(task)

    async def _run(self) -> None:
        try:
            await self._serve()
        except BaseException as error:
            # A handler that ends the process was logged by its worker, and ends it when the block is left.
            if find_failure(error) is not None and not isinstance(error, ProcessEnd):
                _logger.warning(
                    "the bot has ended; its application continues, and receives the error at the end of the block"
                )
            raise

    async def _raise_error(self, task: BackgroundTask[None]) -> None:
        self._task = None
        try:
            await task.wait()
        except ProcessEnd as end:
            raise end.reason from None
