"""Deliveries on their way: claimed as they are due, so many at a time, and one that may end the process by itself."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from freight_exchange.bot.delivery.retry_policy import INTERRUPTED, Decision, backoff
from freight_exchange.bot.delivery.worker import settle
from freight_exchange.bot.offers.repository import unsettled
from freight_exchange.store.work import NO_LIMIT

if TYPE_CHECKING:
    from freight_exchange.bot.delivery.context import Stopping
    from freight_exchange.bot.delivery.worker import Worker
    from freight_exchange.bot.metrics import Metrics
    from freight_exchange.bot.shutdown import Tasks
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.store.work import Delivery, WorkStore

__all__ = ["Dispatcher"]

_logger = logging.getLogger("freight_exchange.bot")

_BETWEEN_SUSPECTS: Final = 1.0
_BETWEEN_LOOKS: Final = 1.0
_LONGEST_SLEEP: Final = 60.0
"""The loop's clock stands still while the machine is suspended, and the feed's goes on."""
_A_MOMENT: Final = 0.001
"""The least wait for what is due: the feed's clock and the loop's differ by a rounding, in which a loop could turn."""


class Dispatcher:
    """What waits for handlers, up to `concurrency` of it at them.

    Args:
        attempts: What hands them over.
        unit_of_work: Where they are kept.
        metrics: Where it is known which are at their handlers.
        tasks: Where handlers run.
        stopping: Set when nothing more is to be claimed.
        concurrency: How many may be at their handlers at a time.

    Attributes:
        waiting: How many were due and at no handler, when that was last looked at.
    """

    def __init__(
        self,
        attempts: Worker,
        unit_of_work: UnitOfWork,
        metrics: Metrics,
        tasks: Tasks,
        stopping: Stopping,
        *,
        concurrency: int,
    ) -> None:
        self._worker = attempts
        self._unit_of_work = unit_of_work
        self._metrics = metrics
        self._tasks = tasks
        self._stopping = stopping
        self._concurrency = concurrency
        self._handlers = attempts.handlers
        self._random = Random()
        self._running = 0
        self._suspects = 0
        self._news = anyio.Event()
        self._looked = -math.inf
        self._waiting_since: float | None = None
        self.waiting = 0

    @property
    def waited(self) -> float:
        """For how many seconds the first of those that wait has been due."""
        return 0.0 if self._waiting_since is None else max(0.0, self._unit_of_work.time() - self._waiting_since)

    async def recover(self) -> None:
        """Take back what the last run left at its handlers; one of them may have ended the process. Tell of what waits
        for handlers that are gone: nobody claims it."""

        now = self._unit_of_work.time()

        def interrupted(store: WorkStore) -> None:
            claimed = store.deliveries(state="claimed", limit=NO_LIMIT)
            offering = {(entry.request, entry.handler) for entry in unsettled(store)}
            for delivery in claimed:
                delay = backoff(delivery.attempts, self._random)
                # Among several it is only suspected. Suspects are handed over one at a time: the next time it is known.
                # So it is where the process ended around its offer, which it may have to make again: that was not to be
                # its last attempt. Both hold for the first of several ends in a row. A handler that ends the process
                # each time it offers has every later attempt counted, and is dead in the end: it is called again only
                # when the doubt that it left is settled, and after four such sends only if a person says so.
                suspected = delivery.error != INTERRUPTED and (
                    len(claimed) > 1 or (delivery.index, delivery.handler) in offering
                )
                verdict = Decision(ending="failed", state="ready", delay=delay, error=INTERRUPTED, forgive=suspected)
                settle(store, delivery, verdict, now=now)

        await self._unit_of_work.write("recover", interrupted)
        ready = await self._unit_of_work.read(lambda store: store.count_ready_by_handler())
        if orphans := {handler: count for handler, count in ready.items() if handler not in self._handlers}:
            _logger.error(
                "this bot has no handlers of these ids any more, and keeps the %d deliveries that wait for them: %s",
                sum(orphans.values()),
                ", ".join(map(repr, sorted(orphans))),
            )

    def wake(self) -> None:
        """There may be something to claim."""
        self._news.set()

    async def run(self) -> None:
        """Claim and hand over, until the bot stops."""
        while not self._stopping:
            self._news = anyio.Event()
            free = self._concurrency - self._running
            # A look costs nothing; a claim, even of nothing, is a write.
            due = await self._unit_of_work.read(lambda store: store.next_due(handlers=self._handlers)) if free else None
            wait = math.inf if due is None else due - self._unit_of_work.time()
            if wait <= 0:
                await self._claim(free)
                continue
            # How many there are costs the more, the more there are. That there are none is found at once.
            if (free and self.waiting) or anyio.current_time() >= self._looked + _BETWEEN_LOOKS:
                await self._look()
            for stint in self._metrics.at_work.late():
                _logger.critical("%s was cancelled when its time was over, and does not end", stint, extra=stint.about)
            wait = min(wait, self._metrics.at_work.next_late(), _LONGEST_SLEEP)
            with anyio.move_on_after(max(wait, _A_MOMENT)):
                await self._news.wait()

    async def _look(self) -> None:
        now = self._unit_of_work.time()
        self.waiting, self._waiting_since = await self._unit_of_work.read(
            lambda store: store.count_overdue(now=now, handlers=self._handlers)
        )
        self._looked = anyio.current_time()

    async def idle(self) -> None:
        """Wait until nothing is at a handler."""
        while self._running:
            self._news = anyio.Event()
            await self._news.wait()

    async def _claim(self, free: int) -> None:
        now = self._unit_of_work.time()
        suspects = self._suspects

        def claim(store: WorkStore) -> Sequence[Delivery]:
            claimed = store.claim(now=now, limit=free, handlers=self._handlers)
            # One of them may end the process: together, each would take the others with it, time after time. So all but
            # one are put back before anything is handed over.
            put_off = [delivery for delivery in claimed if delivery.error == INTERRUPTED][0 if suspects else 1 :]
            for place, delivery in enumerate(put_off, 1):
                later = Decision(ending="released", state="ready", delay=place * _BETWEEN_SUSPECTS, forgive=True)
                settle(store, delivery, later, now=now)
            return [delivery for delivery in claimed if delivery not in put_off]

        # A claim that is under way counts as well: a drain waits for it.
        self._running += 1
        try:
            for delivery in await self._unit_of_work.write("claim", claim):
                if self._stopping:
                    await self._worker.release(delivery, 0.0)
                    continue
                self._running += 1
                self._suspects += delivery.error == INTERRUPTED
                self._tasks.start_soon(self._see_to, delivery)
        finally:
            self._running -= 1
            self._news.set()
        # They begin now, and with that it is known when they are late. Trio's tasks take turns in any order: at the
        # second checkpoint all of them have begun.
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()

    async def _see_to(self, delivery: Delivery) -> None:
        try:
            await self._worker.hand_over(delivery)
        finally:
            self._suspects -= delivery.error == INTERRUPTED
            self._running -= 1
            self._news.set()
