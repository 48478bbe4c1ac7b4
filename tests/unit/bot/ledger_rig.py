"""What the tests of offers and of stopping share: a bot that looks again soon, and faults at the offer's address."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest

from freight_exchange import Bot
from freight_exchange.bot.ops.status import Doubt
from freight_exchange.store import Store
from freight_exchange.testing import FAULTS, Sandbox, Trial

INTERVAL = timedelta(seconds=10)
SETTLE = timedelta(seconds=5)
OFFER = "quote/submitoffer"
BIDS = "quote/bid"
CURRENCIES = "currency"
AMOUNT = "1840.50"

UNANSWERED = "reset_after_processing"
"""The offer is taken, and nobody is told."""
UNPROCESSED = "reset_after_send"
"""The offer is not taken, and nobody can know that."""


def new_bot(store: Store | None, **options: Any) -> Bot:
    """A bot that hears of everything, soon."""
    told: dict[str, Any] = {"start": "backfill", "settle": SETTLE, "interval": INTERVAL, **options}
    return Bot(store=store, **told)


def offering_bot(store: Store | None, called: list[int] | None = None, **options: Any) -> Bot:
    """A bot that offers `AMOUNT` on every new request; `called` is given the index of the request at each call."""
    bot = new_bot(store, **options)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        if called is not None:
            called.append(request.index)
        await ctx.offer(amount=AMOUNT, currency=840)

    return bot


def strike(sandbox: Sandbox, name: str, path: str | None = OFFER, **how: Any) -> None:
    """Arm a fault of that name at an address."""
    sandbox.strike(*FAULTS[name](path=path, **how))


def amounts_on(sandbox: Sandbox, index: int) -> list[str]:
    """The amounts of all offers that the exchange has ever taken on the request."""
    return [str(record.offer.amount) for record in sandbox.audit_log.offers_on(index)]


def sent(sandbox: Sandbox) -> int:
    """How many offers reached the exchange, taken or not."""
    return len(sandbox.audit_log.calls_to("POST", OFFER))


async def eventually(true: Callable[[], object], within: timedelta = timedelta(hours=1)) -> None:
    """Wait until it is so, and a hundredth longer at the most."""
    begun = anyio.current_time()
    with anyio.fail_after(within.total_seconds()):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await anyio.sleep(max(0.1, (anyio.current_time() - begun) / 100))


async def parked(bot: Bot, trial: Trial) -> Doubt:
    """Wait until a doubt is left to a person, and tell which."""
    await eventually(lambda: trial.status.parked)
    (doubt,) = await bot.doubts()
    return doubt


def approve(sandbox: Sandbox, index: int) -> None:
    """Have the shipper select the first offer on the request."""
    sandbox.exchange.select(sandbox.audit_log.offers_on(index)[0].offer.index, sandbox.now())


@contextmanager
def blind(sandbox: Sandbox, path: str = BIDS, name: str = "unavailable_forever") -> Iterator[None]:
    """Everything that is asked of the address fails inside the block."""
    strike(sandbox, name, path, times=None)
    try:
        yield
    finally:
        sandbox.exchange.faults.clear()


def said(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """What the bot has logged at that level."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "freight_exchange.bot" and record.levelno == level
    ]
