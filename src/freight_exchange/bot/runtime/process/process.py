"""Process of a bot: its signals and its exit status."""

from __future__ import annotations

import importlib.util
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Final, Literal, Protocol

import anyio

from freight_exchange.bot.outcomes import ProcessEnd, describe
from freight_exchange.bot.runtime.fleet.membership import LOST_SEAT
from freight_exchange.bot.runtime.process.signals import Received, receive_signals
from freight_exchange.bot.runtime.process.watchdog import Watchdog
from freight_exchange.bot.runtime.shutdown import CLOSE_TIMEOUT
from freight_exchange.bot.tasks import flatten, unwrap_errors
from freight_exchange.errors import (
    ConfigurationError,
    FreightExchangeError,
    HeldError,
    LoginRejectedError,
    NotFoundError,
    StoreAwayError,
    StoreError,
    TransportError,
    ValidationError,
)
from freight_exchange.platform.text import CleanFormatter
from freight_exchange.store.protocol import ConflictError

if TYPE_CHECKING:
    from freight_exchange.bot.metrics.metrics import InFlight
    from freight_exchange.bot.runtime.shutdown import FailureCallback

__all__ = ["HUNG_STATUS", "STATUSES", "importing", "run"]

_logger = logging.getLogger("freight_exchange.bot")

_GRACE: Final = 1.0
"""Seconds after its deadline in which a handler, or a second signal, may still end the process in an orderly way."""

_LEAVE_TIMEOUT: Final = 120.0
"""Seconds after its drain in which a bot that has lost its seat ends a session. Each of several calls takes some ten
seconds if the database does not answer."""

