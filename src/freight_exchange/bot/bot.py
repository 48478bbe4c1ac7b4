"""Bot: handlers on a feed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import anyio

from freight_exchange.bot.failpoints import Failpoints, no_failpoints
from freight_exchange.bot.handlers.handler import Handler
from freight_exchange.bot.handlers.router import Router
from freight_exchange.bot.metrics.metrics import Metrics
from freight_exchange.bot.ops.exposition import make_collector
from freight_exchange.bot.ops.metrics_source import MetricsSource
from freight_exchange.bot.ops.status import BotStatus, DeadLetter, Doubt
from freight_exchange.bot.outcomes import ProcessEnd
from freight_exchange.bot.runtime.background import BackgroundRun
from freight_exchange.bot.runtime.dead_letters import read_dead_letters, replay_dead_letter
from freight_exchange.bot.runtime.lifespan import Lifespan, check_lifespan, no_resources
from freight_exchange.bot.runtime.operator_port import OperatorPort
from freight_exchange.bot.runtime.options import MIN_RETENTION, BotOptions
from freight_exchange.bot.runtime.process import process
from freight_exchange.bot.runtime.shutdown import FailureCallback, FailureLog, ignore_failure, log_failure
from freight_exchange.bot.runtime.status import read_doubts, read_status
from freight_exchange.bot.runtime.supervisor import Supervisor
from freight_exchange.bot.unit_of_work import DEFAULT_NAME
from freight_exchange.client import FreightExchange
from freight_exchange.errors import DEFAULT_SETTLE, ConfigurationError
from freight_exchange.options import DEFAULT_ALLOWANCE, DEFAULT_INTERVAL, Start
from freight_exchange.store import Store
from freight_exchange.store.database_url import masked

if TYPE_CHECKING:
    from freight_exchange.bot.ops.collector import BotCollector
    from freight_exchange.bot.runtime.session.components import Components
else:
    BotCollector = Any  # `typing.get_type_hints` resolves it without the extra `metrics`

__all__ = ["Bot"]


class Bot(Router):
    """Handlers on a feed: each event is delivered at least once, and no request gets two offers.

        bot = Bot(store="bot.db")

        @bot.on_new(type=RequestType.SHIPPING, origin={"Hong Kong", "Shenzhen"}, max_volume=60)
        async def quote(request, ctx):
            await ctx.offer(amount=1840, currency="USD")

        bot.run()

    `run()` is a whole process, with signals and an exit status. `async with bot:` and `await bot.serve()` run the bot
    inside an application with its own event loop, asyncio or trio. The store keeps unfinished work for the next run.

    Args:
        exchange: The client; default one from the environment, made when the bot starts. The bot enters and closes it,
            unless it was entered already.
        store: Path of an SQLite file, URL of a PostgreSQL database, a store of `freight_exchange.store`, or `None` for
            memory, which ends with the run.
        start: Requests that the first run delivers, as for `exchange.watch`.
        interval: Time between scans, as for `exchange.watch`.
        concurrency: Limit of deliveries in flight.
        drain: Time that handlers have to end when the bot is stopped.
        lifespan: Resources that handlers share: a function of the client, or of nothing, that returns an async context
            manager, or an async generator that yields once. It yields a mapping of names to resources, or a single
            resource. Handlers get a resource by a parameter of its name or type.
        port: Port of `/livez`, `/readyz` and `/metrics`; 0 for a free port, which `status()` shows.
        host: Address of that port, default this machine only.
        settle: Time that the service may take to list an offer. A missing offer counts as not taken only after that.
        selection_interval: Time between readings of the selected bids, at least a second.
        retention: Time for which the store keeps finished deliveries, and requests that the service no longer lists; at
            least and by default six days. Offers, answers and dead letters stay.
        allowance: Time that the service may take to list an update, as for `exchange.watch`.
        name: Name of the bot in its store, which may have several bots and feeds.
        standby: Whether to wait while another process holds the store or the port, instead of raising `HeldError`.

    Raises:
        ConfigurationError: An argument is invalid.
    """

    def __init__(
        self,
        exchange: FreightExchange | None = None,
        *,
        store: Store | str | os.PathLike[str] | None,
        start: Start = "now",
        interval: timedelta = DEFAULT_INTERVAL,
        concurrency: int = 8,
        drain: timedelta = timedelta(seconds=25),
        lifespan: Lifespan | None = None,
        port: int | None = None,
        host: str = "127.0.0.1",
        settle: timedelta = DEFAULT_SETTLE,
        selection_interval: timedelta = timedelta(minutes=2),
        retention: timedelta = MIN_RETENTION,
        allowance: timedelta = DEFAULT_ALLOWANCE,
        name: str = DEFAULT_NAME,
        standby: bool = False,
    ) -> None:
        super().__init__()
        store = masked(store)
        if exchange is not None and not isinstance(exchange, FreightExchange):
            raise ConfigurationError(f"exchange must be a FreightExchange, not a {type(exchange).__name__}")
        if lifespan is not None:
            check_lifespan(lifespan)
        self._options = BotOptions(
            store=store,
            start=start,
            interval=interval,
            allowance=allowance,
            concurrency=concurrency,
            drain=drain,
            settle=settle,
            selection_interval=selection_interval,
            retention=retention,
            name=name,
            standby=standby,
        )
        self._exchange = exchange
        self._lifespan = no_resources if lifespan is None else lifespan
        self._operator_port = OperatorPort(host, port, self.status, self.collector)
        self._metrics = Metrics()
        self._metrics_source = MetricsSource(name, self._status_in_loop, self._metrics, lambda: self._handlers)
        self._supervisor: Supervisor | None = None
        self._background = BackgroundRun(self._serve, self.stop)

    def _set_handlers(self, handlers: dict[str, Handler]) -> None:
        if self._active_supervisor() is not None:
            raise ConfigurationError("this bot runs already: register its handlers before it starts")
        super()._set_handlers(handlers)

    def run(self, *, backend: Literal["asyncio", "trio"] = "asyncio") -> None:
        """Run as this process until SIGTERM or SIGINT, drain, and return.

        A second signal ends the process at once. The exit status is 0 after a clean drain, and otherwise:

        - 1: a bug, with its traceback, or a handler that called `sys.exit()`;
        - 70: a handler or the lifespan did not end with the drain, and was ended with the process;
        - 73: the store cannot be used; 75: another process holds it, or its database cannot be reached;
        - 76: the service is not as expected: wrong URL, wrong certificate;
        - 77: the service rejected the email or password; 78: the configuration is invalid;
        - 128 and the signal's number: a second signal ended it.

        Raises:
            SystemExit: With that status.
            ConfigurationError: An event loop runs already, this is not the main thread, or the backend does not exist.
                Use `await bot.serve()` or `async with bot:` there.
        """
        process.run(self, self._metrics.in_flight, self._options.drain.total_seconds(), backend)

    async def serve(self, *, exchange: FreightExchange | None = None, failpoints: Failpoints = no_failpoints) -> None:
        """Run until `stop()`, or an error that retries cannot solve.

        Args:
            exchange: Client to use instead of the bot's own, such as the sandbox's in tests.
            failpoints: Called before and after each durable step, for crash tests.

        Raises:
            ConfigurationError: The bot runs already or has no handler, a handler's parameter cannot be resolved, the
                lifespan returns no context manager, or the port is taken.
            LoginRejectedError: The service rejected the email or password, and has never accepted them.
            StoreError: The store cannot be used.
        """
        try:
            await self._serve(exchange, failpoints)
        except ProcessEnd as end:
            raise end.reason from None

    async def _serve(self, exchange: FreightExchange | None = None, failpoints: Failpoints = no_failpoints) -> None:
        await self._begin_supervisor()(exchange or self._exchange, failpoints)

    def begin(self, on_failure: FailureCallback = ignore_failure, log_failure: FailureLog = log_failure) -> anyio.Event:
        """Prepare the next `serve()`, so that `stop()` works from now on. Return the event that `stop()` sets.

        Args:
            on_failure: Called as soon as an error ends the bot, or one session of it.
            log_failure: Logs the error that ends the bot.

        Raises:
            ConfigurationError: The bot runs already, or has no handler.
        """
        return self._begin_supervisor(on_failure, log_failure).stopping

    def _begin_supervisor(
        self, on_failure: FailureCallback = ignore_failure, log_failure: FailureLog = log_failure
    ) -> Supervisor:
        if (supervisor := self._active_supervisor()) is not None:
            if supervisor.is_served:
                raise ConfigurationError("this bot runs already: stop it first, or make another")
            return supervisor
        if not self._handlers:
            raise ConfigurationError("this bot has no handler: register one, or include the router that has them")
        self._supervisor = Supervisor(
            self._options, self._handlers, self._lifespan, self._operator_port, self._metrics, on_failure, log_failure
        )
        return self._supervisor

    def _active_supervisor(self) -> Supervisor | None:
        return None if self._supervisor is None or self._supervisor.has_ended else self._supervisor

    def stop(self) -> None:
        """Drain, then end. Call it from the bot's own loop."""
        if (supervisor := self._active_supervisor()) is not None:
            supervisor.stop()

    async def __aenter__(self) -> Self:
        """Start the bot beside the block, which begins with the first deliveries.

        An error that ends the bot early is logged and in `status()`, and raised at the end of the block.
        """
        await self._background.start(self._begin_supervisor().ready)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._background.end()

    def status(self) -> BotStatus:
        """Return the present status, or the last one after the end. Call it from the bot's own loop while it runs."""
        return read_status(self._supervisor, self._metrics)

    def collector(self, *others: Bot) -> BotCollector:
        """Return a Prometheus collector of this bot's metrics, or of several bots' with the label `bot`, their name.

            REGISTRY.register(bot.collector())  # any thread may scrape it

        Raises:
            ConfigurationError: The extra `metrics` is not installed, or two bots have one name.
        """
        return make_collector([bot._metrics_source for bot in (self, *others)])

    def _status_in_loop(self) -> BotStatus:
        supervisor = self._active_supervisor()
        return self.status() if supervisor is None else supervisor.loop.call(self.status)

    async def dead_letters(self) -> Sequence[DeadLetter]:
        """Return the deliveries that were given up, the oldest first."""
        return await read_dead_letters(self._components())

    async def replay(self, event: int, handler: str) -> bool:
        """Deliver a dead letter again, with new attempts, and return whether there was one.

        Args:
            event: Number of the event.
            handler: Id of the handler.

        Raises:
            ConfigurationError: The bot no longer has the handler, so the letter stays; or the bot does not run.
        """
        return await replay_dead_letter(self._components(), self._handlers, event, handler)

    async def doubts(self) -> Sequence[Doubt]:
        """Return the offers and the answers to offers in doubt, each kind by age."""
        return read_doubts(self._components())

    async def resolve(self, request: int, *, taken: bool, revision: int = 0, offer: int | None = None) -> None:
        """Resolve a doubt, or undo a refusal, by what a person sees at the service. Cancelling this does not stop it.

        Args:
            request, revision: The offer of this bot; or, with `offer`, the request of the offer that was answered.
            taken: Whether the service has it. If not, its handler sends it again when it is called next. After a doubt,
                the bot calls it, and replays a dead delivery for that. After a refusal, `replay` the dead letter.
            offer: Identifier of the offer whose approval or decline is meant.

        Raises:
            ValidationError: It is neither in doubt nor refused, or it may still arrive.
            StoreError: A person or another replica has changed it meanwhile.
            ConfigurationError: The bot does not run.
        """
        if offer is None:
            await self._components().ledger.resolve(request, revision, taken=taken)
        else:
            await self._components().answers.resolve(request, offer, taken=taken)

    async def acknowledge_gaps(self) -> int:
        """Acknowledge the gaps that no handler received, and return their number."""
        return await self._components().acknowledge_gaps()

    def _components(self) -> Components:
        """Return the parts of the running session."""
        session = None if self._supervisor is None else self._supervisor.session
        is_running = session is not None and session.phase in ("running", "draining") and not session.is_closed
        if session is None or session.components is None or not is_running:
            raise ConfigurationError("this bot does not run: call this method while the bot runs")
        return session.components
