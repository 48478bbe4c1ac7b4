"""Supervisor of a bot's run: one session after another until a stop or an error."""

from __future__ import annotations

import errno
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import anyio
import attrs

from freight_exchange.bot import failpoints
from freight_exchange.bot.context import Stopping
from freight_exchange.bot.handler import resolve_arguments
from freight_exchange.bot.ledger import Ledger
from freight_exchange.bot.lifespan import run_with_lifespan
from freight_exchange.bot.metrics import make_exposition
from freight_exchange.bot.port import OperatorPort
from freight_exchange.bot.process import CLOSE_TIMEOUT
from freight_exchange.bot.session import Parts, Session
from freight_exchange.bot.status import BotStatus
from freight_exchange.bot.tasks import find_failure, unwrap_errors
from freight_exchange.client import FreightExchange
from freight_exchange.errors import ConfigurationError, FencedError, HeldError, LoginRejectedError, StoreAwayError
from freight_exchange.store.database import Store, as_store
from freight_exchange.store.errors import HeldHereError, StoreRefusedError

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from freight_exchange.bot.bot import Bot
    from freight_exchange.bot.status import Phase

_logger = logging.getLogger("freight_exchange.bot")

_LIVE_INTERVALS: Final = 3
"""A bot is live while its watermark is younger than this many intervals."""
_MAX_LOGIN_PAUSE: Final = 900.0
_AWAY_PAUSE, _MAX_REFUSED_PAUSE = 1.0, 30.0
_LOG_INTERVAL: Final = 60.0
_STANDBY_PAUSE: Final = 0.5
_SNAPSHOT_PERIOD: Final = 1.0
_in_use: Final[WeakSet[Store]] = WeakSet()
"""Stores of the bots of this process."""
_LOST_SEAT: Final = (FencedError, StoreAwayError, StoreRefusedError)
"""Errors after which the bot joins its store again."""


