"""The bot: handlers on a feed, for months."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, Self

import anyio

from freight_exchange.bot import lifespan as lifespans
from freight_exchange.bot.failpoints import nowhere
from freight_exchange.bot.metrics import Metrics
from freight_exchange.bot.ops.status import BotStatus, DeadLetter, Doubt
from freight_exchange.bot.outcomes import ProcessEnd
from freight_exchange.bot.process import run
from freight_exchange.bot.router import Router
from freight_exchange.bot.session import NAME, BotOptions
from freight_exchange.bot.shutdown import cause, ignore_failure
from freight_exchange.bot.supervisor import Operators, Supervisor
from freight_exchange.client import FreightExchange
from freight_exchange.errors import ConfigurationError
from freight_exchange.feed import factory
from freight_exchange.options import seconds
from freight_exchange.store.work import NO_LIMIT
from freight_exchange.transport.background import BackgroundTask, BackgroundTasks

if TYPE_CHECKING:
    from types import TracebackType

    from freight_exchange.bot.failpoints import Failpoints
    from freight_exchange.bot.lifespan import Lifespan
    from freight_exchange.bot.router import Handler
    from freight_exchange.bot.session import Components
    from freight_exchange.bot.shutdown import Ending
    from freight_exchange.feed.journal import Start
    from freight_exchange.store import Store

__all__ = ["Bot"]

_logger = logging.getLogger("freight_exchange.bot")

_MOST_CONCURRENCY: Final = 1000


class Bot(Router):
    """Calls handlers for what a feed brings, for months: at least once each, and never with two offers for one.

        bot = Bot(store="bot.db")

        @bot.on_new(type=RequestType.SHIPPING, origin={"Hong Kong", "Shenzhen"}, max_volume=60)
        async def quote(request, ctx):
            await ctx.offer(amount=1840, currency="USD")

        bot.run()

    `run()` is a whole process, with signals and an exit status; `async with bot:` and `await bot.serve()` run it inside
    an application that has its own loop, asyncio or trio. What the bot has not yet done lies in its store, and a later
    run goes on with it.

    Args:
        exchange: The client; unless given, one is made from the environment when the bot starts. It is entered and
            closed only if it was not entered already.
        store: Where the bot keeps what it knows: the path of an SQLite file, a store of `freight_exchange.store`, or
            `None` for memory, which ends with the run.
        start: What the first run hands over, as for `exchange.watch`.
        interval: From one scan to the next, as for `exchange.watch`.
        concurrency: How many deliveries may be at their handlers at a time.
        drain: How long handlers have to end when the bot is stopped.
        lifespan: What handlers share: a function, of the client or of nothing, that gives an async context manager,
            or an async generator that yields once. What it yields, a mapping of names to resources or a single
            resource, is handed to handlers that have a parameter of that name or type.
        port: Where `/livez`, `/readyz` and `/metrics` are answered; 0 for any free port, which `status()` tells.
        host: The address of that port; this machine alone, unless told.
        settle: How long the service may take to show an offer: absence is proof only after that.
        selection_interval: From one look for selected bids to the next, a second at least.
        allowance: How long the service may take to show an update, as for `exchange.watch`.
        name: Tells apart bots that share a store, and a bot from what `exchange.watch` keeps in it.
        standby: Whether to wait where another process holds the store, instead of raising `HeldError`; and where one
            has the port, until it has had the time of a drain to end.

    Raises:
        ConfigurationError: An argument cannot be right.
    """

    def __init__(
        self,
        exchange: FreightExchange | None = None,
        *,
        store: Store | str | os.PathLike[str] | None,
        start: Start = "now",
        interval: timedelta = timedelta(seconds=30),
        concurrency: int = 8,
        drain: timedelta = timedelta(seconds=25),
        lifespan: Lifespan | None = None,
        port: int | None = None,
        host: str = "127.0.0.1",
        settle: timedelta = timedelta(seconds=30),
        selection_interval: timedelta = timedelta(minutes=2),
        allowance: timedelta = timedelta(seconds=60),
        name: str = NAME,
        standby: bool = False,
    ) -> None:
        super().__init__()
        if exchange is not None and not isinstance(exchange, FreightExchange):
            raise ConfigurationError(f"exchange must be a FreightExchange, not a {type(exchange).__name__}")
        _whole(concurrency, "concurrency", 1, _MOST_CONCURRENCY)
        if lifespan is not None and not callable(lifespan):
            raise ConfigurationError(f"lifespan must be a function, not a {type(lifespan).__name__}")
        if lifespan is not None:
            lifespans.check(lifespan)
        if port is not None:
            _whole(port, "port", 0, 65535)
        if not isinstance(host, str) or not host:
            raise ConfigurationError(f"host must be a text that is not empty, not {host!r}")
        factory.check(
            factory.WatchOptions(
                store=store,
                start=start,
                interval=interval,
                allowance=allowance,
                where=None,
                name=name,
                standby=standby,
            )
        )
        self._exchange = exchange
        self._lifespan = lifespans.nothing if lifespan is None else lifespan
        self._operators = Operators(host, port, self.status)
        self._options = BotOptions(
            store=store,
            start=start,
            interval=interval,
            allowance=allowance,
            concurrency=concurrency,
            drain=_duration(drain, "drain", zero=True),
            settle=_duration(settle, "settle", zero=True),
            selection_interval=_pace(selection_interval, "selection_interval"),
            name=name,
            standby=standby,
        )
        self._metrics = Metrics()
        self._supervisor: Supervisor | None = None
        self._job: BackgroundTask[None] | None = None

    def _take(self, handlers: dict[str, Handler]) -> None:
        if self._active_supervisor() is not None:
            raise ConfigurationError("this bot runs already: register its handlers before it starts")
        super()._take(handlers)

    # Running

    def run(self, *, backend: Literal["asyncio", "trio"] = "asyncio") -> None:
        """Be the process: run until SIGTERM or SIGINT, drain, and return.

        A second signal ends it at once. The exit status, where it is not 0 after a clean drain:

        - 1: a bug, whose traceback is shown, or a handler that left by `sys.exit()`;
        - 70: a handler, or the lifespan, did not end with the drain, and was ended with the process, as by a crash;
        - 73: the store cannot be used; 75: another process holds it;
        - 76: the service is not what was expected: wrong URL, wrong certificate;
        - 77: the service rejected the email or password;
        - 78: the configuration is wrong;
        - 128 and the signal's number: ended at once by a second signal.

        Raises:
            SystemExit: With that status.
            ConfigurationError: It cannot be the process here: an event loop runs already, or this is not the main
                thread. `await bot.serve()` and `async with bot:` do the same there. Or there is no such backend.
        """
        run(self, self._metrics.at_work, self._options.drain.total_seconds(), backend)

    async def serve(self, *, exchange: FreightExchange | None = None, failpoints: Failpoints = nowhere) -> None:
        """Run until `stop()`, or until what does not pass.

        Args:
            exchange: A client to use in place of the bot's own, in tests the sandbox's.
            failpoints: Told before and after each durable step, for tests that crash a bot.

        Raises:
            ConfigurationError: The bot runs already, has no handler, or a handler wants what `lifespan` does not give;
                `lifespan` gives nothing that can be entered; or the port is taken.
            LoginRejectedError: The service rejected the email or password, and never took them.
            StoreError: The store cannot be used.
        """
        try:
            await self._serve(exchange, failpoints)
        except ProcessEnd as end:
            raise end.reason from None

    async def _serve(self, exchange: FreightExchange | None = None, failpoints: Failpoints = nowhere) -> None:
        await self._begin_supervisor()(exchange or self._exchange, failpoints)

    def begin(self, ending: Ending = ignore_failure) -> anyio.Event:
        """Take the bot for the `serve()` that follows: from here on `stop()` is heard.

        Args:
            ending: Called as soon as something ends the bot, or a run of it, other than `stop()`.

        Returns:
            What `stop()` sets.

        Raises:
            ConfigurationError: The bot runs already, or has no handler.
        """
        return self._begin_supervisor(ending).stopping

    def _begin_supervisor(self, ending: Ending = ignore_failure) -> Supervisor:
        if (supervisor := self._active_supervisor()) is not None:
            if supervisor.is_served:
                raise ConfigurationError("this bot runs already: stop it first, or make another")
            return supervisor
        if not self._handlers:
            raise ConfigurationError("this bot has no handler: register one, or include the router that has them")
        self._supervisor = Supervisor(
            self._options, self._handlers, self._lifespan, self._operators, self._metrics, ending
        )
        return self._supervisor

    def _active_supervisor(self) -> Supervisor | None:
        """The life that has begun, and has not ended."""
        return None if self._supervisor is None or self._supervisor.has_ended else self._supervisor

    @property
    def is_stopping(self) -> bool:
        """Whether `stop()` was called."""
        return (supervisor := self._active_supervisor()) is not None and supervisor.stopping.is_set()

    def stop(self) -> None:
        """Drain, and end: nothing more is begun, and handlers have `drain` to end. From the bot's own loop."""
        if (supervisor := self._active_supervisor()) is not None:
            supervisor.stop()

    async def __aenter__(self) -> Self:
        """Start the bot beside the block, which begins once it hands over deliveries.

        What ends the bot before the block does is logged, told by `status()`, and raised when the block ends.
        """
        supervisor = self._begin_supervisor()
        job = self._job = BackgroundTasks().start(self._serve_beside, supervisor.ready.set, log_errors=False)
        try:
            await supervisor.ready.wait()
        except BaseException:
            await self._end(job)
            raise
        if job.is_finished:
            await self._ended(job)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._job is not None:
            await self._end(self._job)

    async def _serve_beside(self) -> None:
        try:
            await self._serve()
        except BaseException as error:
            # What ends the process does so when the block is left, and was told where it was raised.
            if cause(error) is not None and not isinstance(error, ProcessEnd):
                _logger.critical("the bot has ended, and what it runs beside goes on", exc_info=True)
            raise

    async def _end(self, job: BackgroundTask[None]) -> None:
        self.stop()
        with anyio.CancelScope(shield=True):
            await job.wait_finished()
        await self._ended(job)

    async def _ended(self, job: BackgroundTask[None]) -> None:
        """Raise what the bot ended by, if that was no drain."""
        self._job = None
        try:
            await job.wait()
        except ProcessEnd as end:
            raise end.reason from None

    # What operators ask and say

    def status(self) -> BotStatus:
        """How the bot is, or was when it ended. While it runs, ask from its own loop."""
        supervisor, metrics = self._supervisor, self._metrics
        run = None if supervisor is None else supervisor.run
        components = None if run is None else run.components
        doubts = () if components is None else components.ledger.doubts.entries()
        deliveries = None if components is None or self._active_supervisor() is None else components.deliveries
        return BotStatus(
            state="stopped" if supervisor is None else supervisor.state,
            live=supervisor is not None and supervisor.live(),
            age=timedelta(0) if supervisor is None else supervisor.age(),
            feed=None if run is None else run.feed_status(),
            in_flight=len(metrics.at_work),
            waiting=0 if deliveries is None else deliveries.waiting,
            waited=timedelta(seconds=0.0 if deliveries is None else deliveries.waited),
            handled=metrics.ended("done") + metrics.ended("dropped"),
            retried=metrics.ended("failed"),
            dead=metrics.ended("dead"),
            offers=dict(metrics.offers),
            in_doubt=sum(not entry.parked for entry in doubts),
            parked=sum(entry.parked for entry in doubts),
            address=None if supervisor is None else supervisor.address,
        )

    async def dead_letters(self) -> Sequence[DeadLetter]:
        """The deliveries that were given up, the oldest first."""
        found = await self._running().unit_of_work.read(lambda store: store.deliveries(state="dead", limit=NO_LIMIT))
        return [DeadLetter.of(dead) for dead in found]

    async def replay(self, event: int, handler: str) -> bool:
        """Try a dead delivery again, as if for the first time; whether there was one.

        Raises:
            ConfigurationError: There is one, and the bot has no handler for it any more: it stays a dead letter. Or the
                bot does not run.
        """
        components = self._running()
        if handler not in self._handlers:
            if any((letter.event, letter.handler) == (event, handler) for letter in await self.dead_letters()):
                raise ConfigurationError(
                    f"this bot has no handler {handler!r} any more, which the dead letter is for: it is kept, to be "
                    "replayed when a handler has that id again"
                )
            return False
        now = components.unit_of_work.time()
        found = await components.unit_of_work.write("settle", lambda store: store.replay(event, handler, at=now))
        components.deliveries.wake()
        return found

    async def doubts(self) -> Sequence[Doubt]:
        """The offers of which it is not known whether the service took them, the oldest first."""
        components = self._running()
        return [Doubt.of(entry, components.unit_of_work.moment) for entry in components.ledger.doubts.entries()]

    async def resolve(self, request: int, *, taken: bool, revision: int = 0) -> None:
        """End a doubt, or undo a refusal, by what a person has seen on the service's own pages. Whoever leaves in the
        middle leaves it to be done.

        Args:
            request, revision: Which offer.
            taken: Whether the service has it. If not, its handler makes it when it is called again. For an offer in
                doubt it is: its delivery is replayed where it is dead by now, and where it is done, or the handler is
                gone, so that nothing makes the offer again, an error is logged. For one that was refused `replay` its
                dead letter.

        Raises:
            ValidationError: That offer is not in doubt, nor was it refused; or an argument cannot be right.
            ConfigurationError: The bot does not run, or has ended before it was done.
        """
        await self._running().ledger.resolve(request, revision, taken=taken)

    async def acknowledge_gaps(self) -> int:
        """Acknowledge the gaps that no handler took; how many there were."""
        return await self._running().feed.acknowledge_gaps()

    def _running(self) -> Components:
        run = None if self._supervisor is None else self._supervisor.run
        if run is None or run.phase not in ("running", "draining") or run.components is None or run.is_over:
            raise ConfigurationError("this bot does not run: ask it while it does")
        return run.components


def _whole(value: object, name: str, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigurationError(f"{name} must be a whole number from {least} to {most}, not {value!r}")


def _duration(value: timedelta, name: str, *, zero: bool = False) -> timedelta:
    if zero and value == timedelta(0):
        return value
    if not isinstance(value, timedelta):
        raise ConfigurationError(f"{name} must be a timedelta, not {type(value).__name__}")
    seconds(value, name)
    return value


def _pace(value: timedelta, name: str) -> timedelta:
    if _duration(value, name) < factory.LEAST_INTERVAL:
        raise ConfigurationError(f"{name} must be at least one second, to spare the service, not {value}")
    return value
