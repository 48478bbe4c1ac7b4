"""Session of a bot: from joining its store to the end of its drain."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import attrs

from freight_exchange.bot import admin
from freight_exchange.bot.failpoints import reach
from freight_exchange.bot.handler import FEED_OF
from freight_exchange.bot.route import Routing
from freight_exchange.bot.tasks import find_failure
from freight_exchange.bot.work import Worker
from freight_exchange.errors import FreightExchangeError, LoginRejectedError, is_transient, retry_delay
from freight_exchange.feed.events import Gap, load_event
from freight_exchange.feed.options import WatchOptions
from freight_exchange.feed.poller import Poller
from freight_exchange.feed.sources import Offers, Requests, SelectedBids, Source
from freight_exchange.feed.state import State
from freight_exchange.feed.status import FeedStatus, OfferFeedStatus
from freight_exchange.store import feeds, fleet, work

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from freight_exchange.bot.bot import BotOptions
    from freight_exchange.bot.context import Stopping
    from freight_exchange.bot.handler import Handler
    from freight_exchange.bot.ledger import Ledger
    from freight_exchange.bot.metrics import Metrics
    from freight_exchange.bot.status import Phase
    from freight_exchange.client import FreightExchange
    from freight_exchange.store import Store
    from freight_exchange.store.database import Database
    from freight_exchange.store.effects import Effect

_logger = logging.getLogger("freight_exchange.bot")

_LONGEST_PAUSE: Final = 30.0
"""Longest pause between two logins while nothing has ever answered."""
_ALONE_PERIOD, _INLINE_PERIOD = 2.0, 30.0
"""Seconds between two looks for commands and orphans, in a file, and in memory, where no other process has any."""
_PRIMED_PERIOD: Final = 0.5
_COUNT_PERIOD: Final = 1.0
_CANCELLATION_GRACE: Final = 0.5


@attrs.frozen(kw_only=True)
class Parts:
    """Parts that all sessions of a run share."""

    options: BotOptions
    handlers: Mapping[str, Handler]
    arguments: Mapping[str, Mapping[str, object]]
    exchange: FreightExchange
    store: Store
    ledger: Ledger
    metrics: Metrics
    stopping: Stopping


class Session:
    """One stay of a bot in its store.

    `on_ready` is called once deliveries begin, and `on_failure` with the first error, before the tasks have ended.
    """

    def __init__(self, parts: Parts, on_ready: Callable[[], None], on_failure: Callable[[BaseException], None]) -> None:
        self.parts = parts
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._store = parts.store
        self._rows: Mapping[int, Handler] = {}
        self._is_worker_done = anyio.Event()
        self._is_running = self._has_ended = False
        self._failure: BaseException | None = None
        self._sources: dict[str, Source] = {}
        self._polling: list[anyio.CancelScope] = []
        self.pollers: dict[str, Poller] = {}
        self.has_joined = False
        self.overdue = work.Overdue(0, None)
        self.doubts: list[Effect] = []
        self.unrouted = 0
        self.gaps: tuple[Gap, ...] = ()

    async def run(self) -> None:
        """Run until the bot stops or an error, and raise the first one."""
        try:
            async with anyio.create_task_group() as tasks:
                starting = anyio.CancelScope()
                tasks.start_soon(self._cancel_when_stopping, starting)
                with starting:
                    await self._reported(lambda: self._start(tasks))
                if self.phase == "running":
                    try:
                        await self.parts.stopping.wait()
                    except BaseException as error:
                        # The cause of a cancellation is known only after all tasks have ended.
                        if self._failure is None:
                            self._on_failure(error)
                        raise
                    await self._drain(tasks)
                tasks.cancel_scope.cancel()
        except BaseException as error:
            self._note(error)
            if self._failure is None:
                raise
            raise self._failure from None
        finally:
            self._has_ended = True
            self.has_joined = False

    @property
    def phase(self) -> Phase:
        if self._has_ended:
            return "stopped"
        if self.parts.stopping or self._failure is not None:
            return "draining"
        return "running" if self._is_running else "starting"

    @property
    def scans(self) -> bool:
        """`False` while another replica scans for this one."""
        is_alone = not self.has_joined or not self.pollers or not self._store.is_shared
        return is_alone or any(one.is_scanning for one in self.pollers.values())

    # Start and end

    async def _start(self, tasks: TaskGroup) -> None:
        parts, store, options = self.parts, self._store, self.parts.options
        account = (await parts.exchange._account()).strip().casefold()
        joined = await store.join(
            fleet.Binding(parts.exchange._base_url, account, options.name), lease=options.lease.total_seconds()
        )
        self.has_joined = True
        await store.run(work.release_others, store.me, [])
        self._start_task(tasks, self._beat)
        await self._log_in()
        reach("before adopt")
        parts.ledger.adopt(await store.run(fleet.adopt, store.me))
        reach("after adopt")
        routing = Routing(parts)
        self._rows = await routing.introduce()
        await parts.ledger.start(joined)
        self._start_task(tasks, parts.ledger.run)
        self._make_pollers(is_silent=await store.run(work.is_silent, store.feeds["selected"]))
        for name, poller in self.pollers.items():
            self._start_task(tasks, self._poll, poller)
            self._start_task(tasks, self._backfill, routing, name)
        if "selected" in self.pollers:
            # What it lists first was selected before, so no offer may come before its first reading.
            await self._primed("selected")
        self._start_task(tasks, routing.run)
        self._start_task(tasks, self._work, Worker(parts, self._rows, self.last_scan, self._note))
        self._start_task(tasks, self._keep_counting)
        self._is_running = True
        self._on_ready()

    async def _cancel_when_stopping(self, starting: anyio.CancelScope) -> None:
        await self.parts.stopping.wait()
        starting.cancel()

    async def _drain(self, tasks: TaskGroup) -> None:
        in_flight, limit = self.parts.metrics.in_flight, self.parts.options.drain
        for polling in self._polling:
            polling.cancel()
        if in_flight:
            _logger.info("draining: waiting for %d handlers, at most %s", len(in_flight), limit)
        with anyio.move_on_after(limit.total_seconds()) as scope:
            await self._is_worker_done.wait()
        if scope.cancelled_caught:
            _logger.warning("the drain timed out: %d handlers are cancelled, and called again later", len(in_flight))
        tasks.cancel_scope.cancel()
        with anyio.move_on_after(_CANCELLATION_GRACE, shield=True):
            await self._is_worker_done.wait()
        if in_flight:
            _logger.critical("handlers ignore their cancellation: %s; the bot waits until they end", str(in_flight))

    async def _poll(self, poller: Poller) -> None:
        with anyio.CancelScope() as scope:
            self._polling.append(scope)
            await poller.run()

    async def _work(self, worker: Worker) -> None:
        try:
            await worker.run()
        finally:
            self._is_worker_done.set()

    async def _log_in(self) -> None:
        """Log in before the first delivery. While the service is away, try again after 1, 2, 4 ... 30 s."""
        pause = 1.0
        while True:
            try:
                await self.parts.exchange.login()
            except LoginRejectedError:
                raise
            except FreightExchangeError as error:
                if not is_transient(error):
                    raise
                wait = max(pause, retry_delay(error) or 0.0)
                _logger.warning(
                    "cannot log in at %s: %s; retrying in %.0f s", self.parts.exchange._base_url, error, wait
                )
                await anyio.sleep(wait)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                return

    # Tasks

    def _start_task(self, tasks: TaskGroup, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        tasks.start_soon(self._reported, lambda: work(*args))

    async def _reported(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a task, and report its failure at once, while handlers may still run."""
        try:
            await work()
        except BaseException as error:
            self._note(error)
            raise

    def _note(self, error: BaseException) -> None:
        failure = find_failure(error)
        if failure is not None and self._failure is None:
            self._failure = failure
            self._on_failure(failure)

    async def _beat(self) -> None:
        """Renew the lease, adopt what other replicas have left, obey a person, and count, until cancelled."""
        store = self._store
        shared_period = self.parts.options.lease.total_seconds() / 3
        period = _INLINE_PERIOD if store.is_inline else shared_period if store.is_shared else _ALONE_PERIOD
        while True:
            await anyio.sleep(period)
            if store.is_shared:
                await store.run(fleet.beat, store.me, store.stamp[0])
            adopted, commands = await store.run(
                lambda db: (fleet.adopt(db, store.me, store.writes), work.commands(db, store.binding))
            )
            self.parts.ledger.adopt(adopted)
            for command in commands:
                result = await admin.carry_out(command, store, self.parts.ledger, self.parts.handlers)
                await store.run(work.answer_command, command.id, result)

    async def _keep_counting(self) -> None:
        """Count after each change, at most once a second, until cancelled."""
        while True:
            wakeup = self._store.waiter("work")
            await self.count()
            await anyio.sleep(_COUNT_PERIOD)
            with anyio.move_on_after(_LONGEST_PAUSE if self.scans else _COUNT_PERIOD):
                await wakeup.wait()

    async def count(self) -> None:
        """Count what waits: deliveries in the replica that scans alone, because a count reads much of the queue."""
        scans, store = self.scans, self._store

        def read(db: Database) -> None:
            stored = work.pending_gaps(db, store.binding)
            self.gaps = tuple(cast(Gap, load_event(gap.kind, gap.payload)) for gap in stored)
            self.doubts = self.parts.ledger.doubts_in(db)
            self.unrouted = sum(feeds.count_open(db, store.feeds[name]) for name in self.pollers) if scans else 0
            self.overdue = work.count_overdue(db, [*self._rows]) if scans else work.Overdue(0, None)

        await store.run(read)

    async def is_busy(self) -> bool:
        """Return whether a delivery waits or runs, or an event waits for its deliveries."""
        return await self._store.run(work.is_busy, [*self._rows])

    # Feeds

    def _make_pollers(self, *, is_silent: bool) -> None:
        options, (service, client) = self.parts.options, self.parts.exchange._feed_parts()
        kinds = {kind for handler in self.parts.handlers.values() for kind in handler.filters}
        # What cannot be read is told with what is watched anyway.
        feeds = {FEED_OF[kind][0] for kind in kinds if kind != "unreadable" or len(kinds) == 1}
        sources: list[Source] = []
        if "requests" in feeds:
            sources.append(Requests(service))
        if "offers" in feeds:
            sources.append(Offers(service))
        if "selected" in feeds:
            sources.append(SelectedBids(service, self._store.feeds["requests"]))
        for source in sources:
            is_requests, is_selected = source.name == "requests", source.name == "selected"
            interval = options.selection_interval if is_selected else options.interval
            poll = WatchOptions(
                name=options.name if is_requests else f"{options.name}: {source.name}",
                start="backfill" if source.name == "offers" else "now" if is_selected and is_silent else options.start,
                interval=interval,
                allowance=options.allowance,
                retention=options.retention,
                # A page extends it, so it is longer than the pause between two pages.
                lease=max(options.lease, 3 * interval).total_seconds(),
            )
            self.pollers[source.name] = Poller(source, self._store, self._store.feeds[source.name], poll, client)
            self._sources[source.name] = source

    async def _backfill(self, routing: Routing, name: str) -> None:
        is_new = await self._store.run(feeds.load_state, self._store.feeds[name]) is None
        await self._primed(name)
        await routing.backfill(self._sources[name])
        if name == "selected" and is_new:
            passed_over = await self._store.run(work.passed_over, self._store.binding, self._store.feeds[name])
            if passed_over:
                _logger.warning(
                    "%d of your offers were selected before the bot had a handler of selections, and are not reported;"
                    " requests: %s",
                    len(passed_over),
                    ", ".join(map(str, passed_over)),
                )

    async def _primed(self, name: str) -> None:
        """Wait for the end of a feed's first scan, by any replica."""
        clock = self.parts.exchange._feed_parts()[1].clock
        while True:
            text = await self._store.run(feeds.load_state, self._store.feeds[name])
            if text is not None and State.load(text, clock.read()).is_primed:
                return
            await anyio.sleep(_PRIMED_PERIOD)

    def last_scan(self) -> float:
        """Return when the last complete scan of the feed that is furthest behind began, on the store's clock."""
        return self._store.now - max((age for age, _ in self.ages()), default=math.inf)

    def ages(self) -> list[tuple[float, float]]:
        """Return the age of the watermark, infinite before the first scan, and the interval of each feed it scans."""
        return [
            (math.inf if (age := one.cover_age) is None else age.total_seconds(), one.pace.interval)
            for one in self.pollers.values()
            if one.is_scanning
        ]

    def feed_status(self) -> FeedStatus | None:
        """Return the status of the feed of requests, if this replica scans it."""
        poller = self.pollers.get("requests")
        if poller is None or not poller.is_scanning:
            return None
        return FeedStatus(
            window=timedelta(seconds=poller.window),
            allowance=self.parts.options.allowance,
            gaps=self.gaps,
            **poller.status(self.unrouted),
        )

    def offer_feed_status(self) -> OfferFeedStatus | None:
        """Return the status of the feed of offers, if this replica scans it."""
        poller = self.pollers.get("offers")
        if poller is None or not poller.is_scanning:
            return None
        return OfferFeedStatus(requests=poller.subjects, offers=poller.items, **poller.status(self.unrouted))
