"""Session of a bot: from the seat in its store to the end of its drain."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import anyio

from freight_exchange.bot.answers.ledger import AnswerLedger
from freight_exchange.bot.delivery.dispatcher import Dispatcher
from freight_exchange.bot.delivery.worker import Worker
from freight_exchange.bot.handlers.context import Stopping
from freight_exchange.bot.offers.ledger import OfferLedger
from freight_exchange.bot.runtime.fleet.adoption import adopt_lapsed
from freight_exchange.bot.runtime.fleet.exchange_reach import ExchangeReach
from freight_exchange.bot.runtime.fleet.follower_login import LoginRejectionMonitor
from freight_exchange.bot.runtime.fleet.membership import LOST_SEAT, Membership
from freight_exchange.bot.runtime.fleet.term import Term, join
from freight_exchange.bot.runtime.session.components import Components
from freight_exchange.bot.runtime.session.drain import await_replies, cancel_handlers, drain, report_stuck
from freight_exchange.bot.runtime.session.feeds import make_feeds
from freight_exchange.bot.runtime.session.health import Health
from freight_exchange.bot.tasks import FailureReportingGroup, find_failure, unwrap_errors
from freight_exchange.bot.unit_of_work import UnitOfWork
from freight_exchange.errors import LoginRejectedError
from freight_exchange.store.factory import make_store

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from freight_exchange.bot.failpoints import Failpoints
    from freight_exchange.bot.handlers.handler import Handler
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.runtime.options import BotOptions
    from freight_exchange.client import FreightExchange
    from freight_exchange.feed.status import FeedStatus

__all__ = ["BotSession", "Phase"]

_logger = logging.getLogger("freight_exchange.bot")

_STANDBY_POLL_INTERVAL: Final = 0.5

Phase = Literal["starting", "standby", "running", "draining", "stopped"]


class BotSession:
    """One session of a bot.

    Args:
        options: Options of the bot.
        handlers: Its handlers, by their ids.
        arguments: Arguments of each handler beside its event and its context.
        exchange: The client, entered.
        metrics: Metrics of the bot.
        failpoints: Called before and after each durable step.
        on_ready: Called once deliveries begin.
        on_failure: Called with an error or a cancellation that ends the session, before its tasks have ended.
        started_at: Time on the loop's clock at which the bot began; this may be a later session.

    Attributes:
        phase: Present phase.
        has_run: Whether it has reached the phase `running`.
        health: Age of the watermark.
        stopping: Whether it drains.
        login_rejection: Error of the login that ended it, if one did.
        membership: Seat of the bot in its store.
        offer_feed: The feed of offers, if the bot has a handler of offers.
        components: Parts, once the bot has its seat.
        is_closed: Whether its parts must not be used any more.
    """

    def __init__(
        self,
        options: BotOptions,
        handlers: Mapping[str, Handler],
        arguments: Mapping[str, Mapping[str, object]],
        exchange: FreightExchange,
        metrics: Metrics,
        failpoints: Failpoints,
        on_ready: Callable[[], None],
        on_failure: Callable[[BaseException], None],
        *,
        started_at: float,
    ) -> None:
        self._options = options
        self._handlers = handlers
        self._arguments = arguments
        self._reach = ExchangeReach()
        exchange = exchange._instrumented(self._reach)
        self._exchange = exchange._instrumented(LoginRejectionMonitor(self._reject_in_call))
        self._metrics = metrics
        self._failpoints = failpoints
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._failure: BaseException | None = None
        store, made_here = make_store(options.store)
        self.membership = Membership(store, handlers=handlers.keys(), closes_store=made_here)
        self.feed, self.offer_feed = make_feeds(exchange, options, handlers.values(), self.membership)
        self.phase: Phase = "starting"
        self.has_run = False
        self.health = Health(self.feed, options.interval, self.offer_feed, started_at=started_at)
        self.stopping = Stopping()
        self.login_rejection: LoginRejectedError | None = None
        self.components: Components | None = None
        self.is_closed = False

    async def __call__(self) -> None:
        """Run until `stop()` or an error."""
        try:
            with unwrap_errors():
                async with anyio.create_task_group() as watchers:
                    entering = anyio.CancelScope()
                    watchers.start_soon(self._cancel_if_stopped, entering)
                    if self._options.standby:
                        watchers.start_soon(self._track_standby)
                    has_term = None
                    try:
                        with entering:
                            try:
                                has_term = await join(
                                    self.feed, self.membership, self._exchange, self._options.interval
                                )
                            except LoginRejectedError as error:
                                self._reject(error)
                        if has_term is not None:
                            await self._serve(has_term=has_term)
                    finally:
                        await self.feed.__aexit__(None, None, None)
                        await self.membership.leave()
                    watchers.cancel_scope.cancel()
        finally:
            if self.login_rejection is None:
                self.health.freeze()
            self.phase = "stopped"

    def stop(self) -> None:
        """Drain, then end."""
        if not self.stopping:
            if self.phase != "stopped":
                self.phase = "draining"
            self.stopping.begin()

    def feed_status(self) -> FeedStatus | None:
        """Return the status of the feed; `None` before it was entered."""
        return self.health.feed_status()

    def age(self) -> timedelta:
        """Return the age of the watermark, or the time since the start if that is less."""
        return self.health.age()

    @property
    def follows(self) -> bool:
        """`True` while another replica scans for this one, which runs."""
        return self.phase == "running" and not self.scans

    @property
    def scans(self) -> bool:
        """`False` while this replica has a seat but not the term. A bot without a fleet scans until it has drained."""
        is_alone = self.phase == "draining" and self.membership.lease is None
        return self.feed.lease.is_held or not self.membership.is_joined or is_alone

    def is_live(self) -> bool:
        """Return whether the watermark is young, another process scans, or the loss of the seat ends the session."""
        if self.phase != "stopped" and isinstance(self._failure, LOST_SEAT):
            return True
        if self.phase == "standby" or (self.membership.is_joined and not self.feed.lease.is_held):
            return True
        return self.phase != "stopped" and self.health.is_young()

    async def _cancel_if_stopped(self, entering: anyio.CancelScope) -> None:
        await self.stopping.wait()
        entering.cancel()

    async def _track_standby(self) -> None:
        """Follow whether another process holds the store: no scan is expected then."""
        while not self.membership.is_joined:
            if self.feed.lease.is_waiting:
                self.phase = "standby" if self.phase == "starting" else self.phase
                self.health.started_at = anyio.current_time()
            await anyio.sleep(_STANDBY_POLL_INTERVAL)
        if self.phase == "standby":
            self.phase = "starting"

    async def _serve(self, *, has_term: bool) -> None:
        unit_of_work = UnitOfWork(self.feed, self._failpoints, self.membership)
        async with anyio.create_task_group() as ledger_tasks:
            try:
                await self._run_deliveries(unit_of_work, ledger_tasks, has_term=has_term)
            finally:
                # A task that starts while its group ends may never run, and its caller would wait forever.
                self.is_closed = True
            ledger_tasks.cancel_scope.cancel()
        if not self.stopping:
            raise RuntimeError("the bot's tasks were cancelled by their own code")

    async def _run_deliveries(self, unit_of_work: UnitOfWork, ledger_tasks: TaskGroup, *, has_term: bool) -> None:
        """Receive events and deliver them until the end of the drain."""
        starter, settle = FailureReportingGroup(ledger_tasks, self._report_failure), self._options.settle
        ledger = OfferLedger(
            self._exchange, unit_of_work, starter, self._metrics, handlers=self._handlers.keys(), settle=settle
        )
        answers = AnswerLedger(self._exchange, unit_of_work, starter, self._metrics, settle=settle)
        async with anyio.create_task_group() as tasks:
            reporting_tasks = FailureReportingGroup(tasks, self._report_failure)
            worker = Worker(
                self._handlers,
                self._arguments,
                self._exchange,
                unit_of_work,
                ledger,
                answers,
                self._metrics,
                self.stopping,
                feed=self._options.name,
                last_scan=self.health.last_scan,
            )
            dispatcher = Dispatcher(
                worker,
                unit_of_work,
                self._metrics,
                reporting_tasks,
                self.stopping,
                concurrency=self._options.concurrency,
                counts=lambda: self.feed.lease.is_held,
                is_paused=lambda: self._reach.is_paused,
            )
            ledger.resolver.wake = answers.resolver.wake = dispatcher.wake
            self.components = Components(self.feed, unit_of_work, ledger, answers, dispatcher, self.membership)
            term = Term(
                self.feed,
                self.membership,
                self._exchange,
                UnitOfWork(self.feed, self._failpoints),
                self._handlers.values(),
                self._metrics,
                self._options,
                self.offer_feed,
                wake=dispatcher.wake,
                on_rejection=self._reject,
                is_failing=self.health.is_failing,
            )
            try:
                reporting_tasks.start_soon(self.membership.heartbeat, dispatcher.wake)
                adoption = await self.membership.adopt()
                await dispatcher.recover(adoption)
                if has_term:
                    await term.introduce_selections()
                await ledger.start(adoption, self.membership)
                await answers.start(adoption, self.membership)
                if has_term:
                    await term.introduce_handlers()
                reporting_tasks.start_soon(partial(term.run, is_entered=has_term))
                reporting_tasks.start_soon(adopt_lapsed, self.membership, dispatcher, ledger, answers)
                reporting_tasks.start_soon(self._reach.run, self._exchange, self.membership, dispatcher.wake)
                reporting_tasks.start_soon(dispatcher.run)
                if not self.stopping:
                    self.phase, self.has_run = "running", True
                    _logger.info("running: %s", ", ".join(self._handlers))
                self._on_ready()
                await self.stopping.wait()
                term.end()
                dispatcher.wake()
                await drain(dispatcher, ledger, answers, self._metrics.in_flight, self._options.drain)
                await cancel_handlers(dispatcher, tasks)
                report_stuck(self._metrics.in_flight)
            except BaseException as error:
                if (failure := find_failure(error)) is not None:
                    self._report_failure(failure)
                elif not self.stopping and self._failure is None:
                    # The cause of a cancellation is known only after all tasks have ended.
                    self.phase = "draining"
                    self._on_failure(error)
                await cancel_handlers(dispatcher, tasks)
                if isinstance(self._failure, LOST_SEAT):
                    await await_replies(dispatcher, ledger, answers)
                report_stuck(self._metrics.in_flight)
                raise

    def _report_failure(self, error: BaseException) -> None:
        """Report the first failure; later ones may follow from it."""
        if self._failure is None:
            self._failure = error
            self.phase = "draining"
            self._on_failure(error)

    def _reject_in_call(self, error: LoginRejectedError) -> None:
        """End the session of a replica that follows after a call whose login was rejected. A scan reports its own."""
        if self.follows:
            self._reject(error)

    def _reject(self, error: LoginRejectedError) -> None:
        self.login_rejection = error
        self._on_failure(error)
        if self.components is not None:
            self.stop()
