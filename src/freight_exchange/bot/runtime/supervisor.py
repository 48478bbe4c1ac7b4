"""Supervisor of a bot: run one session after another until a stop or an error."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
import attrs

from freight_exchange.bot.handlers.injection import resolve_arguments
from freight_exchange.bot.metrics.call_times import CallTimes
from freight_exchange.bot.runtime.fleet.loss_log import LossLog
from freight_exchange.bot.runtime.fleet.membership import LOST_SEAT, is_loss_of_seat
from freight_exchange.bot.runtime.lifespan import entered_client, run_with_lifespan
from freight_exchange.bot.runtime.loop import BotLoop
from freight_exchange.bot.runtime.session.health import LIVE_INTERVALS
from freight_exchange.bot.runtime.session.session import BotSession, Phase
from freight_exchange.bot.runtime.shutdown import ignore_failure
from freight_exchange.bot.tasks import FailureReportingGroup, find_failure, flatten, report_failure, unwrap_errors
from freight_exchange.errors import LoginRejectedError
from freight_exchange.store.factory import shared_store

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from freight_exchange.bot.failpoints import Failpoints
    from freight_exchange.bot.handlers.handler import Handler
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.runtime.lifespan import Lifespan
    from freight_exchange.bot.runtime.operator_port import OperatorPort
    from freight_exchange.bot.runtime.options import BotOptions
    from freight_exchange.bot.runtime.shutdown import FailureCallback
    from freight_exchange.client import FreightExchange

__all__ = ["Supervisor"]

_logger = logging.getLogger("freight_exchange.bot")

_MAX_LOGIN_PAUSE: Final = 900.0


class Supervisor:
    """Supervisor of a bot's sessions, from its start to its end.

    A stop or an error ends the last session. After a login that is rejected, but was accepted before, another session
    follows.

    Args:
        options: Options of the bot.
        handlers: Its handlers, by their ids.
        lifespan: Opens and closes what handlers share.
        operator_port: Its port for operators.
        metrics: Its metrics.
        on_failure: Called as soon as an error ends the bot, or a session of it.
        log_failure: Logs the first error that ends the bot.

    Attributes:
        stopping: Set when the bot must drain and end.
        ready: Set once deliveries begin.
        is_served: Whether the supervisor was started.
        has_ended: Whether it has ended.
        session: Present or last session.
        address: Address of the operator's port, once it is open.
        loop: Its event loop.
    """

    def __init__(
        self,
        options: BotOptions,
        handlers: Mapping[str, Handler],
        lifespan: Lifespan,
        operator_port: OperatorPort,
        metrics: Metrics,
        on_failure: FailureCallback,
        log_failure: Callable[[Exception], None],
    ) -> None:
        self._options = options
        self._handlers = handlers
        self._lifespan = lifespan
        self._operator_port = operator_port
        self._metrics = metrics
        self._on_failure = on_failure
        self._log_failure = log_failure
        self._started_at = anyio.current_time()
        self.loop = BotLoop()
        self._has_reported = False
        self._waits_for_login = self._has_joined = self._had_seat = False
        self._losses = LossLog()
        self.stopping = anyio.Event()
        self.ready = anyio.Event()
        self.is_served = False
        self.has_ended = False
        self.session: BotSession | None = None
        self.address: tuple[str, int] | None = None

    async def __call__(self, exchange: FreightExchange | None, failpoints: Failpoints) -> None:
        """Run until `stop()` or an error.

        Args:
            exchange: The client; `None` makes one from the environment.
            failpoints: Called before and after each durable step.
        """
        self.is_served = True
        try:
            with unwrap_errors():
                async with anyio.create_task_group() as tasks:
                    await self._open_port(tasks)
                    async with entered_client(exchange) as entered:
                        client = entered._instrumented(CallTimes(self._metrics.call_times))

                        async def work(resources: Mapping[str, object]) -> None:
                            # Reported before the lifespan closes, which may hang.
                            with report_failure(self._report_failure):
                                arguments = resolve_arguments(self._handlers.values(), resources)
                                on_failure = partial(self._on_session_failure, client, tasks)
                                store = shared_store(self._options.store)
                                begin = partial(self._new_session, store, arguments, client, failpoints, on_failure)
                                await self._run_sessions(begin, client)

                        drain = self._options.drain.total_seconds()
                        await run_with_lifespan(
                            self._lifespan, client, work, tasks=tasks, stop=self.stopping, drain=drain
                        )
                    tasks.cancel_scope.cancel()
        finally:
            self.has_ended, self.address = True, None

    def stop(self) -> None:
        """Drain, then end."""
        self.stopping.set()
        if self.session is not None:
            self.session.stop()

    # Status

    @property
    def _waits_for_store(self) -> bool:
        """`True` from the loss of a seat until the next session has one, or the bot is stopped."""
        return self._had_seat and not (self._has_store() or self.stopping.is_set() or self._waits_for_login)

    @property
    def state(self) -> Phase | Literal["login-rejected"]:
        """State, as in `BotStatus`."""
        if self.has_ended:
            return "stopped"
        if self._waits_for_login:
            return "login-rejected"
        return "starting" if self.session is None or self._waits_for_store else self.session.phase

    def is_live(self) -> bool:
        """Return whether the watermark is young, the bot has just begun, or it waits for its store."""
        if self.session is not None and not self._waits_for_store:
            return self.session.is_live()
        is_young = self._waits_for_store or self.age() <= LIVE_INTERVALS * self._options.interval
        return is_young and not self.has_ended

    def age(self) -> timedelta:
        """Return the age of the watermark, or the time since the start if that is less."""
        if self.session is not None:
            return self.session.age()
        return timedelta(0) if self.has_ended else timedelta(seconds=anyio.current_time() - self._started_at)

    # Sessions

    def _new_session(
        self,
        store: Any,
        arguments: Any,
        client: FreightExchange,
        failpoints: Failpoints,
        on_failure: Callable[[BaseException], None],
    ) -> BotSession:
        return BotSession(
            attrs.evolve(self._options, store=store),
            self._handlers,
            arguments,
            client,
            self._metrics,
            failpoints,
            self.ready.set,
            on_failure,
            started_at=self._started_at,
        )

    async def _run_sessions(self, new_session: Callable[[], BotSession], client: FreightExchange) -> None:
        pause = self._options.interval.total_seconds()
        while not self.stopping.is_set():
            session = self.session = new_session()
            try:
                if await self._run_session(session):
                    continue
                self._started_at = session.health.started_at
                if session.login_rejection is None:
                    return
                if client.user is None:
                    raise session.login_rejection
                self._waits_for_login = True
                with anyio.move_on_after(pause):
                    await self.stopping.wait()
                self._waits_for_login = False
            finally:
                session.health.freeze()
            pause = min(2 * pause, _MAX_LOGIN_PAUSE)
            client.reset_login()

    async def _run_session(self, session: BotSession) -> bool:
        """Run a session, and return whether it lost its seat in the store, so that another one follows."""
        try:
            await session()
        except (*LOST_SEAT, BaseExceptionGroup) as error:
            if not self._joins_again(error):
                raise
            cause, is_stopping = next(flatten(error)), self.stopping.is_set()
            with anyio.move_on_after(self._losses.add(cause, has_worked=session.has_run, is_stopping=is_stopping)):
                await self.stopping.wait()
            self._started_at = anyio.current_time()
            return True
        return False

    # Failures

    def _joins_again(self, error: BaseException) -> bool:
        """Return whether the bot had a seat, which this error has cost it, so that another session follows."""
        self._has_joined |= self.session is not None and self.session.membership.has_joined
        joins_again = self._has_joined and is_loss_of_seat(error, has_run=self.ready.is_set())
        self._had_seat |= joins_again
        return joins_again

    def _report_failure(self, error: BaseException) -> None:
        """Report the first error that ends the bot; later ones may follow from it, or be the same."""
        if self._has_reported:
            return
        self._has_reported = True
        # A handler that ends the process was logged by its worker.
        if isinstance(error, Exception):
            self._log_failure(error)
        self._on_failure(error, _has_not_ended)

    def _on_session_failure(self, client: FreightExchange, tasks: TaskGroup, error: BaseException) -> None:
        if find_failure(error) is None:
            self._on_failure(error, _has_not_ended)
            # Only a task outside of the lifespan can find the cause.
            tasks.start_soon(self._report_cancellation, anyio.current_effective_deadline() == -math.inf)
            return
        session = self.session
        if self._joins_again(error):
            self._on_failure(error, lambda: session is None or session.phase == "stopped")
            return
        if session is None or client.user is None or not isinstance(error, LoginRejectedError):
            self._report_failure(error)
            return
        # The login was accepted before: the account may be locked, or its password is being changed.
        _logger.critical(
            "%s rejects the login, which it accepted before: %s; the bot drains, and tries again",
            client._base_url,
            error,
        )
        self._on_failure(error, lambda: session.phase == "stopped")

    async def _report_cancellation(self, by_scope: bool) -> None:
        """Log a cancellation, unless the application around the bot cancelled it.

        A cancellation by no scope is asyncio's `task.cancel()`, by a task group of the lifespan or by the caller of
        `serve()`.
        """
        if anyio.current_effective_deadline() == -math.inf or (self._on_failure is ignore_failure and not by_scope):
            return
        _logger.critical(
            "the bot ends: cancelled by %s, such as by a failed task; its error is logged after the handlers end",
            "the lifespan" if by_scope else "the lifespan or by other code of the process",
        )

    # Operator's port

    async def _open_port(self, tasks: TaskGroup) -> None:
        if self._operator_port.port is None:
            return
        serve = partial(
            self._operator_port.serve,
            self._options,
            has_store=self._has_store,
            on_open=partial(setattr, self, "address"),
            on_failure=self._report_failure,
        )
        if self._options.standby:
            FailureReportingGroup(tasks, self._report_failure).start_soon(serve)
        else:
            await tasks.start(serve)

    def _has_store(self) -> bool:
        return self.session is not None and self.session.membership.is_joined


def _has_not_ended() -> bool:
    return False  # An error of the bot itself ends with its process.
