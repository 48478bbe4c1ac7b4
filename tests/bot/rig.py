"""Shared helpers of the bot's tests: bots, faults, waits, and processes that can be killed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import anyio
import attrs
import pytest

from freight_exchange import Bot, BotStatus, FreightExchange
from freight_exchange.store import Store
from freight_exchange.testing import FAULTS, Cargo, Sandbox

INTERVAL = 30
HOUR = 3600
DAY = 24 * HOUR
SETTLE = timedelta(seconds=5)
SELDOM = timedelta(minutes=5)
"""Interval of bots that run for virtual hours: each scan costs CPU."""
LOGGER = "freight_exchange.bot"
OFFER = "quote/submitoffer"
BIDS = "quote/bid"
AMOUNT = "1840.50"

UNANSWERED = "reset_after_processing"
"""Fault: the offer is accepted, and no reply comes."""
UNPROCESSED = "reset_after_send"
"""Fault: the offer is not accepted, and the client cannot know that."""


def new_bot(store: Store | str | None, **options: Any) -> Bot:
    """Make a bot with a backfill, short intervals and a short settle time."""
    defaults: dict[str, Any] = {"start": "backfill", "interval": timedelta(seconds=INTERVAL), "settle": SETTLE}
    return Bot(store=store, **{**defaults, **options})


def offers(*, amount: Any = AMOUNT, currency: Any = 840, **terms: Any) -> Callable[..., Awaitable[None]]:
    """Make a handler that makes an offer."""

    async def offer(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=amount, currency=currency, **terms)

    return offer


def offering_bot(store: Store | None, called: list[int] | None = None, **options: Any) -> Bot:
    """Make a bot that offers `AMOUNT` on each new request, and appends the index of each call to `called`."""
    bot = new_bot(store, **options)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        if called is not None:
            called.append(request.index)
        await ctx.offer(amount=AMOUNT, currency=840)

    return bot


def bot_with_client(store: Store | None, exchange: FreightExchange, handler: Any = None) -> Bot:
    """Make a bot that offers, or does what its handler does, with a client of its own."""
    bot = Bot(exchange, store=store, start="backfill", interval=timedelta(seconds=INTERVAL), settle=SETTLE)
    bot.on_new(handler or offers())
    return bot


def other(origin: str = "Hong Kong", **fields: Any) -> Cargo:
    """Make a cargo with another origin."""
    return Cargo(origin=origin, **fields)


def strike(sandbox: Sandbox, name: str, path: str | None = OFFER, **how: Any) -> None:
    """Arm the faults of a name at a path."""
    sandbox.strike(*FAULTS[name](path=path, **how))


def approve(sandbox: Sandbox, index: int) -> None:
    """Select the first offer on a request, as its shipper."""
    sandbox.exchange.select(sandbox.audit_log.offers_on(index)[0].offer.index, sandbox.now())


@contextmanager
def blind(sandbox: Sandbox, path: str = BIDS, name: str = "unavailable_forever") -> Iterator[None]:
    """Fail each request to a path during the block."""
    strike(sandbox, name, path, times=None)
    try:
        yield
    finally:
        sandbox.exchange.faults.clear()


def amounts_on(sandbox: Sandbox, index: int) -> list[str]:
    """Return the amounts of all offers that the exchange took on a request."""
    return [str(record.offer.amount) for record in sandbox.audit_log.offers_on(index)]


def sent(sandbox: Sandbox, path: str = OFFER) -> int:
    """Count the writes that reached the exchange, whether or not it took them."""
    return len(sandbox.audit_log.calls_to("POST", path))


def messages(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """Return the bot's log messages of a level."""
    return [record.getMessage() for record in caplog.records if record.name == LOGGER and record.levelno == level]


async def eventually(condition: Callable[[], object], within: timedelta = timedelta(hours=1)) -> None:
    """Wait for a condition; the wait ends at most 1 % late."""
    began = anyio.current_time()
    with anyio.fail_after(within.total_seconds()):
        while not condition():  # noqa: ASYNC110 - the condition has no event
            await anyio.sleep(max(0.1, (anyio.current_time() - began) / 100))


async def run_until_idle(sandbox: Sandbox, bot: Bot) -> BotStatus:
    """Run a bot until it is idle, and return its status at that time."""
    async with sandbox.running(bot) as trial:
        await trial.idle()
        return trial.status


@attrs.define
class Calls:
    """Calls of handlers: their names, requests, attempts and times, and how many ran at once."""

    calls: list[tuple[str, int | None, int]] = attrs.field(factory=list)
    times: list[float] = attrs.field(factory=list)
    most: int = 0
    most_of_one: int = 0
    _running: list[int | None] = attrs.field(factory=list)

    @asynccontextmanager
    async def working(self, name: str, ctx: Any, index: int | None) -> AsyncIterator[None]:
        """Record a call that lasts for the block."""
        self.calls.append((name, index, ctx.attempt))
        self.times.append(anyio.current_time())
        self._running.append(index)
        self.most = max(self.most, len(self._running))
        self.most_of_one = max(self.most_of_one, *(self._running.count(one) for one in self._running))
        try:
            yield
        finally:
            self._running.remove(index)

    def note(self, name: str, ctx: Any, index: int | None) -> None:
        """Record a call."""
        self.calls.append((name, index, ctx.attempt))
        self.times.append(anyio.current_time())

    def of(self, name: str) -> list[tuple[int | None, int]]:
        """Return the requests and attempts of the calls of a name."""
        return [(index, attempt) for called, index, attempt in self.calls if called == name]

    def pauses(self) -> Sequence[float]:
        """Return the seconds between calls."""
        return [later - earlier for earlier, later in pairwise(self.times)]
