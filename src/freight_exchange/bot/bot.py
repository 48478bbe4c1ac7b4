"""Bot: handlers on a feed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import anyio
import attrs

from freight_exchange.bot import admin, process
from freight_exchange.bot.failpoints import Failpoints, no_failpoints
from freight_exchange.bot.handler import Handler
from freight_exchange.bot.lifespan import Lifespan, check_lifespan, no_resources
from freight_exchange.bot.metrics import Metrics, make_collector
from freight_exchange.bot.outcomes import describe
from freight_exchange.bot.router import Router
from freight_exchange.bot.run import Run, Session
from freight_exchange.bot.status import BotStatus, DeadLetter, Doubt
from freight_exchange.bot.tasks import Background
from freight_exchange.client import FreightExchange
from freight_exchange.errors import DEFAULT_SETTLE, ConfigurationError
from freight_exchange.feed.feed import MIN_INTERVAL, MIN_RETENTION, WatchOptions
from freight_exchange.options import DEFAULT_ALLOWANCE, DEFAULT_INTERVAL, Start, integer
from freight_exchange.store import work
from freight_exchange.store.database import Store
from freight_exchange.store.database_url import masked

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

else:
    Collector = Any  # `typing.get_type_hints` resolves it without the extra `metrics`

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange.bot")

_CLOCK_STEP = 0.001
"""Seconds by which a scan must follow a publication to include it: at the same time it may have come before."""
_POLL_INTERVAL, _MAX_POLL_INTERVAL = 0.05, 5.0


@attrs.frozen(kw_only=True)
class BotOptions:
    """Options of a `Bot`, validated."""

    feed: WatchOptions
    concurrency: int
    drain: timedelta
    settle: timedelta
    selection_interval: timedelta
    port: int | None
    host: str
    lease: timedelta

    def __attrs_post_init__(self) -> None:
        integer(self.concurrency, "concurrency", most=1000)
        _check_duration(self.drain, "drain")
        _check_duration(self.settle, "settle")
        _check_duration(self.lease, "lease", MIN_INTERVAL)
        _check_duration(self.selection_interval, "selection_interval", MIN_INTERVAL)
        _check_duration(self.feed.retention, "retention", MIN_RETENTION)
        if self.port is not None:
            integer(self.port, "port", least=0, most=65535)
        if not isinstance(self.host, str) or not self.host:
            raise ConfigurationError(f"host must be a text that is not empty, not {self.host!r}")


def _check_duration(value: object, name: str, least: timedelta = timedelta(0)) -> None:
    if not isinstance(value, timedelta):
        raise ConfigurationError(f"{name} must be a timedelta, not {type(value).__name__}")
    if value < least:
        raise ConfigurationError(f"{name} must be at least {least}, not {value}")


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
        interval: Time between scans, as for `exchange.watch`; default 30 seconds.
        concurrency: Limit of deliveries in flight.
        drain: Time that handlers have to end when the bot is stopped.
        lifespan: Resources that handlers share: a function of the client, or of nothing, that returns an async context
            manager, or an async generator that yields once. It yields a mapping of names to resources, or a single
            resource. Handlers get a resource by a parameter of its name or type.
        port: Port of `/livez`, `/readyz` and `/metrics`; 0 for a free port, which `status()` shows.
        host: Address of that port, default this machine only.
        settle: Time that the service may take to list an offer; default 30 seconds. A missing offer counts as not taken
            only after that.
        selection_interval: Time between readings of the selected bids, at least a second; default `interval`.
        retention: Time for which the store keeps finished deliveries, and requests that the service no longer lists; at
            least and by default six days. Offers, answers and dead letters stay.
        allowance: Time that the service may take to list an update, as for `exchange.watch`; default a minute.
        name: Name of the bot in its store, which may have several bots and feeds.
        standby: Whether to wait while another process holds the store or the port, instead of raising `HeldError`.
        lease: Time after which other replicas of a fleet take over the work of one that no longer answers.

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
        selection_interval: timedelta | None = None,
        retention: timedelta = MIN_RETENTION,
        allowance: timedelta = DEFAULT_ALLOWANCE,
        name: str = admin.DEFAULT_NAME,
        standby: bool = False,
        lease: timedelta = timedelta(seconds=15),
    ) -> None:
        super().__init__()
        if exchange is not None and not isinstance(exchange, FreightExchange):
            raise ConfigurationError(f"exchange must be a FreightExchange, not a {type(exchange).__name__}")
        if lifespan is not None:
            check_lifespan(lifespan)
        self._options = BotOptions(
            feed=WatchOptions(
                store=masked(store),
                start=start,
                interval=interval,
                allowance=allowance,
                name=name,
                standby=standby,
                retention=retention,
            ),
            concurrency=concurrency,
            drain=drain,
            settle=settle,
            selection_interval=interval if selection_interval is None else selection_interval,
            port=port,
            host=host,
            lease=lease,
        )
        self._exchange = exchange
        self._lifespan = no_resources if lifespan is None else lifespan
        self._metrics = Metrics()
        self._run: Run | None = None
        self._background: Background | None = None

    def _set_handlers(self, handlers: dict[str, Handler]) -> None:
        if self._active is not None:
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
        process.run(self, backend)

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
        await self._begin()(exchange or self._exchange, failpoints)

    def _begin(
        self, on_failure: Callable[[BaseException], None] | None = None, on_stop: Callable[[], None] = lambda: None
    ) -> Run:
        if (run := self._active) is not None:
            if run.is_served:
                raise ConfigurationError("this bot runs already: stop it first, or make another")
            return run
        if not self._handlers:
            raise ConfigurationError("this bot has no handler: register one, or include the router that has them")
        self._run = Run(self, on_failure or _log_failure, on_stop)
        return self._run

    @property
    def _active(self) -> Run | None:
        return None if self._run is None or self._run.has_ended else self._run

    def stop(self) -> None:
        """Drain, then end. Call it from the bot's own loop."""
        if self._active is not None:
            self._active.stop()

    async def __aenter__(self) -> Self:
        """Start the bot beside the block, which begins with the first deliveries.

        An error that ends the bot early is logged and in `status()`, and raised at the end of the block.
        """
        run = self._begin()
        self._background = Background(lambda: run(self._exchange))
        try:
            await run.ready.wait()
        finally:
            if run.has_ended or not run.ready.is_set():
                await self._end()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        """Stop the background run, wait for its end, and raise the error that ended it."""
        background, self._background = self._background, None
        if background is None:
            return
        self.stop()
        with anyio.CancelScope(shield=True):
            await background.wait()
        background.raise_error()

    async def idle(self, within: timedelta = timedelta(hours=1)) -> None:
        """Wait until the bot has seen everything published so far, and every delivery has ended.

        Raises:
            TimeoutError: It takes longer than `within`.
            ConfigurationError: The bot has ended.
        """
        began, pause = None, _POLL_INTERVAL
        with anyio.fail_after(within.total_seconds()):
            while (run := self._active) is not None:
                if run.session is not None and run.phase == "running":
                    began = run.store.now if began is None else began
                    rows = [*run.session.rows]
                    if run.session.last_scan() > began + _CLOCK_STEP and not await run.store.run(work.is_busy, rows):
                        return
                await anyio.sleep(pause)
                pause = min(2 * pause, _MAX_POLL_INTERVAL)
        raise ConfigurationError("this bot does not run")

    def status(self) -> BotStatus:
        """Return the present status, or the last one after the end. Any thread may call this."""
        return BotStatus(state="stopped") if self._run is None else self._run.status()

    def collector(self, *others: Bot) -> Collector:
        """Return a Prometheus collector of this bot's metrics, or of several bots' with the label `bot`, their name.

            REGISTRY.register(bot.collector())  # any thread may scrape it

        Raises:
            ConfigurationError: The extra `metrics` is not installed, or two bots have one name.
        """
        return make_collector([self, *others])

    async def dead_letters(self) -> Sequence[DeadLetter]:
        """Return the deliveries that were given up, the oldest first."""
        store = self._joined()[0].store
        return await store.run(admin.dead_letters, store.binding)

    async def replay(self, event: int, handler: str) -> bool:
        """Deliver a dead letter again, with new attempts, and return whether there was one.

        Args:
            event: Number of the event.
            handler: Id of the handler.

        Raises:
            ConfigurationError: The bot no longer has the handler, so the letter stays; or the bot does not run.
        """
        if handler not in self._joined()[0].handlers:
            raise ConfigurationError(
                f"this bot has no handler {handler!r}: its dead letters stay until one has that id"
            )
        return await self._change(work.replay, event, handler)

    async def drop(self, event: int, handler: str) -> bool:
        """Discard a dead letter, or a delivery that waits, and return whether there was one."""
        return await self._change(work.drop, event, handler)

    async def doubts(self) -> Sequence[Doubt]:
        """Return the offers and the answers to offers in doubt, the oldest first."""
        store, ledger = (run := self._joined()[0]).store, run.ledger
        return await store.run(lambda db: admin.describe_doubts(db, store.binding, ledger.doubts(db)))

    async def resolve(self, request: int, *, taken: bool, revision: int = 0, offer: int | None = None) -> None:
        """Resolve a doubt, or undo a refusal, by what a person sees at the service. Cancelling this does not stop it.

        Args:
            request, revision: The offer of this bot; or, with `offer`, the request of the offer that was answered.
            taken: Whether the service has it. If not, its handler sends it again when it is called next. After a doubt,
                the bot calls it, and replays a dead delivery for that. After a refusal, `replay` the dead letter.
            offer: Identifier of the offer whose approval or decline is meant.

        Raises:
            ValidationError: It is neither in doubt nor refused, or it may still arrive.
            ConfigurationError: The bot does not run.
        """
        run, session = self._joined()
        await run.ledger.resolve(request, taken=taken, revision=revision, offer=offer)
        await session.count()

    async def acknowledge_gaps(self) -> int:
        """Acknowledge the gaps that no handler received, and return their number."""
        return await self._change(work.acknowledge_gaps)

    async def _change(self, change: Callable[..., T], *arguments: int | str) -> T:
        run, session = self._joined()
        found = await run.store.run(change, run.store.binding, *arguments)
        await session.count()
        return found

    def _joined(self) -> tuple[Run, Session]:
        run = self._active
        if run is None or run.session is None or not run.session.has_joined or run.phase not in ("running", "draining"):
            raise ConfigurationError("this bot does not run: call this method while the bot runs")
        return run, run.session


def _log_failure(error: BaseException) -> None:
    # A handler that ends the process was logged by its worker.
    if isinstance(error, Exception):
        _logger.critical("the bot ends: %s", describe(error))