class Supervisor:
    """Run of a bot, from its start to its end. `on_failure` is called as soon as an error ends it.

    `ready` is set once deliveries begin, or at the end. `session` is the present or last one.
    """

    def __init__(self, bot: Bot, on_failure: Callable[[BaseException], None]) -> None:
        self._options = options = bot._options
        self._handlers = bot._handlers
        self._lifespan = bot._lifespan
        self._metrics = bot._metrics
        self._expose = None if options.port is None else make_exposition(bot)
        self._on_failure = on_failure
        self._interval = options.interval.total_seconds()
        self._thread = threading.get_ident()
        self._young_since = anyio.current_time()
        self._state: Phase | None = None
        self._is_reported = self._was_running = self._is_lost_logged = False
        self._port: OperatorPort | None = None
        self._snapshot: tuple[BotStatus, float] | None = None
        self.stopping = Stopping()
        self.ready = anyio.Event()
        self.is_served = False
        self.has_ended = False
        self.session: Session | None = None

    async def __call__(
        self, exchange: FreightExchange | None, on_failpoint: failpoints.Failpoints = failpoints.no_failpoints
    ) -> None:
        self.is_served = True
        failpoints.active.set(on_failpoint)
        try:
            with unwrap_errors():
                async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
                    if self._options.port is not None:
                        await tasks.start(self._open_port)
                    client = exchange or FreightExchange()
                    if not client.entered:
                        await stack.enter_async_context(client)
                    client = client._instrumented(self._metrics)
                    tasks.start_soon(self._take_snapshots)

                    async def work(resources: Mapping[str, object]) -> None:
                        # Reported before the lifespan closes, which may hang.
                        try:
                            arguments = {one.id: resolve_arguments(one, resources) for one in self._handlers.values()}
                            await self._work(client, arguments)
                        except BaseException as error:
                            self._report(find_failure(error))
                            raise

                    drain = self._options.drain.total_seconds()
                    await run_with_lifespan(self._lifespan, client, work, stop=self.stopping, drain=drain)
                    tasks.cancel_scope.cancel()
        except BaseException as error:
            self._report(find_failure(error))
            raise
        finally:
            self._snapshot = attrs.evolve(self._read(), state="stopped", live=False, address=None), time.monotonic()
            self.has_ended = True
            self.ready.set()
            if self._port is not None:
                self._port.close()

    def stop(self) -> None:
        """Drain, then end."""
        if not self.stopping:
            self.stopping.begin()
            if self.session is not None:
                self.session.parts.store.wake("work")
        self.status()

    def abandon(self) -> None:
        """Keep this replica's claims and leases in the store, as the end of a process does."""
        if self.session is not None:
            self.session.parts.store.me = 0

    def _report(self, failure: BaseException | None) -> None:
        """Report the first error that ends the bot; later ones may follow from it."""
        if failure is not None and not self._is_reported:
            self._is_reported = True
            self._on_failure(failure)

    # Sessions

    async def _work(self, client: FreightExchange, arguments: Mapping[str, Mapping[str, object]]) -> None:
        async with AsyncExitStack() as stack:
            store = await self._open_store(stack)
            if store is None:
                return
            if client._shared.clock is not None:
                store.clock.follow(client._shared.clock.read)
            self._young_since = anyio.current_time()
            ledger = Ledger(store, client, settle=self._options.settle.total_seconds(), interval=self._interval)
            parts = Parts(
                options=self._options, handlers=self._handlers, arguments=arguments, exchange=client, store=store,
                ledger=ledger, metrics=self._metrics, stopping=self.stopping,
            )  # fmt: skip
            self._metrics.outcomes = ledger.outcomes
            await self._run_sessions(parts, client)

    async def _open_store(self, stack: AsyncExitStack) -> Store | None:
        """Open the store; in standby, wait while another process holds it. Return `None` if the bot is stopped."""
        has_logged = False
        while not self.stopping:
            try:
                store = await stack.enter_async_context(as_store(self._options.store))
                if store in _in_use:
                    raise HeldHereError(
                        f"{store.place} is in use by another bot of this process", holder="this process"
                    )
            except HeldError as error:
                if not self._options.standby:
                    raise
                if not has_logged:
                    _logger.info("standby: %s; this bot takes over once it ends", error)
                has_logged = True
            else:
                _in_use.add(store)
                stack.callback(_in_use.discard, store)
                return store
            await self._wait(_STANDBY_PAUSE, "standby")
        return None

    async def _run_sessions(self, parts: Parts, client: FreightExchange) -> None:
        login_pause = self._interval
        away_pause, next_log = _AWAY_PAUSE, 0.0
        while not self.stopping:
            self._state = None
            session = self.session = Session(
                parts, self._set_ready, lambda error: self._on_session_failure(error, client)
            )
            began = anyio.current_time()
            try:
                await session.run()
            except (*_LOST_SEAT, LoginRejectedError) as error:
                if not self._goes_on(error, client):
                    raise
                if isinstance(error, LoginRejectedError):
                    await self._wait(login_pause, "login-rejected")
                    login_pause = min(2 * login_pause, _MAX_LOGIN_PAUSE)
                    client.reset_login()
                    continue
                if anyio.current_time() - began > _LOG_INTERVAL:
                    away_pause = _AWAY_PAUSE
                if anyio.current_time() >= next_log:
                    _logger.warning("the bot has lost its place in the store: %s; joining again", error)
                    next_log, self._is_lost_logged = anyio.current_time() + _LOG_INTERVAL, True
                await self._wait(away_pause if not isinstance(error, FencedError) else 0.0, "starting")
                if isinstance(error, StoreRefusedError):
                    away_pause = min(2 * away_pause, _MAX_REFUSED_PAUSE)
            else:
                return

    def _set_ready(self) -> None:
        if not self._was_running or self._is_lost_logged:
            # At most once for each logged loss: a store may fail each second.
            _logger.info("running: %s", ", ".join(self._handlers))
        self._was_running, self._is_lost_logged = True, False
        self.status()
        self.ready.set()

    def _goes_on(self, error: BaseException, client: FreightExchange) -> bool:
        """Return whether another session follows: not if the database or the login has failed from the start."""
        if isinstance(error, LoginRejectedError):
            return client.user is not None
        return isinstance(error, FencedError) or (isinstance(error, _LOST_SEAT) and self._was_running)

    def _on_session_failure(self, error: BaseException, client: FreightExchange) -> None:
        if not self._goes_on(error, client):
            self._report(error)
        elif isinstance(error, LoginRejectedError):
            # The account may be locked, or its password is being changed.
            _logger.critical(
                "%s rejects the login, which it accepted before: %s; the bot drains, and tries again",
                client._base_url,
                error,
            )

    async def _wait(self, seconds: float, state: Phase) -> None:
        self._state = state
        with anyio.move_on_after(seconds):
            await self.stopping.wait()

    async def _open_port(self, *, task_status: TaskStatus[None]) -> None:
        """Open the port. In standby another process may hold it, until its drain and its lifespan have ended.

        Otherwise a second process must fail because of the store, which another one holds, and not because of the port.
        """
        options, is_first = self._options, True
        assert options.port is not None
        left = options.drain.total_seconds() + CLOSE_TIMEOUT if options.standby else _STANDBY_PAUSE
        while self._port is None:
            if not is_first:
                await anyio.sleep(_STANDBY_PAUSE)
                if self.session is not None and self.session.has_joined:
                    left -= _STANDBY_PAUSE
            try:
                self._port = OperatorPort(options.host, options.port, self.status, self._expose)
            except ConfigurationError as error:
                is_taken = getattr(error.__cause__, "errno", None) == errno.EADDRINUSE
                if not is_taken or left <= 0 or (options.store is None and not options.standby):
                    self._report(error)
                    raise
                if is_first:
                    _logger.warning("%s; waiting for the port", error)
            if is_first:
                task_status.started()
            is_first = False

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
        while self._options.port is not None or self._metrics.histograms:
            self.status()
            await anyio.sleep(_SNAPSHOT_PERIOD)

    def _read(self) -> BotStatus:
        session, metrics = self.session, self._metrics
        state = self._state or ("starting" if session is None else session.phase)
        if self.has_ended:
            state = "stopped"
        scans = session is None or session.scans
        ages = self._ages()
        is_young = all(age <= _LIVE_INTERVALS * interval for age, interval in ages)
        waits = self._state in ("standby", "starting") or (session is not None and session.has_joined and not scans)
        waiting, waited = 0, 0.0
        if session is not None and scans and state != "stopped":
            waiting, since = session.overdue
            waited = 0.0 if since is None else max(0.0, session.parts.store.now - since)
        doubts = [] if session is None else session.doubts
        return BotStatus(
            state=state,
            live=state != "stopped" and (is_young or waits),
            age=timedelta(seconds=max(age for age, _ in ages)),
            feed=None if session is None else session.feed_status(),
            offer_feed=None if session is None else session.offer_feed_status(),
            in_flight=len(metrics.in_flight),
            waiting=waiting,
            waited=timedelta(seconds=waited),
            handled=metrics.count_ended("done", "dropped"),
            retried=metrics.count_ended("failed"),
            dead=metrics.count_ended("dead"),
            offers=metrics.outcomes_of("offer"),
            answers=metrics.outcomes_of("answer"),
            in_doubt=sum(one.state != "parked" for one in doubts),
            parked=sum(one.state == "parked" for one in doubts),
            scans=scans,
            address=None if self._port is None else self._port.address,
        )

    def _ages(self) -> list[tuple[float, float]]:
        """Return the age of each watermark, or the time since the start if that is less, and the feed's interval."""
        since = anyio.current_time() - self._young_since
        ages = ([] if self.session is None else self.session.ages()) or [(math.inf, self._interval)]
        return [(min(since, age), interval) for age, interval in ages]
