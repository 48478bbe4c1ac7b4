"""Run of a bot: one session in its store after another, until a stop or an error."""

from __future__ import annotations

import errno
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import anyio
import attrs

from freight_exchange.bot import admin, failpoints
from freight_exchange.bot.context import Stopping
from freight_exchange.bot.failpoints import reach
from freight_exchange.bot.handler import FEED_OF, resolve_arguments
from freight_exchange.bot.ledger import Ledger
from freight_exchange.bot.lifespan import run_with_lifespan
from freight_exchange.bot.metrics import make_exposition
from freight_exchange.bot.outcomes import ProcessEnd
from freight_exchange.bot.port import OperatorPort
from freight_exchange.bot.route import Routing
from freight_exchange.bot.status import BotStatus
from freight_exchange.bot.tasks import failures_in
from freight_exchange.bot.work import Worker
from freight_exchange.client import FreightExchange
from freight_exchange.errors import (
    ConfigurationError,
    FencedError,
    FreightExchangeError,
    HeldError,
    LoginRejectedError,
    StoreAwayError,
    is_transient,
    retry_delay,
)
from freight_exchange.feed.feed import FeedStatus, OfferFeedStatus
from freight_exchange.feed.poller import Poller
from freight_exchange.feed.sources import Offers, Requests, SelectedBids, Source
from freight_exchange.feed.state import State
from freight_exchange.store import feeds, fleet, work
from freight_exchange.store.database import Store, as_store
from freight_exchange.store.errors import StoreRefusedError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from freight_exchange.bot.bot import Bot
    from freight_exchange.bot.handler import Handler
    from freight_exchange.bot.status import Phase
    from freight_exchange.feed.events import Gap
    from freight_exchange.store.database import Database
    from freight_exchange.store.effects import Effect

_logger = logging.getLogger("freight_exchange.bot")

_LIVE_INTERVALS: Final = 3
"""A bot is live while its watermark is younger than this many intervals."""
_LONGEST_PAUSE: Final = 30.0
"""Longest pause between two logins while nothing has ever answered, or between two tries of a store that refuses."""
_MAX_LOGIN_PAUSE: Final = 900.0
_AWAY_PAUSE: Final = 1.0
_LOG_INTERVAL: Final = 60.0
_SHORT_PAUSE: Final = 0.5
_SNAPSHOT_PERIOD: Final = 1.0
_ALONE_PERIOD, _INLINE_PERIOD = 2.0, 30.0
"""Seconds between two looks for orphans, in a file, and in memory."""
_COUNT_PERIOD: Final = 1.0
_CANCELLATION_GRACE: Final = 0.5
_in_use: Final[WeakSet[Store]] = WeakSet()
"""Stores of the bots of this process."""
_LOST_SEAT: Final = (FencedError, StoreAwayError, StoreRefusedError)
"""Errors after which the bot joins its store again."""


