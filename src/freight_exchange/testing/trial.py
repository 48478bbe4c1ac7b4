"""Run of a bot in a test, against the sandbox, with crashes at failpoints."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import anyio

from freight_exchange.bot import Bot, BotStatus
from freight_exchange.bot.failpoints import FAILPOINTS
from freight_exchange.bot.outcomes import ProcessEnd
from freight_exchange.client import FreightExchange
from freight_exchange.platform.background import BackgroundTask, BackgroundTasks

__all__ = ["FAILPOINTS", "Trial"]

_POLL_INTERVAL, _MAX_POLL_INTERVAL = 0.05, 5.0
_TIMEOUT = timedelta(hours=1)
_CLOCK_STEP = 0.001
"""Seconds by which a scan must follow a publication to include it: at the same time it may have come before."""


class _Crash(BaseException):
    """Simulated end of the process. It is not an `Exception`, so that no code handles it."""


class Trial:
    """Run of a bot in a test. Made by `sandbox.running(bot)`.

    Attributes:
        has_crashed: Whether the bot reached the failpoint `crash_at`.
    """

    def __init__(self, bot: Bot, client: FreightExchange, *, crash_at: str | None, times: int) -> None:
        if crash_at is not None and crash_at not in FAILPOINTS:
            raise ValueError(f"crash_at must be one of {', '.join(FAILPOINTS)}, not {crash_at!r}")
        self._bot = bot
        self._client = client
        self._crash_at = crash_at
        self._remaining = times
        self._job: BackgroundTask[None]
        self.has_crashed = False

    async def __aenter__(self) -> Self:
        self._bot.begin()
        self._job = BackgroundTasks().start(self._run, log_errors=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bot.stop()
        with anyio.CancelScope(shield=True):
            await self._job.wait_finished()
        await self._raise_failure()

    @property
    def status(self) -> BotStatus:
        """Status of the bot."""
        return self._bot.status()

    async def idle(self, within: timedelta = _TIMEOUT) -> None:
        """Wait until the bot has seen everything published so far, and every delivery has ended.

        Raises:
            TimeoutError: It takes longer than `within`.
            BaseException: The error that ended the bot.
        """
        began = anyio.current_time()
        with anyio.fail_after(within.total_seconds()):
            pause = _POLL_INTERVAL
            while True:
                if await self._is_idle(since=began):
                    return
                await anyio.sleep(pause)
                pause = min(2 * pause, _MAX_POLL_INTERVAL)

    async def crashed(self, within: timedelta = _TIMEOUT) -> None:
        """Wait until the bot has crashed at its failpoint.

        Raises:
            TimeoutError: The bot does not reach it.
        """
        with anyio.fail_after(within.total_seconds()):
            await self._job.wait_finished()
        if not self.has_crashed:
            await self._raise_failure()

    async def _is_idle(self, *, since: float) -> bool:
        if self._job.is_finished:
            await self._raise_failure()
            raise RuntimeError("the bot has crashed" if self.has_crashed else "the bot has stopped")
        status = self._bot.status()
        session: Any = self._bot._supervisor and self._bot._supervisor.session
        feed = status.feed
        if status.state != "running" or feed is None or status.in_flight:
            return False
        last_scan = session.health.last_scan()
        waiting = feed.unacknowledged - len(feed.gaps)
        if status.offer_feed is not None:
            waiting += status.offer_feed.unacknowledged
        if last_scan < since + _CLOCK_STEP or waiting > 0:
            return False
        unit_of_work: Any = self._bot._components().unit_of_work
        work = await unit_of_work.read(
            lambda store: [*store.deliveries(state="ready"), *store.deliveries(state="claimed")]
        )
        return not work

    async def _run(self) -> None:
        try:
            await self._bot._serve(self._client, self._reach)
        except* _Crash:
            self.has_crashed = True

    async def _raise_failure(self) -> None:
        """Raise the error that ended the bot, if any."""
        try:
            await self._job.wait()
        except ProcessEnd as end:
            raise end.reason from None

    def _reach(self, point: str) -> None:
        if self.has_crashed:
            # Nothing after the crash may become durable.
            raise _Crash
        if point == self._crash_at:
            self._remaining -= 1
            if self._remaining == 0:
                self.has_crashed = True
                raise _Crash(point)
