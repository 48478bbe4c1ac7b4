"""Process of the bot in the simulated world, which can be started, stopped and killed at any point."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import anyio

from freight_exchange import (
    AlreadyOfferedError,
    Bot,
    Context,
    Drop,
    FreightExchange,
    OfferInDoubtError,
    OfferRejectedError,
    RateRequest,
)
from freight_exchange.store import SQLiteStore

from .service import EMAIL
from .world import Handled, OfferCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from freight_exchange import DeadLetter, Doubt

    from .disk import Disk
    from .world import World

__all__ = ["Deploy", "Gone", "quoting"]

URL = "https://exchange.example/api"


class Gone(BaseException):
    """End of a handler whose process was killed."""


class Deploy:
    """A process that runs the bot.

    Attributes:
        bot: The bot; its handlers are registered by the scenario before `start`.
        is_gone: Whether it was killed or has ended.
        error: The error that ended the bot; `None` after a drain.
    """

    def __init__(self, world: World, disk: Disk, *, password: str | None = None, **options: Any) -> None:
        self.world = world
        self.disk = disk
        self.name = f"deploy {len(world.deploys)}"
        world.deploys.append(self)
        self.store = SQLiteStore(disk.path, inline=True)
        self.bot = Bot(store=self.store, **options)
        self.is_gone = False
        self.error: BaseException | None = None
        self.gone = anyio.Event()
        self.ghost_ended = anyio.Event()
        self.doubts: list[Doubt] = []
        self.dead: list[DeadLetter] = []
        self._scope = anyio.CancelScope()
        self._password = password or world.service.quirks.password
        self._started = False
        self.started = float("inf")

    def start(self) -> Deploy:
        """Start the process."""
        self._started = True
        self.started = self.world.now
        self.world.tasks.start_soon(self._run)
        return self

    async def running(self, within: float = 600.0) -> bool:
        """Wait until the bot handles deliveries; return whether it did in time."""
        await self.world.until(lambda: self.is_gone or self.bot.status().state == "running", within)
        return not self.is_gone

    async def stop(self) -> None:
        """Send SIGTERM and wait until the process has drained."""
        if not self.is_gone:
            self.bot.stop()
            await self.gone.wait()

    def kill(self) -> None:
        """Simulate SIGKILL: the files stay as they are on the disk, and the process does nothing more."""
        if not self.is_gone:
            self.disk.snapshot()
            self.vanish()

    def vanish(self) -> None:
        """Cut the process off from disk and network."""
        if not self._started:
            self.ghost_ended.set()
        self.is_gone = True
        self.gone.set()
        self._scope.cancel()

    async def look(self) -> None:
        """Note the dead letters and the doubts of the running bot, as an operator does."""
        self.dead = list(await self.bot.dead_letters())
        self.doubts = list(await self.bot.doubts())

    async def idle(self, within: float = 3600.0, quiet: float = 400.0) -> bool:
        """Wait until nothing is due or in flight for longer than any backoff; return whether that happened in time."""
        since = anyio.current_time()
        end, calls = since + within, 0
        while anyio.current_time() < end and not self.is_gone:
            await anyio.sleep(5.0)
            status, before, calls = self.bot.status(), calls, len(self.world.offer_calls)
            is_busy = status.in_flight or status.waiting or status.in_doubt > status.parked or calls > before
            if status.state != "running" or is_busy:
                since = anyio.current_time()
            elif anyio.current_time() - since >= quiet:
                return True
        return False

    async def _run(self) -> None:
        client = FreightExchange(URL, email=EMAIL, password=self._password, http_client=self.world.client_of(self))
        client._shared.clock = self.world.clock()
        try:
            with self._scope:
                await self.bot.serve(exchange=client)
        except BaseException as error:  # A process that ends by any error does not end the others.
            if isinstance(error, (KeyboardInterrupt, AssertionError)):
                raise
            self.error = error
            if not self.is_gone:
                logging.getLogger(__name__).info("%s ended by %r", self.name, error)
        finally:
            if not self.is_gone:
                self.is_gone = True
                self.gone.set()
            self.store.close()
            self.ghost_ended.set()

    def check(self) -> None:
        """End a handler whose process is gone."""
        if self.is_gone:
            raise Gone

    async def offer(
        self,
        ctx: Context,
        request: RateRequest,
        amount: Decimal,
        *,
        currency: str = "USD",
        rates: Mapping[str, Decimal] | None = None,
        terms: str | None = None,
        revision: int = 0,
        allow_existing: bool = False,
    ) -> None:
        """Offer as a handler does, and record the call and its result."""
        self.check()
        world = self.world
        call = OfferCall(
            world.now, self.name, request.index, revision, amount, currency, dict(rates or {}), terms, allow_existing
        )
        world.offer_calls.append(call)
        try:
            bid = await ctx.offer(
                amount=amount,
                currency=currency,
                rates=rates,
                terms=terms,
                revision=revision,
                allow_existing=allow_existing,
            )
        except BaseException as error:
            if not self.is_gone:
                call.ending = {
                    AlreadyOfferedError: "already",
                    OfferInDoubtError: "doubt",
                    OfferRejectedError: "rejected",
                }.get(type(error), type(error).__name__)
                call.ended = world.now
            raise
        if not self.is_gone:
            call.ending, call.returned, call.ended = "bid", bid.amount, world.now

    def note(self, ctx: Context, request: RateRequest | None, ending: str) -> None:
        """Record the end of a handler."""
        if not self.is_gone:
            self.world.handled.append(
                Handled(
                    self.world.now,
                    ctx.event.kind,
                    None if request is None else request.index,
                    "",
                    None if request is None or request.quantity is None else int(request.quantity),
                    ending,
                )
            )


def price_of(request: RateRequest, factor: Decimal = Decimal("1.25")) -> Decimal:
    """Return a price from which the request and its quantity can be derived."""
    assert request.quantity is not None
    return request.index * 1000 + Decimal(request.quantity) * factor


def quoting(
    deploy: Deploy,
    *,
    think: Callable[[], float] = lambda: 0.0,
    price: Callable[[RateRequest], Decimal] = price_of,
    **offer: Any,
) -> Callable[[RateRequest, Context], Any]:
    """Return a handler that offers a price after a delay."""

    async def quote(request: RateRequest, ctx: Context) -> None:
        deploy.check()
        if seconds := think():
            await anyio.sleep(seconds)
        try:
            await deploy.offer(ctx, request, price(request), **offer)
        except AlreadyOfferedError:
            deploy.note(ctx, request, "already")
            raise
        except Drop:
            deploy.note(ctx, request, "drop")
            raise
        deploy.note(ctx, request, "done")

    return quote


def chain(error: BaseException) -> Iterator[BaseException]:
    """Return the errors of a group, or the single error."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from chain(each)
    else:
        yield error
