"""A bot as a process: its signals, and the status that it exits with."""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import TYPE_CHECKING, Final, Literal

import anyio

from freight_exchange.bot.run import plainly
from freight_exchange.errors import (
    ConfigurationError,
    FreightExchangeError,
    HeldError,
    LoginRejectedError,
    NotFoundError,
    StoreError,
    TransportError,
    ValidationError,
)

if TYPE_CHECKING:
    from freight_exchange.bot.bot import Bot

__all__ = ["STATUSES", "run"]

_logger = logging.getLogger("freight_exchange.bot")

_LAST_SECOND: Final = 1.0

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

STATUSES: Final[tuple[tuple[type[FreightExchangeError], int], ...]] = (
    (HeldError, 75),
    (StoreError, 73),
    (LoginRejectedError, 77),
    (ConfigurationError, 78),
    (ValidationError, 78),
    (NotFoundError, 76),
    (TransportError, 76),
)
"""What a process exits with, by the first of these that its error is: numbers of `sysexits.h`, so that a supervisor can
tell what another start may mend (75) from what it may not (76, 77, 78)."""


def run(bot: Bot, backend: Literal["asyncio", "trio"]) -> None:
    """Run the bot until a signal; `SystemExit` unless it ended well."""
    _be_heard()
    try:
        ended_by = anyio.run(_main, bot, backend=backend)
    except FreightExchangeError as error:
        status = next((status for kind, status in STATUSES if isinstance(error, kind)), 1)
        if status == 1:
            raise
        _logger.critical("the bot ends with status %d: %s", status, error)
        raise SystemExit(status) from error
    if ended_by is not None:
        raise SystemExit(128 + ended_by)


def _be_heard() -> None:
    """Log to standard error, unless the program has said where its logs go."""
    package = logging.getLogger("freight_exchange")
    if logging.getLogger().handlers or any(not isinstance(own, logging.NullHandler) for own in package.handlers):
        return
    heard = logging.StreamHandler()
    heard.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    package.addHandler(heard)
    package.setLevel(logging.INFO)


async def _main(bot: Bot) -> int | None:
    """The number of the signal that ended it at once, if one did."""
    ended_by: list[int] = []

    async def listen() -> None:
        with anyio.open_signal_receiver(*_SIGNALS) as signals:
            listening.set()
            async for number in signals:
                if bot.is_stopping:
                    _logger.warning("a second signal: ending at once")
                    ended_by.append(int(number))
                    # What does not heed a cancellation, a thread say, must not be waited for.
                    last = threading.Timer(_LAST_SECOND, os._exit, [128 + int(number)])
                    last.daemon = True
                    last.start()
                    tasks.cancel_scope.cancel()
                    return
                _logger.info("%s: draining", signal.Signals(number).name)
                bot.stop()

    listening = anyio.Event()
    with plainly():
        async with anyio.create_task_group() as tasks:
            bot.begin()
            tasks.start_soon(listen)
            await listening.wait()
            await bot.serve()
            tasks.cancel_scope.cancel()
    return ended_by[0] if ended_by else None
