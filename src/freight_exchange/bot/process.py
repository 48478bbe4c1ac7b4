"""A bot as a process: its signals, and the status that it exits with."""

from __future__ import annotations

import importlib.util
import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Final, Literal

import anyio

from freight_exchange.bot.outcomes import ProcessEnd, told
from freight_exchange.bot.session import unwrap_errors
from freight_exchange.bot.watchdog import Watchdog
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
from freight_exchange.platform.text import CleanFormatter

if TYPE_CHECKING:
    from freight_exchange.bot.bot import Bot
    from freight_exchange.bot.delivery.in_flight import InFlight

__all__ = ["HUNG", "STATUSES", "TO_CLOSE", "run"]

_logger = logging.getLogger("freight_exchange.bot")

_LAST_SECOND: Final = 1.0

TO_CLOSE: Final = 5.0
"""Seconds after its drain in which a process has closed what is left, or is ended."""

HUNG: Final = 70
"""What a process exits with where something did not end with the drain, and was ended with the process."""

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


def run(bot: Bot, at_work: InFlight, drain: float, backend: Literal["asyncio", "trio"]) -> None:
    """Run the bot until a signal; `SystemExit` unless it ended well."""
    _check(backend)
    _be_heard()
    last_moment = Watchdog(at_work)
    status = 0
    try:
        ended_by = anyio.run(_main, bot, at_work, last_moment, drain, backend=backend)
    except SystemExit as end:
        # 0 means that the bot was drained; a handler that leaves so has ended it.
        status = _status_of(end)
        raise SystemExit(status if end.code is None or isinstance(end.code, int) else end.code) from end
    except FreightExchangeError as error:
        status = _status_of(error)
        _logger.critical("the bot ends with status %d: %s", status, error)
        if status == 1:
            raise
        raise SystemExit(status) from error
    except Exception as error:
        status = 1
        _logger.critical("the bot ends with status 1 by what it did not expect: %s", told(error))
        raise
    except BaseException as error:
        status = _status_of(error)
        raise
    else:
        if ended_by is not None:
            status = 128 + ended_by
            raise SystemExit(status)
    finally:
        last_moment.dismiss(status)


def _status_of(error: BaseException) -> int:
    if isinstance(error, ProcessEnd):
        error = error.reason
    match error:
        case KeyboardInterrupt():
            return 128 + signal.SIGINT
        case SystemExit(code=int(code)):
            return code & 0xFF or 1
        case _:
            return next((status for kind, status in STATUSES if isinstance(error, kind)), 1)


def _check(backend: object) -> None:
    """`ConfigurationError` where a bot cannot be the process."""
    if backend not in ("asyncio", "trio"):
        raise ConfigurationError(f"backend must be 'asyncio' or 'trio', not {backend!r}")
    if backend == "trio" and importlib.util.find_spec("trio") is None:
        raise ConfigurationError("backend='trio' needs the package trio, which is not installed")
    try:
        anyio.current_time()
    except RuntimeError:
        where = None if threading.current_thread() is threading.main_thread() else "signals reach the main thread alone"
    else:
        where = "an event loop runs here already"
    if where is not None:
        raise ConfigurationError(
            f"bot.run() cannot be the process: {where}; use `await bot.serve()`, or `async with bot:`"
        )


def _be_heard() -> None:
    """Log to standard error, unless the program has said where its logs go."""
    package = logging.getLogger("freight_exchange")
    if logging.getLogger().handlers or any(not isinstance(own, logging.NullHandler) for own in package.handlers):
        return
    heard = logging.StreamHandler()
    heard.setFormatter(CleanFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    package.addHandler(heard)
    package.setLevel(logging.INFO)


async def _main(bot: Bot, at_work: InFlight, last_moment: Watchdog, drain: float) -> int | None:
    """The number of the signal that ended it at once, if one did."""
    ended_by: list[int] = []

    def over_by_then(status: int, has_ended: Callable[[], bool] = lambda: False) -> None:
        last_moment.comes_in(drain + _LAST_SECOND, status, unless=lambda: not at_work or has_ended())
        # What is left is the bot's own: a slow disk may take its time.
        last_moment.comes_in(drain + TO_CLOSE, status, unless=has_ended)

    def ends(error: BaseException, has_ended: Callable[[], bool]) -> None:
        over_by_then(_status_of(error), has_ended)

    async def bound_the_drain() -> None:
        await stop.wait()
        over_by_then(HUNG)

    def hear(number: int) -> None:
        if heard:
            # What does not heed a cancellation, a thread say, must not be waited for.
            last_moment.comes_in(_LAST_SECOND, 128 + number)
        else:
            over_by_then(HUNG)
        heard.append(number)

    async def listen() -> None:
        with anyio.open_signal_receiver(*_SIGNALS) as signals:
            for number in _SIGNALS:
                _hear_at_once(number, hear)
            listening.set()
            async for number in signals:
                if len(heard) > 1:
                    _logger.warning("a second signal: ending at once")
                    ended_by.append(heard[1])
                    tasks.cancel_scope.cancel()
                    return
                _logger.info("%s: draining", signal.Signals(number).name)
                bot.stop()

    heard: list[int] = []
    listening = anyio.Event()
    with unwrap_errors():
        async with anyio.create_task_group() as tasks:
            stop = bot.begin(ends)
            tasks.start_soon(listen)
            await listening.wait()
            tasks.start_soon(bound_the_drain)
            await bot.serve()
            tasks.cancel_scope.cancel()
    return ended_by[0] if ended_by else None


def _hear_at_once(number: signal.Signals, hear: Callable[[int], None]) -> None:
    """Have the signal heard where the event loop does not hear it too: while a handler blocks it."""
    loops_own = signal.getsignal(number)

    def both(number: int, frame: FrameType | None) -> None:
        hear(number)
        if callable(loops_own):
            loops_own(number, frame)

    signal.signal(number, both)
