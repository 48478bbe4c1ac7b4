"""The life of a bot: from its beginning, through one run after another, to the end of the last."""

from __future__ import annotations

import errno
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
import attrs

from freight_exchange.bot import lifespan as lifespans
from freight_exchange.bot.ops import probes
from freight_exchange.bot.outcomes import told
from freight_exchange.bot.process import TO_CLOSE
from freight_exchange.bot.session import INTERVALS_ALIVE, BotSession, Phase, unwrap_errors
from freight_exchange.bot.shutdown import FailureReportingGroup, cause, ignore_failure, telling
from freight_exchange.client import FreightExchange
from freight_exchange.errors import ConfigurationError, LoginRejectedError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from freight_exchange.bot.failpoints import Failpoints
    from freight_exchange.bot.lifespan import Lifespan
    from freight_exchange.bot.metrics import Metrics
    from freight_exchange.bot.ops.status import BotStatus
    from freight_exchange.bot.router import Handler
    from freight_exchange.bot.session import BotOptions
    from freight_exchange.bot.shutdown import Ending

__all__ = ["Operators", "Supervisor"]

_logger = logging.getLogger("freight_exchange.bot")

_LONGEST_PAUSE: Final = 900.0
_FOR_THE_STORE: Final = 0.5
"""Seconds for which a taken port is tried again once the store is the bot's."""


@attrs.frozen
class Operators:
    """Where operators ask, and what they are told.

    Attributes:
        host, port: Where; without a port, nowhere.
        status: How the bot is.
    """

    host: str
    port: int | None
    status: Callable[[], BotStatus]


