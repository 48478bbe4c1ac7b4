"""One run of a bot: from the lease of its store to the end of its drain."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

import anyio
import attrs

from freight_exchange.bot.delivery.context import Stopping
from freight_exchange.bot.delivery.dispatcher import Dispatcher
from freight_exchange.bot.delivery.routing import Routing
from freight_exchange.bot.delivery.worker import Worker
from freight_exchange.bot.offers.ledger import Ledger
from freight_exchange.bot.outcomes import leaves
from freight_exchange.bot.selected_bids import SelectedBids
from freight_exchange.bot.shutdown import FailureReportingGroup, cause
from freight_exchange.bot.unit_of_work import UnitOfWork
from freight_exchange.errors import ConfigurationError, LoginRejectedError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from freight_exchange.bot.failpoints import Failpoints
    from freight_exchange.bot.metrics import Metrics
    from freight_exchange.bot.router import Handler
    from freight_exchange.client import FreightExchange
    from freight_exchange.feed.feed import Feed
    from freight_exchange.feed.journal import Start
    from freight_exchange.feed.status import FeedStatus
    from freight_exchange.store import Store

__all__ = ["INTERVALS_ALIVE", "NAME", "BotOptions", "BotSession", "Components", "Phase", "unwrap_errors"]

_logger = logging.getLogger("freight_exchange.bot")

_TO_HEED: Final = 0.5
_STANDBY_POLL: Final = 0.5
"""Seconds until it is asked again whether a store is taken that another process holds."""

NAME: Final = "bot"
"""What a bot is called that was given no name. `exchange.watch` has another: whoever watches on a bot's file takes
nothing from the bot."""

INTERVALS_ALIVE: Final = 3
"""A bot is alive while its cover is younger than this many intervals."""

Phase = Literal["starting", "standby", "running", "draining", "stopped"]


@attrs.frozen(kw_only=True)
class BotOptions:
    """What a bot was told, checked."""

    store: Store | str | os.PathLike[str] | None
    start: Start
    interval: timedelta
    allowance: timedelta
    concurrency: int
    drain: timedelta
    settle: timedelta
    selection_interval: timedelta
    name: str
    standby: bool


@attrs.frozen
class Components:
    """What is made anew for each run."""

    feed: Feed
    unit_of_work: UnitOfWork
    ledger: Ledger
    deliveries: Dispatcher


class BotSession:
    """One run.

    Args:
        options: What the bot was told.
        handlers: Its handlers, by their ids.
        given: What each is given beside its event and its context.
        exchange: The client, entered.
        metrics: What is counted.
        failpoints: Told before and after each durable step.
        ready: Called once it hands over deliveries.
        ends: Called with what ends it by itself, before what is at work has ended: a cancellation is one as well.
        began: When the bot began, on the loop's clock; this may be a later run of it.

    Attributes:
        phase: Where it is.
        began: As given, or when the store was taken that another process had until then.
        stopping: Whether it drains.
        rejected: The login that the service rejected, if that is what ended it.
        components: What it is made of, once its feed was entered.
        is_over: Whether nothing more is to be asked of its parts, and all that is left is to leave the feed.
    """

    def __init__(
        self,
        options: BotOptions,
        handlers: Mapping[str, Handler],
        given: Mapping[str, Mapping[str, object]],
        exchange: FreightExchange,
        metrics: Metrics,
        failpoints: Failpoints,
        ready: Callable[[], None],
        ends: Callable[[BaseException], None],
        *,
        began: float,
    ) -> None:
        self._options = options
        self._handlers = handlers
        self._given = given
        self._exchange = exchange
        self._metrics = metrics
        self._failpoints = failpoints
        self._ready = ready
        self._ends = ends
        self._is_ending = False
        self.began = began
        self.feed: Feed = exchange.watch(
            store=options.store,
            start=options.start,
            interval=options.interval,
            allowance=options.allowance,
            name=options.name,
            standby=options.standby,
        )
        self.phase: Phase = "starting"
        self.stopping = Stopping()
        self.rejected: LoginRejectedError | None = None
        self.components: Components | None = None
        self.is_over = False
        self._last: tuple[FeedStatus | None, timedelta] | None = None

    async def __call__(self) -> None:
        """Run until `stopping`, or until something ends it that does not pass."""
        try:
            with unwrap_errors():
                async with anyio.create_task_group() as watching:
                    entering = anyio.CancelScope()
                    watching.start_soon(self._leave_if_stopped, entering)
                    if self._options.standby:
                        watching.start_soon(self._track_standby)
                    entered = False
                    with entering:
                        try:
                            await self.feed.__aenter__()
                            entered = True
                        except LoginRejectedError as error:
                            self._reject(error)
                    if entered:
                        try:
                            await self._work()
                        finally:
                            await self.feed.__aexit__(None, None, None)
                    watching.cancel_scope.cancel()
        finally:
            if self.rejected is None:
                self.freeze_status()
            self.phase = "stopped"

    def stop(self) -> None:
        """Drain, and end."""
        if not self.stopping:
            if self.phase != "stopped":
                self.phase = "draining"
            self.stopping.begin()

    def freeze_status(self) -> None:
        """Tell from now on how it is now: it has ended, and with the loop its clock may end. A run that ends by a login
        that is rejected goes on growing older until then: nobody hears of anything meanwhile."""
        if self._last is None:
            self._last = self.feed_status(), self.age()

    def feed_status(self) -> FeedStatus | None:
        """How the feed is, or was when the run stood still; `None` before it was entered."""
        if self._last is not None:
            return self._last[0]
        try:
            return self.feed.status()
        except ConfigurationError:
            return None

    def age(self) -> timedelta:
        """How long ago the moment was before which nothing can have been missed, or, if that is less, the beginning."""
        if self._last is not None:
            return self._last[1]
        status = self.feed_status()
        running = timedelta(seconds=anyio.current_time() - self.began)
        return running if status is None or status.cover_age is None else min(status.cover_age, running)

    def live(self) -> bool:
        """Whether the service has been heard of lately, or it is another process's turn to hear of it."""
        if self.phase == "standby":
            return True
        return self.phase != "stopped" and self.age() <= INTERVALS_ALIVE * self._options.interval

    def _scanned(self) -> float:
        """When the last complete scan began, on the loop's clock."""
        status = self.feed_status()
        if status is None or status.cover_age is None:
            return -math.inf
        return anyio.current_time() - status.cover_age.total_seconds()

    async def _leave_if_stopped(self, entering: anyio.CancelScope) -> None:
        await self.stopping.wait()
        entering.cancel()

    async def _track_standby(self) -> None:
        """Tell for how long another process holds the store: until it is taken, nothing can have been heard."""
        while not self.feed.hold.taken:
            if self.feed.hold.waits:
                self.phase = "standby" if self.phase == "starting" else self.phase
                self.began = anyio.current_time()
            await anyio.sleep(_STANDBY_POLL)
        if self.phase == "standby":
            self.phase = "starting"

    async def _work(self) -> None:
        unit_of_work = UnitOfWork(self.feed, self._failpoints)
        async with anyio.create_task_group() as sends:
            try:
                await self._hand_over(unit_of_work, sends)
            finally:
                # A task that begins while its group ends may belong to nobody, and wait for ever.
                self.is_over = True
            sends.cancel_scope.cancel()
        if not self.stopping:
            raise RuntimeError("the bot's tasks were cancelled by something of their own")

    async def _hand_over(self, unit_of_work: UnitOfWork, sends: TaskGroup) -> None:
        """Take in events and hand over deliveries, until the drain has ended."""
        ledger = Ledger(
            self._exchange,
            unit_of_work,
            FailureReportingGroup(sends, self._tell),
            self._metrics,
            handlers=self._handlers.keys(),
            settle=self._options.settle,
        )
        async with anyio.create_task_group() as tasks:
            telling = FailureReportingGroup(tasks, self._tell)
            attempts = Worker(
                self._handlers,
                self._given,
                self._exchange,
                unit_of_work,
                ledger,
                self._metrics,
                self.stopping,
                scanned=self._scanned,
            )
            deliveries = Dispatcher(
                attempts, unit_of_work, self._metrics, telling, self.stopping, concurrency=self._options.concurrency
            )
            ledger.doubts.wake = deliveries.wake
            self.components = Components(self.feed, unit_of_work, ledger, deliveries)
            routing = Routing(self.feed, unit_of_work, self._handlers.values(), self._metrics, deliveries.wake)
            selections = SelectedBids(
                self._exchange,
                unit_of_work,
                routing,
                self._handlers.values(),
                deliveries.wake,
                pace=self._options.selection_interval.total_seconds(),
            )
            try:
                await deliveries.recover()
                await selections.introduce(backfill=self._options.start == "backfill")
                await ledger.start()
                await routing.introduce()
                receiving = anyio.CancelScope()
                telling.start_soon(self._receive_events, routing, selections, receiving)
                telling.start_soon(deliveries.run)
                if not self.stopping:
                    self.phase = "running"
                    _logger.info("running: %s", ", ".join(self._handlers))
                self._ready()
                await self.stopping.wait()
                receiving.cancel()
                deliveries.wake()
                await self._drain(deliveries, ledger)
                await self._cancel_handlers(deliveries, tasks)
            except BaseException as error:
                if (found := cause(error)) is not None:
                    self._tell(found)
                elif not self.stopping and not self._is_ending:
                    # By what, comes out only once all that is at work has ended.
                    self.phase = "draining"
                    self._ends(error)
                await self._cancel_handlers(deliveries, tasks)
                raise

    def _tell(self, error: BaseException) -> None:
        """Tell by what the bot ends, the first time that something ends it: the rest may follow from that."""
        if not self._is_ending:
            self._is_ending = True
            self.phase = "draining"
            self._ends(error)

    def _reject(self, error: LoginRejectedError) -> None:
        self.rejected = error
        self._ends(error)

    async def _receive_events(self, routing: Routing, selections: SelectedBids, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(routing.run)
                    if routing.selected():
                        tasks.start_soon(selections.run)
            except* LoginRejectedError as group:
                self._reject(next(error for error in leaves(group) if isinstance(error, LoginRejectedError)))
                self.stop()

    async def _drain(self, deliveries: Dispatcher, ledger: Ledger) -> None:
        if self._metrics.at_work:
            _logger.info("draining: handlers that have %s to end: %d", self._options.drain, len(self._metrics.at_work))
        with anyio.move_on_after(self._options.drain.total_seconds()) as patience:
            await deliveries.idle()
            await ledger.idle()
        if patience.cancelled_caught:
            _logger.warning("handlers that are cut off, and will be called again: %d", len(self._metrics.at_work))

    async def _cancel_handlers(self, deliveries: Dispatcher, tasks: TaskGroup) -> None:
        tasks.cancel_scope.cancel()
        with anyio.move_on_after(_TO_HEED, shield=True):
            await deliveries.idle()
        if self._metrics.at_work:
            _logger.critical(
                "cut off, and not ended; the bot cannot end before it does: %s", str(self._metrics.at_work)
            )


@contextmanager
def unwrap_errors() -> Iterator[None]:
    """An error that task groups have wrapped, without the wrappings. Where there are several, and they are alike, each
    says the same: a store that fails does so for everybody who is at work."""
    try:
        yield
    except BaseExceptionGroup as group:
        found = [*leaves(group)]
        raise (found[0] if len({type(leaf) for leaf in found}) == 1 else group) from None
