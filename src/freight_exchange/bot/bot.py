"""The bot: handlers on a feed, for months."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import anyio
import attrs

from freight_exchange.bot import operations, resources
from freight_exchange.bot.ending import Ending, Telling, cause, telling, untold
from freight_exchange.bot.handlers import Router
from freight_exchange.bot.outcomes import ProcessEnd, told
from freight_exchange.bot.points import nowhere
from freight_exchange.bot.process import TO_CLOSE, run
from freight_exchange.bot.run import INTERVALS_ALIVE, Phase, Plan, Run, plainly
from freight_exchange.bot.status import BotStatus, DeadLetter, Doubt
from freight_exchange.bot.tally import Tally
from freight_exchange.client import FreightExchange
from freight_exchange.errors import ConfigurationError, LoginRejectedError
from freight_exchange.feed import opening
from freight_exchange.options import seconds
from freight_exchange.store import MemoryStore
from freight_exchange.store.work import EVERY
from freight_exchange.transport.tasks import Job, Jobs

if TYPE_CHECKING:
    from types import TracebackType

    from anyio.abc import TaskStatus

    from freight_exchange.bot.handlers import Handler
    from freight_exchange.bot.points import Points
    from freight_exchange.bot.resources import Lifespan
    from freight_exchange.feed.journal import Start
    from freight_exchange.store import Store

__all__ = ["Bot"]

_logger = logging.getLogger("freight_exchange.bot")

_LONGEST_PAUSE: Final = 900.0
_FOR_THE_STORE: Final = 0.5
"""Seconds for which a taken port is tried again once the store is the bot's."""
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
        selection_interval: From one look for selected bids to the next.
        allowance: How long the service may take to show an update, as for `exchange.watch`.
        name: Tells apart bots that share a store.
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
        name: str = "requests",
        standby: bool = False,
    ) -> None:
        super().__init__()
        if exchange is not None and not isinstance(exchange, FreightExchange):
            raise ConfigurationError(f"exchange must be a FreightExchange, not a {type(exchange).__name__}")
        _whole(concurrency, "concurrency", 1, _MOST_CONCURRENCY)
        if lifespan is not None and not callable(lifespan):
            raise ConfigurationError(f"lifespan must be a function, not a {type(lifespan).__name__}")
        if lifespan is not None:
            resources.check(lifespan)
        if port is not None:
            _whole(port, "port", 0, 65535)
        if not isinstance(host, str) or not host:
            raise ConfigurationError(f"host must be a text that is not empty, not {host!r}")
        opening.check(
            opening.Arguments(
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
        self._lifespan = resources.nothing if lifespan is None else lifespan
        self._port = port
        self._host = host
        self._plan = Plan(
            store=store,
            start=start,
            interval=interval,
            allowance=allowance,
            concurrency=concurrency,
            drain=_duration(drain, "drain", zero=True),
            settle=_duration(settle, "settle", zero=True),
            selection_interval=_duration(selection_interval, "selection_interval"),
            name=name,
            standby=standby,
        )
        self._tally = Tally()
        self._run: Run | None = None
        self._begins = False
        self._has_told = False
        self._ending: Ending = untold
        self._stop: anyio.Event | None = None
        self._began = 0.0
        self._waits_for_login = False
        self._address: tuple[str, int] | None = None
        self._job: Job[None] | None = None
        self._ready: anyio.Event | None = None

    def _take(self, handlers: dict[str, Handler]) -> None:
        if self._stop is not None:
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
        run(self, self._tally.at_work, self._plan.drain.total_seconds(), backend)

    async def serve(self, *, exchange: FreightExchange | None = None, points: Points = nowhere) -> None:
        """Run until `stop()`, or until what does not pass.

        Args:
            exchange: A client to use in place of the bot's own, in tests the sandbox's.
            points: Told before and after each durable step, for tests that crash a bot.

        Raises:
            ConfigurationError: The bot runs already, has no handler, or a handler wants what `lifespan` does not give;
                `lifespan` gives nothing that can be entered; or the port is taken.
            LoginRejectedError: The service rejected the email or password, and never took them.
            StoreError: The store cannot be used.
        """
        try:
            await self._serve(exchange, points)
        except ProcessEnd as end:
            raise end.reason from None

    async def _serve(self, exchange: FreightExchange | None = None, points: Points = nowhere) -> None:
        stop = self.begin()
        self._begins = False
        store = MemoryStore() if self._plan.store is None else self._plan.store
        try:
            with plainly():
                async with anyio.create_task_group() as tasks:
                    if self._port is not None:
                        answering = partial(self._answer, self._port)
                        if self._plan.standby:
                            Telling(tasks, self._ends).start_soon(answering)
                        else:
                            await tasks.start(answering)
                    async with self._client(exchange) as client:

                        async def work(shared: Mapping[str, object]) -> None:
                            # Before what handlers share is closed, which may not end.
                            with telling(self._ends):
                                given = resources.arguments(self, shared)
                                await self._keep_running(partial(self._new_run, store, given, client, points), client)

                        drain = self._plan.drain.total_seconds()
                        await resources.using(self._lifespan, client, work, tasks=tasks, stop=stop, drain=drain)
                    tasks.cancel_scope.cancel()
        finally:
            self._stop = self._address = None

    async def _answer(self, port: int, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Answer at the operator's port, for ever. With `standby` that may be another process's for as long as it has
        the store, and until it has ended: its handlers by its drain, and then what they share. Without, whoever has the
        store is to be told of, and not of its port."""
        patience = self._plan.drain.total_seconds() + TO_CLOSE if self._plan.standby else 0.0
        try:
            listener, self._address = await operations.listening(
                self._host, port, patience=patience, after=self._has_begun
            )
        except ConfigurationError as error:
            another_may_hold_it = self._plan.store is not None and not self._plan.standby
            if not another_may_hold_it or getattr(error.__cause__, "errno", None) != errno.EADDRINUSE:
                raise
            task_status.started()
            with telling(self._ends):
                listener, self._address = await operations.listening(
                    self._host, port, patience=_FOR_THE_STORE, after=self._has_begun
                )
        else:
            task_status.started()
        await operations.serve(listener, self.status, self._tally)

    def _has_begun(self) -> bool:
        """Whether the store is the bot's."""
        return self._run is not None and self._run.feed.hold.taken

    def begin(self, ending: Ending = untold) -> anyio.Event:
        """Take the bot for the `serve()` that follows: from here on `stop()` is heard.

        Args:
            ending: Called as soon as something ends the bot, or a run of it, other than `stop()`.

        Returns:
            What `stop()` sets.

        Raises:
            ConfigurationError: The bot runs already, or has no handler.
        """
        if self._stop is not None:
            if self._begins:
                return self._stop
            raise ConfigurationError("this bot runs already: stop it first, or make another")
        if not self._handlers:
            raise ConfigurationError("this bot has no handler: register one, or include the router that has them")
        self._begins, self._run, self._ending, self._has_told = True, None, ending, False
        self._stop, self._began = anyio.Event(), anyio.current_time()
        return self._stop

    @property
    def is_stopping(self) -> bool:
        """Whether `stop()` was called."""
        return self._stop is not None and self._stop.is_set()

    def stop(self) -> None:
        """Drain, and end: nothing more is begun, and handlers have `drain` to end. From the bot's own loop."""
        if self._stop is not None:
            self._stop.set()
        if self._run is not None:
            self._run.stop()

    async def __aenter__(self) -> Self:
        """Start the bot beside the block, which begins once it hands over deliveries.

        What ends the bot before the block does is logged, told by `status()`, and raised when the block ends.
        """
        self.begin()
        self._ready = anyio.Event()
        job = self._job = Jobs().start(self._serve_beside, self._ready.set)
        try:
            await self._ready.wait()
        except BaseException:
            await self._end(job)
            raise
        if job.finished:
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

    async def _end(self, job: Job[None]) -> None:
        self.stop()
        with anyio.CancelScope(shield=True):
            await job.ended()
        await self._ended(job)

    async def _ended(self, job: Job[None]) -> None:
        """Raise what the bot ended by, if that was no drain."""
        self._job = None
        try:
            await job.wait()
        except ProcessEnd as end:
            raise end.reason from None

    def _new_run(self, store: Any, given: Any, client: FreightExchange, points: Points) -> Run:
        handlers = {handler.id: handler for handler in self}
        return Run(
            attrs.evolve(self._plan, store=store),
            handlers,
            given,
            client,
            self._tally,
            points,
            self._is_ready,
            partial(self._run_ends, client),
            began=self._began,
        )

    def _ends(self, error: BaseException) -> None:
        """Tell by what the bot ends, the first time: the rest may follow from that, or be the same on its way out."""
        if self._has_told:
            return
        self._has_told = True
        # Of a handler that ends the process it was told where it did.
        if isinstance(error, Exception):
            _logger.critical("the bot ends by %s", told(error))
        self._ending(error, lambda: False)

    def _run_ends(self, client: FreightExchange, error: BaseException) -> None:
        run = self._run
        if run is None or client.user is None or not isinstance(error, LoginRejectedError):
            self._ends(error)
            return
        # It was taken before: an account that is locked, or whose password is being changed. A person will see to it,
        # and until then the bot says that it hears nothing.
        _logger.critical("the service rejects the login, which it took before: %s", error)
        self._ending(error, lambda: run.phase == "stopped")

    def _is_ready(self) -> None:
        if self._ready is not None:
            self._ready.set()

    async def _keep_running(self, new_run: Callable[[], Run], client: FreightExchange) -> None:
        assert self._stop is not None
        pause = self._plan.interval.total_seconds()
        while not self._stop.is_set():
            run = self._run = new_run()
            await run()
            self._began = run.began
            if run.rejected is None:
                return
            if client.user is None:
                raise run.rejected
            self._waits_for_login = True
            with anyio.move_on_after(pause):
                await self._stop.wait()
            self._waits_for_login = False
            pause = min(2 * pause, _LONGEST_PAUSE)
            client.reset_login()

    @asynccontextmanager
    async def _client(self, given: FreightExchange | None) -> AsyncIterator[FreightExchange]:
        client = given or self._exchange or FreightExchange()
        if client.entered:
            yield client
        else:
            async with client:
                yield client

    # What operators ask and say

    def status(self) -> BotStatus:
        """How the bot is, or was when it ended. While it runs, ask from its own loop."""
        run = self._run
        waited = timedelta(seconds=anyio.current_time() - self._began) if self._stop is not None else timedelta(0)
        begins = self._stop is not None and waited <= INTERVALS_ALIVE * self._plan.interval
        doubts = () if run is None or not hasattr(run, "ledger") else run.ledger.doubts.entries()
        deliveries = run.deliveries if self._stop is not None and run is not None and hasattr(run, "ledger") else None
        return BotStatus(
            state="login-rejected" if self._waits_for_login else self._phase(),
            live=begins if run is None else run.live(),
            age=waited if run is None else run.age(),
            feed=None if run is None else run.feed_status(),
            in_flight=len(self._tally.at_work),
            waiting=0 if deliveries is None else deliveries.waiting,
            waited=timedelta(seconds=0.0 if deliveries is None else deliveries.waited),
            handled=self._tally.ended("done") + self._tally.ended("dropped"),
            retried=self._tally.ended("failed"),
            dead=self._tally.ended("dead"),
            offers=dict(self._tally.offers),
            in_doubt=sum(not entry.parked for entry in doubts),
            parked=sum(entry.parked for entry in doubts),
            address=self._address,
        )

    def _phase(self) -> Phase:
        if self._run is not None:
            return self._run.phase
        return "stopped" if self._stop is None else "starting"

    async def dead_letters(self) -> Sequence[DeadLetter]:
        """The deliveries that were given up, the oldest first."""
        found = await self._running().desk.read(lambda store: store.deliveries(state="dead", limit=EVERY))
        return [DeadLetter.of(dead) for dead in found]

    async def replay(self, event: int, handler: str) -> bool:
        """Try a dead delivery again, as if for the first time; whether there was one."""
        run = self._running()
        now = run.desk.time()
        found = await run.desk.write("settle", lambda store: store.replay(event, handler, at=now))
        run.deliveries.wake()
        return found

    async def doubts(self) -> Sequence[Doubt]:
        """The offers of which it is not known whether the service took them, the oldest first."""
        run = self._running()
        return [Doubt.of(entry, run.desk.moment) for entry in run.ledger.doubts.entries()]

    async def resolve(self, request: int, *, taken: bool, revision: int = 0) -> None:
        """End a doubt, or undo a refusal, by what a person has seen on the service's own pages. Whoever leaves in the
        middle leaves it to be done.

        Args:
            request, revision: Which offer.
            taken: Whether the service has it. If not, its handler makes it when it is called again. For an offer in
                doubt it is: its delivery is replayed where it is dead by now, and where it is done, so that nothing
                makes the offer again, an error is logged. For one that was refused `replay` its dead letter.

        Raises:
            ValidationError: That offer is not in doubt, nor was it refused; or an argument cannot be right.
            ConfigurationError: The bot does not run, or has ended before it was done.
        """
        await self._running().ledger.resolve(request, revision, taken=taken)

    async def acknowledge_gaps(self) -> int:
        """Acknowledge the gaps that no handler took; how many there were."""
        return await self._running().feed.acknowledge_gaps()

    def _running(self) -> Run:
        run = self._run
        if run is None or run.phase not in ("running", "draining") or not hasattr(run, "ledger"):
            raise ConfigurationError("this bot does not run: ask it while it does")
        return run


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
