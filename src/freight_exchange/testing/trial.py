"""A bot on trial: run against the sandbox, crashed where it is told to, and waited for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import anyio

from freight_exchange.bot.failpoints import FAILPOINTS
from freight_exchange.bot.outcomes import ProcessEnd
from freight_exchange.transport.background import BackgroundTask, BackgroundTasks

if TYPE_CHECKING:
    from types import TracebackType

    from freight_exchange.bot import Bot, BotStatus
    from freight_exchange.client import FreightExchange

__all__ = ["FAILPOINTS", "Trial"]

_LOOK_AGAIN, _LONGEST_PAUSE = 0.05, 5.0
_PATIENCE = timedelta(hours=1)
_AN_INSTANT = 0.001
"""In virtual time a scan and a publication may share one, and nobody knows which came first."""


class _Crash(BaseException):
    """The process is gone: nothing may handle that."""


class Trial:
    """One run of a bot in a test. Made by `sandbox.running(bot)`.

    Attributes:
        has_crashed: Whether it came to the point at which it was to crash.
    """

    def __init__(self, bot: Bot, client: FreightExchange, *, crash_at: str | None, times: int) -> None:
        if crash_at is not None and crash_at not in FAILPOINTS:
            raise ValueError(f"crash_at must be one of {', '.join(FAILPOINTS)}, not {crash_at!r}")
        self._bot = bot
        self._client = client
        self._crash_at = crash_at
        self._visits_left = times
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
        await self._result()

    @property
    def status(self) -> BotStatus:
        """How the bot is."""
        return self._bot.status()

    async def idle(self, within: timedelta = _PATIENCE) -> None:
        """Wait until the bot has seen all that was published until now, and every delivery of it has ended.

        Raises:
            TimeoutError: That takes longer.
            BaseException: What ended the bot.
        """
        began = anyio.current_time()
        with anyio.fail_after(within.total_seconds()):
            pause = _LOOK_AGAIN
            while True:
                if await self._is_idle(since=began):
                    return
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def crashed(self, within: timedelta = _PATIENCE) -> None:
        """Wait until the bot came to the point at which it was to crash, and is gone.

        Raises:
            TimeoutError: It does not come there.
        """
        with anyio.fail_after(within.total_seconds()):
            await self._job.wait_finished()
        if not self.has_crashed:
            await self._result()

    async def _is_idle(self, *, since: float) -> bool:
        if self._job.is_finished:
            await self._result()
            raise RuntimeError("the bot has crashed" if self.has_crashed else "the bot has stopped")
        status = self._bot.status()
        feed = status.feed
        if status.state != "running" or feed is None or feed.cover_age is None:
            return False
        looked = anyio.current_time() - feed.cover_age.total_seconds()
        if looked < since + _AN_INSTANT or feed.unacknowledged > len(feed.gaps) or status.in_flight:
            return False
        desk: Any = self._bot._running().desk
        work = await desk.read(lambda store: [*store.deliveries(state="ready"), *store.deliveries(state="claimed")])
        return not work

    async def _run(self) -> None:
        try:
            await self._bot._serve(self._client, self._visit)
        except* _Crash:
            self.has_crashed = True

    async def _result(self) -> None:
        """Raise what the bot has ended by, if that was no drain."""
        try:
            await self._job.wait()
        except ProcessEnd as end:
            raise end.reason from None

    def _visit(self, point: str) -> None:
        if self.has_crashed:
            # Nothing lasts that comes after.
            raise _Crash
        if point == self._crash_at:
            self._visits_left -= 1
            if self._visits_left == 0:
                self.has_crashed = True
                raise _Crash(point)