class Run:
    """Run of a bot, from its start to its end.

    `on_failure` is called as soon as an error ends it, and `on_stop` when it begins to drain.

    Attributes:
        ready: Set once deliveries begin, or at the end.
        session: The present or last session.
        arguments: Further arguments of each handler.
        exchange, store, ledger: The client, the store, and its ledger, from the first session on.
    """

    arguments: Mapping[str, Mapping[str, object]]
    exchange: FreightExchange
    store: Store
    ledger: Ledger

    def __init__(self, bot: Bot, on_failure: Callable[[BaseException], None], on_stop: Callable[[], None]) -> None:
        self.options = bot._options
        self.handlers = bot._handlers
        self.metrics = bot._metrics
        self._lifespan = bot._lifespan
        self._expose = None if self.options.port is None else make_exposition(bot)
        self._on_failure = on_failure
        self._on_stop = on_stop
        self._interval = self.options.feed.interval.total_seconds()
        self._thread = threading.get_ident()
        self._young_since = anyio.current_time()
        self._pause: Phase | None = None
        self._is_cancelled = self._was_running = self._is_loss_logged = False
        self._failure: BaseException | None = None
        self._port: OperatorPort | None = None
        self._snapshot: tuple[BotStatus, float] | None = None
        self.stopping = Stopping()
        self.ready = anyio.Event()
        self.is_served = self.has_ended = False
        self.session: Session | None = None

    async def __call__(
        self, exchange: FreightExchange | None, on_failpoint: failpoints.Failpoints = failpoints.no_failpoints
    ) -> None:
        self.is_served = True
        failpoints.active.set(on_failpoint)
        try:
            async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
                if self.options.port is not None:
                    tasks.start_soon(self._reported, self._open_port, self.options.port)
                client = exchange or FreightExchange()
                if not client.entered:
                    await stack.enter_async_context(client)
                self.exchange = client = client._instrumented(self.metrics)
                tasks.start_soon(self._take_snapshots)
                # Reported before the lifespan closes, which may hang.
                work = partial(self._reported, self._work)
                drain = self.options.drain.total_seconds()
                await run_with_lifespan(self._lifespan, client, work, stop=self.stopping, drain=drain)
                tasks.cancel_scope.cancel()
        except BaseException as error:
            self.report(error)
            if self._failure is None:
                raise
        finally:
            self.has_ended = True
            self._snapshot = self._read(), time.monotonic()
            self.ready.set()
            if self._port is not None:
                self._port.close()
        if self._failure is not None:
            raise self._failure.reason if isinstance(self._failure, ProcessEnd) else self._failure

    def stop(self) -> None:
        if not self.stopping:
            self.stopping.begin()
            self._on_stop()
            if self.session is not None:
                self.store.wake("work")
        self.status()

    @property
    def phase(self) -> Phase:
        session = self.session
        if self.has_ended:
            return "stopped"
        if self._pause is not None or session is None:
            return self._pause or "starting"
        if self.stopping or session.failure is not None:
            return "draining"
        return "starting" if session.worker is None else "running"

    def report(self, error: BaseException) -> None:
        """Report the first error that ends the bot; later ones may follow from it."""
        failures = failures_in(error)
        if self._failure is None and failures:
            self._failure = failures[0]
            if not self._is_cancelled:
                self._on_failure(failures[0])

    def report_cancellation(self, error: BaseException) -> None:
        """Report that something else ends the bot, whose error is known only after all tasks have ended."""
        if self._failure is None and not self._is_cancelled:
            self._is_cancelled = True
            self._on_failure(error)

    async def _reported(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        try:
            await work(*args)
        except BaseException as error:
            self.report(error)
            raise

    # Sessions

    async def _work(self, resources: Mapping[str, object]) -> None:
        self.arguments = {one.id: resolve_arguments(one, resources) for one in self.handlers.values()}
        async with AsyncExitStack() as stack:
            store = await self._open_store(stack)
            if store is None:
                return
            self.store = store
            if self.exchange._shared.clock is not None:
                store.clock.follow(self.exchange._shared.clock.read)
            self._young_since = anyio.current_time()
            settle = self.options.settle.total_seconds()
            self.ledger = Ledger(store, self.exchange, settle=settle, interval=self._interval)
            self.metrics.outcomes = self.ledger.outcomes
            await self._run_sessions()

    async def _open_store(self, stack: AsyncExitStack) -> Store | None:
        """Open the store; in standby, wait while another process holds it. Return `None` if the bot is stopped."""
        has_logged = False
        while not self.stopping:
            try:
                store = await stack.enter_async_context(as_store(self.options.feed.store))
                if store in _in_use:
                    raise HeldError(f"{store.place} is in use by another bot of this process", holder="this process")
            except HeldError as error:
                if not self.options.feed.standby:
                    raise
                if not has_logged:
                    _logger.info("standby: %s; this bot takes over once it ends", error)
                has_logged = True
            else:
                _in_use.add(store)
                stack.callback(_in_use.discard, store)
                return store
            await self._wait(_SHORT_PAUSE, "standby")
        return None

    async def _run_sessions(self) -> None:
        login_pause, away_pause, next_log = self._interval, _AWAY_PAUSE, 0.0
        while not self.stopping:
            self._pause = None
            self.session = Session(self)
            began = anyio.current_time()
            try:
                await self.session.run()
            except (*_LOST_SEAT, LoginRejectedError) as error:
                if not self.goes_on(error):
                    raise
                if isinstance(error, LoginRejectedError):
                    # The account may be locked, or its password is being changed.
                    _logger.critical(
                        "%s rejects the login, which it accepted before: %s; the bot tries again",
                        self.exchange._base_url,
                        error,
                    )
                    await self._wait(login_pause, "login-rejected")
                    login_pause = min(2 * login_pause, _MAX_LOGIN_PAUSE)
                    self.exchange.reset_login()
                    continue
                now = anyio.current_time()
                if now - began > _LOG_INTERVAL:
                    away_pause = _AWAY_PAUSE
                if now >= next_log:
                    _logger.warning("the bot has lost its place in the store: %s; joining again", error)
                    next_log, self._is_loss_logged = now + _LOG_INTERVAL, True
                await self._wait(0.0 if isinstance(error, FencedError) else away_pause, "starting")
                if isinstance(error, StoreRefusedError):
                    away_pause = min(2 * away_pause, _LONGEST_PAUSE)
            else:
                return

    async def _wait(self, seconds: float, phase: Phase) -> None:
        self._pause = phase
        with anyio.move_on_after(seconds):
            await self.stopping.wait()

    def set_ready(self) -> None:
        if not self._was_running or self._is_loss_logged:
            # At most once for each logged loss: a store may fail each second.
            _logger.info("running: %s", ", ".join(self.handlers))
        self._was_running, self._is_loss_logged = True, False
        self.status()
        self.ready.set()

    def goes_on(self, error: BaseException) -> bool:
        """Return whether another session follows: not if the database or the login has failed from the start."""
        if isinstance(error, LoginRejectedError):
            return self.exchange.user is not None
        return isinstance(error, FencedError) or (isinstance(error, _LOST_SEAT) and self._was_running)

    async def _open_port(self, port: int) -> None:
        """Open the port. In standby it may be taken until another process has ended.

        Otherwise a second process must fail because of the store, which another one holds, and not because of the port.
        """
        has_logged = False
        while self._port is None:
            try:
                self._port = OperatorPort(self.options.host, port, self.status, self._expose)
            except ConfigurationError as error:
                is_taken = getattr(error.__cause__, "errno", None) == errno.EADDRINUSE
                options = self.options.feed
                may_wait = options.standby or (self.session is None and options.store is not None)
                if not is_taken or not may_wait:
                    raise
                if not has_logged:
                    _logger.warning("%s; waiting for the port", error)
                has_logged = True
                await anyio.sleep(_SHORT_PAUSE)

    # Status

    def status(self) -> BotStatus:
        """Return the status. Any thread may call it, also while the loop is blocked."""
        if self._snapshot is None or (threading.get_ident() == self._thread and not self.has_ended):
            self._snapshot = self._read(), time.monotonic()
        last, at = self._snapshot
        if self.has_ended:
            return last
        # Another thread cannot read the loop's clock, and a blocked loop takes no snapshots.
        passed = time.monotonic() - at
        is_young = passed <= _LIVE_INTERVALS * self._interval
        return attrs.evolve(last, age=last.age + timedelta(seconds=passed), live=last.live and is_young)

    async def _take_snapshots(self) -> None:
        while self.options.port is not None or self.metrics.histograms:
            self.status()
            await anyio.sleep(_SNAPSHOT_PERIOD)

    def _read(self) -> BotStatus:
        session, metrics, ages = self.session, self.metrics, self._ages()
        is_young = all(age <= _LIVE_INTERVALS * interval for age, interval in ages)
        waits = self._pause in ("standby", "starting") or (session is not None and not session.scans)
        return BotStatus(
            state=self.phase,
            live=not self.has_ended and (is_young or waits),
            age=timedelta(seconds=max(age for age, _ in ages)),
            in_flight=len(metrics.in_flight),
            handled=metrics.count_ended("done", "dropped"),
            retried=metrics.count_ended("failed"),
            dead=metrics.count_ended("dead"),
            offers=metrics.outcomes_of("offer"),
            answers=metrics.outcomes_of("answer"),
            address=None if self._port is None or self.has_ended else self._port.address,
            **({} if session is None else session.figures()),
        )

    def _ages(self) -> list[tuple[float, float]]:
        """Return the age of each watermark, or the time since the start if that is less, and the feed's interval."""
        since = anyio.current_time() - self._young_since
        ages = ([] if self.session is None else self.session.ages()) or [(math.inf, self._interval)]
        return [(min(since, age), interval) for age, interval in ages]


class Session:
    """One stay of a bot in its store: join, scan, route, work, and drain.

    Attributes:
        rows: Handlers by their rows in the store.
        worker: Caller of the handlers, once deliveries begin.
        failure: First error, before the tasks have ended.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._store = run.store
        self.rows: Mapping[int, Handler] = {}
        self._sources: dict[str, Source] = {}
        self._scanning = anyio.CancelScope()
        self._has_drained = anyio.Event()
        self._doubts: list[Effect] = []
        self._gaps: tuple[Gap, ...] = ()
        self._overdue: tuple[int, float | None] = 0, None
        self._unrouted = 0
        self.pollers: dict[str, Poller] = {}
        self.worker: Worker | None = None
        self.failure: BaseException | None = None
        self.has_joined = False

    async def run(self) -> None:
        """Run until the bot stops or an error, and raise the first one."""
        try:
            async with anyio.create_task_group() as tasks:
                self._start_task(tasks, self._start, tasks)
                try:
                    await self._run.stopping.wait()
                except BaseException as error:
                    if self.failure is None:
                        self._run.report_cancellation(error)
                    raise
                if self.worker is not None:
                    await self._drain(tasks)
                tasks.cancel_scope.cancel()
        except BaseException as error:
            self.note(error)
            if self.failure is None:
                raise
            raise self.failure from None
        finally:
            self.has_joined = False
            self._overdue = 0, None

    def note(self, error: BaseException) -> None:
        """Report the first error at once, while handlers may still run."""
        if self.failure is None and (failures := failures_in(error)):
            self.failure = failures[0]
            if not self._run.goes_on(self.failure):
                self._run.report(self.failure)

    # Start and end

    async def _start(self, tasks: TaskGroup) -> None:
        run, store, options = self._run, self._store, self._run.options
        account = (await run.exchange._account()).strip().casefold()
        joined = await store.join(
            fleet.Binding(run.exchange._base_url, account, options.feed.name), lease=options.lease.total_seconds()
        )
        self.has_joined = True
        await store.run(work.release_claims, store.me)
        self._start_task(tasks, self._beat)
        await self._log_in()
        reach("before adopt")
        run.ledger.adopt(await store.run(fleet.adopt, store.me))
        reach("after adopt")
        routing = Routing(run)
        self.rows = await routing.introduce()
        await run.ledger.start(joined)
        self._start_task(tasks, run.ledger.run)
        self._make_pollers(is_silent=await store.run(work.is_silent, store.feeds["selected"]))
        self._start_task(tasks, self._scan)
        for name in self.pollers:
            self._start_task(tasks, self._backfill, routing, name)
        if "selected" in self.pollers:
            # What it lists first was selected before, so no offer may come before its first reading.
            await self._primed("selected")
        self._start_task(tasks, routing.run)
        self._start_task(tasks, self._keep_counting)
        self.worker = Worker(run, self)
        self._start_task(tasks, self._work, self.worker)
        run.set_ready()

    def _start_task(self, tasks: TaskGroup, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        async def reported() -> None:
            try:
                await work(*args)
            except BaseException as error:
                self.note(error)
                raise

        tasks.start_soon(reported)

    async def _log_in(self) -> None:
        """Log in, and look up what filters need. While the service is away, try again after 1, 2, 4 ... 30 s."""
        pause, exchange = 1.0, self._run.exchange
        while True:
            try:
                await exchange.login()
                for handler in self._run.handlers.values():
                    await handler.load_codes(exchange.currencies.by_code)
            except FreightExchangeError as error:
                if isinstance(error, LoginRejectedError) or not is_transient(error):
                    raise
                wait = max(pause, retry_delay(error) or 0.0)
                _logger.warning("cannot log in at %s: %s; retrying in %.0f s", exchange._base_url, error, wait)
            else:
                return
            await anyio.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _work(self, worker: Worker) -> None:
        try:
            await worker.run()
        finally:
            self._has_drained.set()

    async def _drain(self, tasks: TaskGroup) -> None:
        in_flight, limit = self._run.metrics.in_flight, self._run.options.drain
        self._scanning.cancel()
        if in_flight:
            _logger.info("draining: waiting for %d handlers, at most %s", len(in_flight), limit)
        with anyio.move_on_after(limit.total_seconds()) as scope:
            await self._has_drained.wait()
        if scope.cancelled_caught:
            _logger.warning("the drain timed out: %d handlers are cancelled, and called again later", len(in_flight))
        tasks.cancel_scope.cancel()
        with anyio.move_on_after(_CANCELLATION_GRACE, shield=True):
            await self._has_drained.wait()
        if in_flight:
            _logger.critical("handlers ignore their cancellation: %s; the bot waits until they end", str(in_flight))

    # Tasks

    async def _beat(self) -> None:
        """Renew the lease, and adopt what other replicas have left, until cancelled."""
        store = self._store
        shared_period = self._run.options.lease.total_seconds() / 3
        period = _INLINE_PERIOD if store.is_inline else shared_period if store.is_shared else _ALONE_PERIOD
        while True:
            await anyio.sleep(period)
            if store.is_shared:
                await store.run(fleet.beat, store.me, store.stamp[0])
            self._run.ledger.adopt(await store.run(fleet.adopt, store.me, store.writes))

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
            self._gaps = tuple(admin.gaps(db, store.binding))
            self._doubts = self._run.ledger.doubts(db)
            self._unrouted = sum(feeds.count_open(db, store.feeds[name]) for name in self.pollers) if scans else 0
            self._overdue = work.count_overdue(db, [*self.rows]) if scans else (0, None)

        await store.run(read)

    # Feeds

    def _make_pollers(self, *, is_silent: bool) -> None:
        store, options, (service, client) = self._store, self._run.options, self._run.exchange._feed_parts()
        kinds = {kind for handler in self._run.handlers.values() for kind in handler.filters}
        # What cannot be read is told with what is watched anyway.
        wanted = {FEED_OF[kind][0] for kind in kinds if kind != "unreadable" or len(kinds) == 1}
        sources: list[Source] = [Requests(service), Offers(service), SelectedBids(service, store.feeds["requests"])]
        for source in (one for one in sources if one.name in wanted):
            is_requests, is_selected = source.name == "requests", source.name == "selected"
            interval = options.selection_interval if is_selected else options.feed.interval
            poll = attrs.evolve(
                options.feed,
                name=options.feed.name if is_requests else f"{options.feed.name}: {source.name}",
                start="backfill"
                if source.name == "offers"
                else "now"
                if is_selected and is_silent
                else options.feed.start,
                interval=interval,
            )
            self.pollers[source.name] = Poller(source, store, store.feeds[source.name], poll, client)
            self._sources[source.name] = source

    async def _scan(self) -> None:
        with self._scanning:
            async with anyio.create_task_group() as tasks:
                for poller in self.pollers.values():
                    tasks.start_soon(poller.run)

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
        clock = self._run.exchange._feed_parts()[1].clock
        while True:
            text = await self._store.run(feeds.load_state, self._store.feeds[name])
            if text is not None and State.load(text, clock.read()).is_primed:
                return
            await anyio.sleep(_SHORT_PAUSE)

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

    @property
    def scans(self) -> bool:
        """`False` while another replica scans for this one."""
        is_alone = not self.has_joined or not self.pollers or not self._store.is_shared
        return is_alone or any(one.is_scanning for one in self.pollers.values())

    def figures(self) -> dict[str, Any]:
        """Return what the bot's status has of this session; of each feed, if this replica scans it."""
        scanning = {name: one for name, one in self.pollers.items() if one.is_scanning}
        scans, feed, offer_feed = self.scans, scanning.get("requests"), scanning.get("offers")
        waiting, since = self._overdue
        waited = 0.0 if since is None else max(0.0, self._store.now - since)
        is_parked = [one.state == "parked" for one in self._doubts]
        return {
            "feed": feed
            and FeedStatus(
                window=timedelta(seconds=feed.window),
                allowance=self._run.options.feed.allowance,
                gaps=self._gaps,
                **feed.status(self._unrouted),
            ),
            "offer_feed": offer_feed
            and OfferFeedStatus(
                requests=offer_feed.subjects, offers=offer_feed.items, **offer_feed.status(self._unrouted)
            ),
            "waiting": waiting,
            "waited": timedelta(seconds=waited),
            "in_doubt": is_parked.count(False),
            "parked": is_parked.count(True),
            "scans": scans,
        }