class Supervisor:
    """One life. A run ends by a stop, or by what does not pass; a login that is rejected after it was taken before only
    ends the run, and another follows.

    Args:
        options: What the bot was told.
        handlers: Its handlers, by their ids.
        lifespan: What opens what they share.
        operators: Who asks how it is.
        metrics: What is counted.
        ending: Called as soon as something ends the bot, or a run of it, other than a stop.

    Attributes:
        stopping: Set when the bot is to drain, and to end.
        ready: Set once it hands over deliveries.
        is_served: Whether anybody has called it yet.
        has_ended: Whether it is over.
        run: The run that is, or was the last.
        address: Where operators ask, once it is the bot's.
    """

    def __init__(
        self,
        options: BotOptions,
        handlers: Mapping[str, Handler],
        lifespan: Lifespan,
        operators: Operators,
        metrics: Metrics,
        ending: Ending,
    ) -> None:
        self._options = options
        self._handlers = handlers
        self._lifespan = lifespan
        self._operators = operators
        self._metrics = metrics
        self._ending = ending
        self._began = anyio.current_time()
        self._has_told = False
        self._waits_for_login = False
        self.stopping = anyio.Event()
        self.ready = anyio.Event()
        self.is_served = False
        self.has_ended = False
        self.run: BotSession | None = None
        self.address: tuple[str, int] | None = None

    async def __call__(self, exchange: FreightExchange | None, failpoints: Failpoints) -> None:
        """Run until `stop()`, or until what does not pass.

        Args:
            exchange: The client; unless given, one is made from the environment.
            failpoints: Told before and after each durable step.
        """
        self.is_served = True
        store = self._options.store
        if store is None:
            # Imported here: it needs sqlite3.
            from freight_exchange.store import MemoryStore

            store = MemoryStore()
        try:
            with unwrap_errors():
                async with anyio.create_task_group() as tasks:
                    if (port := self._operators.port) is not None:
                        answering = partial(self._answer, port)
                        if self._options.standby:
                            FailureReportingGroup(tasks, self._ends).start_soon(answering)
                        else:
                            await tasks.start(answering)
                    async with _entered(exchange) as client:

                        async def work(shared: Mapping[str, object]) -> None:
                            # Before what handlers share is closed, which may not end.
                            with telling(self._ends):
                                given = lifespans.arguments(self._handlers.values(), shared)
                                ends = partial(self._run_ends, client, tasks)
                                new_run = partial(self._new_run, store, given, client, failpoints, ends)
                                await self._keep_running(new_run, client)

                        drain = self._options.drain.total_seconds()
                        await lifespans.using(
                            self._lifespan, client, work, tasks=tasks, stop=self.stopping, drain=drain
                        )
                    tasks.cancel_scope.cancel()
        finally:
            self.has_ended, self.address = True, None

    def stop(self) -> None:
        """Drain, and end."""
        self.stopping.set()
        if self.run is not None:
            self.run.stop()

    # How it is

    @property
    def state(self) -> Phase | Literal["login-rejected"]:
        """In a word."""
        if self.has_ended:
            return "stopped"
        if self._waits_for_login:
            return "login-rejected"
        return "starting" if self.run is None else self.run.phase

    def live(self) -> bool:
        """Whether the service has been heard of lately, or there was no time for it yet."""
        if self.run is not None:
            return self.run.live()
        return not self.has_ended and self.age() <= INTERVALS_ALIVE * self._options.interval

    def age(self) -> timedelta:
        """How long ago the moment was before which nothing can have been missed, or, if that is less, the beginning."""
        if self.run is not None:
            return self.run.age()
        return timedelta(0) if self.has_ended else timedelta(seconds=anyio.current_time() - self._began)

    # Runs

    def _new_run(
        self,
        store: Any,
        given: Any,
        client: FreightExchange,
        failpoints: Failpoints,
        ends: Callable[[BaseException], None],
    ) -> BotSession:
        return BotSession(
            attrs.evolve(self._options, store=store),
            self._handlers,
            given,
            client,
            self._metrics,
            failpoints,
            self.ready.set,
            ends,
            began=self._began,
        )

    async def _keep_running(self, new_run: Callable[[], BotSession], client: FreightExchange) -> None:
        pause = self._options.interval.total_seconds()
        while not self.stopping.is_set():
            run = self.run = new_run()
            try:
                await run()
                self._began = run.began
                if run.rejected is None:
                    return
                if client.user is None:
                    raise run.rejected
                self._waits_for_login = True
                with anyio.move_on_after(pause):
                    await self.stopping.wait()
                self._waits_for_login = False
            finally:
                run.freeze_status()
            pause = min(2 * pause, _LONGEST_PAUSE)
            client.reset_login()

    # Ends

    def _ends(self, error: BaseException) -> None:
        """Tell by what the bot ends, the first time: the rest may follow from that, or be the same on its way out."""
        if self._has_told:
            return
        self._has_told = True
        # Of a handler that ends the process it was told where it did.
        if isinstance(error, Exception):
            _logger.critical("the bot ends by %s", told(error))
        self._ending(error, lambda: False)

    def _run_ends(self, client: FreightExchange, tasks: TaskGroup, error: BaseException) -> None:
        if cause(error) is None:
            self._ending(error, lambda: False)
            # From a task outside of what handlers share it is seen whose doing it is.
            tasks.start_soon(self._tell_cancelled, anyio.current_effective_deadline() == -math.inf)
            return
        run = self.run
        if run is None or client.user is None or not isinstance(error, LoginRejectedError):
            self._ends(error)
            return
        # It was taken before: an account that is locked, or whose password is being changed. A person will see to it,
        # and until then the bot says that it hears nothing.
        _logger.critical("the service rejects the login, which it took before: %s", error)
        self._ending(error, lambda: run.phase == "stopped")

    async def _tell_cancelled(self, by_scope: bool) -> None:
        """Tell of a cancellation unless it is an application's own. One by no scope is asyncio's `task.cancel()`: a
        task group in what handlers share may have asked for it, and so may whoever runs `serve()`."""
        if anyio.current_effective_deadline() == -math.inf or (self._ending is ignore_failure and not by_scope):
            return
        _logger.critical(
            "the bot ends: %s has cancelled it, as where a task of its own fails; why is told once handlers have ended",
            "what handlers share" if by_scope else "what handlers share, or something else in its process,",
        )

    # Operators

    async def _answer(self, port: int, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Answer at the operator's port, for ever. With `standby` that may be another process's for as long as it has
        the store, and until it has ended: its handlers by its drain, and then what they share. Without, whoever has the
        store is to be told of, and not of its port."""
        listening = partial(probes.listening, self._operators.host, port, after=self._has_the_store)
        try:
            listener, self.address = await listening(
                patience=self._options.drain.total_seconds() + TO_CLOSE if self._options.standby else 0.0
            )
        except ConfigurationError as error:
            another_may_hold_it = self._options.store is not None and not self._options.standby
            if not another_may_hold_it or getattr(error.__cause__, "errno", None) != errno.EADDRINUSE:
                raise
            task_status.started()
            with telling(self._ends):
                listener, self.address = await listening(patience=_FOR_THE_STORE)
        else:
            task_status.started()
        await probes.serve(listener, self._operators.status, self._metrics, handlers=self._handlers.keys())

    def _has_the_store(self) -> bool:
        return self.run is not None and self.run.feed.hold.taken


@asynccontextmanager
async def _entered(exchange: FreightExchange | None) -> AsyncIterator[FreightExchange]:
    """The client, entered and closed unless somebody else has done the one and will do the other."""
    client = exchange or FreightExchange()
    if client.entered:
        yield client
    else:
        async with client:
            yield client
