"""Dispatcher: claim due deliveries up to a limit, and one by one those that may have ended the process (suspects)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from freight_exchange.bot.delivery.retry_policy import Decision, backoff
from freight_exchange.bot.delivery.worker import settle
from freight_exchange.bot.offers.record import OfferRecord, is_offer
from freight_exchange.bot.outcomes import INTERRUPTED

if TYPE_CHECKING:
    from freight_exchange.bot.delivery.worker import Worker
    from freight_exchange.bot.handlers.context import Stopping
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.tasks import TaskStarter
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.store.seat import Adoption
    from freight_exchange.store.work import Delivery, Work

__all__ = ["Dispatcher"]

_logger = logging.getLogger("freight_exchange.bot")

_SUSPECT_INTERVAL: Final = 1.0
_COUNT_INTERVAL: Final = 1.0
_COUNT_SHARE: Final = 0.05
"""Share of the time that counts may take."""
_COUNTED: Final = 10_000
"""Limit of a count of deliveries, or of the count of each handler. A count of a million would take a database longer
than its reply timeout."""
_MAX_SLEEP: Final = 60.0
"""While the machine is suspended, the loop's clock stands still and the feed's does not."""
_MIN_SLEEP: Final = 0.001
"""The feed's clock and the loop's differ by rounding: a shorter wait could spin."""


class Dispatcher:
    """Queue of deliveries, with up to `concurrency` in flight.

    Args:
        worker: Calls the handlers.
        unit_of_work: Store of deliveries.
        metrics: Has the deliveries in flight.
        tasks: Runs the handlers.
        stopping: Set when no more deliveries may be claimed.
        concurrency: Limit of deliveries in flight.
        counts: Returns whether this process counts waiting deliveries. Only the replica that scans counts, because a
            count reads much of the queue.
        is_paused: Returns whether to claim nothing. `wake` must be called once it changes.

    Attributes:
        waiting: Deliveries that were due and not in flight at the last count, at most 10,000; 0 in a process that does
            not count.
    """

    def __init__(
        self,
        worker: Worker,
        unit_of_work: UnitOfWork,
        metrics: Metrics,
        tasks: TaskStarter,
        stopping: Stopping,
        *,
        concurrency: int,
        counts: Callable[[], bool],
        is_paused: Callable[[], bool],
    ) -> None:
        self._worker = worker
        self._unit_of_work = unit_of_work
        self._metrics = metrics
        self._tasks = tasks
        self._stopping = stopping
        self._concurrency = concurrency
        self._counts = counts
        self._is_paused = is_paused
        self._handlers = worker.handlers
        self._random = Random()
        self._running = 0
        self._running_suspects = 0
        self._wakeup = anyio.Event()
        self._count_at = -math.inf
        self._waiting_since: float | None = None
        self.waiting = 0

    @property
    def longest_wait(self) -> float:
        """Seconds since the oldest waiting delivery became due."""
        return 0.0 if self._waiting_since is None else max(0.0, self._unit_of_work.time() - self._waiting_since)

    async def recover(self, adoption: Adoption) -> None:
        """Make the deliveries ready again that ended processes had in flight, and log those of removed handlers."""
        now, claimed = self._unit_of_work.time(), adoption.deliveries
        offering = {
            (record.request, record.handler)
            for record in map(OfferRecord.from_effect, filter(is_offer, adoption.effects))
        }

        def return_claimed(store: Work) -> None:
            for delivery in claimed:
                delay = backoff(delivery.attempts, self._random)
                # If several deliveries were claimed, one of them may have ended the process. Each runs alone next, so
                # that a second end shows which one, and this attempt does not count.
                # A first attempt that ended during its offer does not count either, because the handler may have to
                # repeat the offer. Later ones count, so that a handler that ends the process at each offer becomes a
                # dead letter. Each call waits until its doubt is resolved: after four such sends, by a person.
                is_suspect = delivery.error != INTERRUPTED and (
                    len(claimed) > 1 or (delivery.index, delivery.handler) in offering
                )
                decision = Decision(
                    ending="failed", state="ready", delay=delay, error=INTERRUPTED, refund_attempt=is_suspect
                )
                settle(store, delivery, decision, now=now)

        await self._unit_of_work.write("recover", return_claimed)
        ready = await self._unit_of_work.read(lambda store: store.count_ready_by_handler(limit=_COUNTED))
        if orphans := {handler: count for handler, count in ready.items() if handler not in self._handlers}:
            _logger.error(
                "%s%d deliveries wait for handlers that this bot does not have: %s; they are kept",
                "at least " if _COUNTED in orphans.values() else "",
                sum(orphans.values()),
                ", ".join(map(repr, sorted(orphans))),
            )

    def wake(self) -> None:
        """Look for deliveries that are due."""
        self._wakeup.set()

    async def run(self) -> None:
        """Claim deliveries and start their handlers until the bot stops."""
        while not self._stopping:
            self._wakeup = anyio.Event()
            free = 0 if self._is_paused() else self._concurrency - self._running
            # A read is cheap; a claim writes, even if it claims nothing.
            due = await self._unit_of_work.read(lambda store: store.next_due(handlers=self._handlers)) if free else None
            wait = math.inf if due is None else due - self._unit_of_work.time()
            if wait <= 0:
                await self._claim(free)
                continue
            if not self._counts():
                self.waiting, self._waiting_since = 0, None
            # An empty queue is counted at once.
            elif (free and self.waiting) or anyio.current_time() >= self._count_at:
                await self._count_waiting()
            for active in self._metrics.in_flight.take_overdue():
                _logger.critical(
                    "%s exceeded its timeout and ignores the cancellation; the bot waits for it",
                    active,
                    extra=active.log_fields,
                )
            wait = min(wait, self._metrics.in_flight.until_overdue(), _MAX_SLEEP)
            with anyio.move_on_after(max(wait, _MIN_SLEEP)):
                await self._wakeup.wait()

    async def wait_idle(self) -> None:
        """Wait until no delivery is in flight."""
        while self._running:
            self._wakeup = anyio.Event()
            await self._wakeup.wait()

    async def _count_waiting(self) -> None:
        now, began = self._unit_of_work.time(), anyio.current_time()
        self.waiting, self._waiting_since = await self._unit_of_work.read(
            lambda store: store.count_overdue(now=now, limit=_COUNTED, handlers=self._handlers)
        )
        ended = anyio.current_time()
        self._count_at = ended + max(_COUNT_INTERVAL, (ended - began) / _COUNT_SHARE)

    async def _claim(self, free: int) -> None:
        now = self._unit_of_work.time()
        running_suspects = self._running_suspects

        def claim(store: Work) -> Sequence[Delivery]:
            claimed = store.claim(now=now, limit=free, handlers=self._handlers)
            # A suspect that ends the process also ends the other attempts, so at most one suspect runs at a time.
            returned = [delivery for delivery in claimed if delivery.error == INTERRUPTED][
                0 if running_suspects else 1 :
            ]
            for place, delivery in enumerate(returned, 1):
                later = Decision(ending="released", state="ready", delay=place * _SUSPECT_INTERVAL, refund_attempt=True)
                settle(store, delivery, later, now=now)
            return [delivery for delivery in claimed if delivery not in returned]

        # The claim counts as running, so that a drain waits for it.
        self._running += 1
        try:
            for delivery in await self._unit_of_work.write("claim", claim):
                if self._stopping:
                    await self._worker.release(delivery, 0.0)
                    continue
                self._running += 1
                self._running_suspects += delivery.error == INTERRUPTED
                self._tasks.start_soon(self._run_worker, delivery)
        finally:
            self._running -= 1
            self._wakeup.set()
        # Let the handlers start, which sets the times when they are overdue. Trio runs tasks in any order, so all of
        # them have started only at the second checkpoint.
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()

    async def _run_worker(self, delivery: Delivery) -> None:
        try:
            await self._worker.deliver(delivery)
        finally:
            self._running_suspects -= delivery.error == INTERRUPTED
            self._running -= 1
            self._wakeup.set()