HUNG_STATUS: Final = 70
"""Exit status of a process whose drain ended with something still running."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

STATUSES: Final[tuple[tuple[type[FreightExchangeError], int], ...]] = (
    (HeldError, 75),
    (StoreAwayError, 75),
    (ConflictError, 75),
    (StoreError, 73),
    (LoginRejectedError, 77),
    (ConfigurationError, 78),
    (ValidationError, 78),
    (NotFoundError, 76),
    (TransportError, 76),
)
"""Exit statuses, by the first of these types that an error has. The numbers are those of `sysexits.h`: another start
may help after 75, and does not after 76, 77 and 78."""


_imported_module: ContextVar[str | None] = ContextVar("imported_module", default=None)


@contextmanager
def importing(module: str) -> Iterator[None]:
    """Make `Bot.run()` raise while this module is imported for its bot."""
    token = _imported_module.set(module)
    try:
        yield
    finally:
        _imported_module.reset(token)


class Program(Protocol):
    """A bot, as its process uses it."""

    def begin(self, on_failure: FailureCallback, log_failure: Callable[[Exception], None]) -> anyio.Event:
        """Accept `stop()` from now on, and return the event that it sets."""
        ...

    async def serve(self) -> None:
        """Run until `stop()` or an error."""
        ...

    def stop(self) -> None:
        """Drain, then end."""
        ...


def run(program: Program, in_flight: InFlight, drain: float, backend: Literal["asyncio", "trio"]) -> None:
    """Run a bot until a signal, and raise `SystemExit` unless it ended well."""
    _check(backend)
    _configure_logging()
    watchdog = Watchdog(in_flight)
    log_failure = _FailureLog()
    status = 0
    try:
        ended_by = anyio.run(_main, program, watchdog, in_flight, drain, log_failure, backend=backend)
    except SystemExit as end:
        # Status 0 would mean a clean drain, and a handler's `sys.exit(0)` is none.
        status = _exit_status(end)
        raise SystemExit(status if end.code is None or isinstance(end.code, int) else end.code) from end
    except FreightExchangeError as error:
        status = _exit_status(error)
        log_failure(error)
        raise SystemExit(status) from error
    except Exception as error:
        status = 1
        log_failure(error)
        raise
    except BaseException as error:
        status = _exit_status(error)
        raise
    else:
        if ended_by is not None:
            status = 128 + ended_by
            raise SystemExit(status)
    finally:
        watchdog.dismiss(status)


class _FailureLog:
    """Log of the errors that end the process, once each: as soon as one is raised, or when it leaves the loop."""

    def __init__(self) -> None:
        self._logged: set[tuple[type[BaseException], str]] = set()

    def __call__(self, error: Exception) -> None:
        keys = {(type(leaf), describe(leaf)) for leaf in flatten(error)}
        if keys & self._logged:
            return
        self._logged |= keys
        if isinstance(error, FreightExchangeError):
            _logger.critical("the bot ends with status %d: %s", _exit_status(error), error)
        else:
            _logger.critical("the bot ends with status 1: unexpected error: %s", describe(error))


def _exit_status(error: BaseException) -> int:
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
    """Check that a bot can run as this process."""
    if (module := _imported_module.get()) is not None:
        raise ConfigurationError(
            f"module {module} runs its bot while it is imported: move its bot.run() under `if __name__ == '__main__':`"
        )
    if backend not in ("asyncio", "trio"):
        raise ConfigurationError(f"backend must be 'asyncio' or 'trio', not {backend!r}")
    if backend == "trio" and importlib.util.find_spec("trio") is None:
        raise ConfigurationError("backend='trio' needs the package trio, which is not installed")
    try:
        anyio.current_time()
    except RuntimeError:
        why = None if threading.current_thread() is threading.main_thread() else "signals reach the main thread alone"
    else:
        why = "an event loop runs here already"
    if why is not None:
        raise ConfigurationError(
            f"bot.run() cannot be the process: {why}; use `await bot.serve()`, or `async with bot:`"
        )


def _configure_logging() -> None:
    """Log to standard error, unless the program has configured logging."""
    package = logging.getLogger("freight_exchange")
    if logging.getLogger().handlers or any(not isinstance(one, logging.NullHandler) for one in package.handlers):
        return
    handler = logging.StreamHandler()
    handler.setFormatter(CleanFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    package.addHandler(handler)
    package.setLevel(logging.INFO)


async def _main(
    program: Program, watchdog: Watchdog, in_flight: InFlight, drain: float, log_failure: Callable[[Exception], None]
) -> int | None:
    """Run the bot, and return the number of a second signal that ended it at once."""
    ended_by: list[int] = []
    received: list[int] = []
    last_received = Received(0, -math.inf)

    def limit_end(
        status: int, has_ended: Callable[[], bool] = lambda: False, close_timeout: float = CLOSE_TIMEOUT
    ) -> None:
        watchdog.set_deadline(drain + _GRACE, status, unless=lambda: not in_flight or has_ended())
        # If no handler runs, only the bot's own work remains. A slow disk may need the longer limit.
        watchdog.set_deadline(drain + close_timeout, status, unless=has_ended)

    def on_failure(error: BaseException, has_ended: Callable[[], bool]) -> None:
        limit_end(_exit_status(error), has_ended, _LEAVE_TIMEOUT if isinstance(error, LOST_SEAT) else CLOSE_TIMEOUT)

    async def limit_drain() -> None:
        await stop.wait()
        limit_end(HUNG_STATUS)

    def on_signal(number: int) -> None:
        nonlocal last_received
        latest = Received(number, time.monotonic())
        if latest.repeats(last_received):
            return
        last_received = latest
        if received:
            # A thread, for example, ignores cancellation.
            watchdog.set_deadline(_GRACE, 128 + number)
        else:
            limit_end(HUNG_STATUS)
        received.append(number)

    async def handle_signals() -> None:
        with receive_signals(*_SIGNALS) as signals:
            for number in _SIGNALS:
                _handle_at_once(number, on_signal)
            is_handling.set()
            is_draining = False
            async for number in signals:
                if len(received) > 1:
                    _logger.warning("second signal: the process ends at once")
                    ended_by.append(received[1])
                    tasks.cancel_scope.cancel()
                    return
                if not is_draining:
                    _logger.info("received %s: draining", signal.Signals(number).name)
                    program.stop()
                    is_draining = True

    is_handling = anyio.Event()
    with unwrap_errors():
        async with anyio.create_task_group() as tasks:
            stop = program.begin(on_failure, log_failure)
            tasks.start_soon(handle_signals)
            await is_handling.wait()
            tasks.start_soon(limit_drain)
            await program.serve()
            tasks.cancel_scope.cancel()
    return ended_by[0] if ended_by else None


def _handle_at_once(number: signal.Signals, on_signal: Callable[[int], None]) -> None:
    """Handle a signal even while a handler blocks the event loop, which receives no signals then."""
    loop_handler = signal.getsignal(number)

    def handle(number: int, frame: FrameType | None) -> None:
        on_signal(number)
        if callable(loop_handler):
            loop_handler(number, frame)

    signal.signal(number, handle)
