"""Process of a bot: its signals, its exit status, and a watchdog that ends it when it hangs, as a crash would."""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Final, Literal

import anyio
import anyio.from_thread
import anyio.lowlevel

from freight_exchange.bot.outcomes import ProcessEnd, describe
from freight_exchange.bot.signals import SIGNALS
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
from freight_exchange.store.errors import ConflictError

if TYPE_CHECKING:
    from freight_exchange.bot.bot import Bot
    from freight_exchange.bot.metrics import InFlight

_logger = logging.getLogger("freight_exchange.bot")

CLOSE_TIMEOUT: Final = 5.0
"""Seconds after its drain in which a process closes its resources. Then it is ended."""

HUNG_STATUS: Final = 70
"""Exit status of a process whose drain ended with something still running."""

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

_REPEAT_WINDOW: Final = 0.1
"""Seconds in which a signal that comes again counts once: `timeout` signals the process, and then its group."""
_GRACE: Final = 1.0
"""Seconds after its deadline in which a handler, or a second signal, may still end the process in an orderly way."""
_LOG_TIMEOUT: Final = 0.5

_imported_module: ContextVar[str | None] = ContextVar("imported_module", default=None)


@contextmanager
def importing(module: str) -> Iterator[None]:
    """Make `Bot.run()` raise while this module is imported for its bot."""
    token = _imported_module.set(module)
    try:
        yield
    finally:
        _imported_module.reset(token)


def run(bot: Bot, backend: Literal["asyncio", "trio"]) -> None:
    """Run a bot until a signal, and raise `SystemExit` unless it ended well."""
    _check(backend)
    _configure_logging()
    program = _Program(bot)
    status = 1
    try:
        with program.receiving_signals():
            anyio.run(program.main, backend=backend)
        status = 0 if program.ended_by is None else 128 + program.ended_by
    except BaseException as error:
        status = _status_of(error)
        if isinstance(error, Exception):
            program.log(error)
        is_expected = isinstance(error, FreightExchangeError | KeyboardInterrupt | SystemExit)
        # An unexpected error keeps its traceback, and Python prints a text.
        if is_expected and not isinstance(getattr(error, "code", None), str):
            raise SystemExit(status) from error
        raise
    finally:
        program.watchdog.dismiss(status)
    if status:
        raise SystemExit(status)


def _status_of(error: BaseException) -> int:
    if isinstance(error, ProcessEnd):
        error = error.reason
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 1)


class _Program:
    """Run of a bot as this process. `ended_by` is the number of a second signal, which ended it at once."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self._in_flight = bot._metrics.in_flight
        self._drain = bot._options.drain.total_seconds()
        self._logged: BaseException | None = None
        self._signals: list[int] = []
        self._last_signal = (0, -math.inf)
        self._scope: anyio.CancelScope | None = None
        self._has_ended = False
        self.watchdog = Watchdog(self._in_flight)
        self.ended_by: int | None = None

    async def main(self) -> None:
        self._token = anyio.lowlevel.current_token()
        with anyio.CancelScope() as self._scope:
            run = self._run = self._bot._begin(self._on_failure, lambda: self._limit_end(HUNG_STATUS))
            if self._signals:
                # It came before the loop ran.
                run.stop()
            await run(self._bot._exchange)
        self._has_ended = True

    def log(self, error: BaseException) -> None:
        if self._logged is not None:
            return
        self._logged = error
        what = str(error) if isinstance(error, FreightExchangeError) else f"unexpected error: {describe(error)}"
        _logger.critical("the bot ends with status %d: %s", _status_of(error), what)

    def _on_failure(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            self.log(error)
        elif not isinstance(error, ProcessEnd) and self.ended_by is None:
            _logger.critical(
                "the bot ends: cancelled by the lifespan or by other code of the process, such as by a failed task; its"
                " error is logged after the handlers end"
            )
        # A handler that ends the process was logged by its worker.
        self._limit_end(_status_of(error))

    def _limit_end(self, status: int) -> None:
        self.watchdog.set_deadline(self._drain + _GRACE, status, unless=lambda: not self._in_flight or self._has_ended)
        # If no handler runs, only the bot's own work remains. A slow disk may need the longer limit.
        self.watchdog.set_deadline(self._drain + CLOSE_TIMEOUT, status, unless=lambda: self._has_ended)

    # Signals

    @contextmanager
    def receiving_signals(self) -> Iterator[None]:
        """Receive signals during the block, in this process and not in its forks."""
        previous = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # Python calls this in the main thread, perhaps while a handler blocks the loop: only the watchdog's threads may
        # wait or log.
        latest = number, time.monotonic()
        if self._last_signal[0] == number and latest[1] - self._last_signal[1] < _REPEAT_WINDOW:
            return
        self._last_signal = latest
        self._signals.append(number)
        if len(self._signals) > 1:
            self.watchdog.set_deadline(_GRACE, 128 + number)
        else:
            self._limit_end(HUNG_STATUS)
        self.watchdog.do(self._tell_loop, len(self._signals), number)

    def _tell_loop(self, count: int, number: int) -> None:
        """Tell the loop about a signal, from a thread that may wait for it."""
        if count == 1:
            _logger.info("received %s: draining", signal.Signals(number).name)
        else:
            _logger.warning("second signal: the process ends at once")

        def act() -> None:
            if count == 1:
                self._run.stop()
            elif self.ended_by is None and self._scope is not None:
                self.ended_by = number
                self._scope.cancel()

        # Before the loop runs, `main` looks for it; after its end, nothing is left to stop.
        if self._scope is not None and not self._has_ended:
            try:
                anyio.from_thread.run_sync(act, token=self._token)
            except RuntimeError as error:
                _logger.debug("the event loop has ended: %s", error)


class Watchdog:
    """Threads that end the process at a deadline. They run even while the event loop is blocked.

    After the bot has ended they also end threads that handlers abandoned: Python would wait for them forever.
    """

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        # A signal handler may put an action, as a `SimpleQueue` is reentrant; it must not start a thread itself.
        self._actions: SimpleQueue[tuple[float, Callable[[], object]] | None] = SimpleQueue()
        self._is_dismissed = False
        self._threads_before = _other_threads()
        self._error_before = getattr(sys, "last_value", None)
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def do(self, action: Callable[..., object], *args: object, after: float = 0.0) -> None:
        self._actions.put((time.monotonic() + after, partial(action, *args)))

    def set_deadline(self, seconds: float, status: int, *, unless: Callable[[], bool] = lambda: False) -> None:
        """End the process after `seconds` with this status, unless `unless()` is true then."""
        self.do(self._end, status, unless, after=seconds)

    def dismiss(self, status: int) -> None:
        """Report that the bot has ended, and the exit status of the process."""
        self._is_dismissed = True
        self.do(self._end_abandoned_threads, status)
        self._actions.put(None)

    def _run(self) -> None:
        for at, action in iter(self._actions.get, None):
            timer = threading.Timer(max(0.0, at - time.monotonic()), action)
            timer.daemon = True
            timer.start()

    def _end(self, status: int, unless: Callable[[], bool]) -> None:
        if not (self._is_dismissed or unless()):
            active = str(self._in_flight) or "nothing but the bot itself"
            text = "the bot did not shut down in time: ending its process with status %d; still running: %s"
            _exit(status, text, status, active)

    def _end_abandoned_threads(self, status: int) -> None:
        """After the end of the program, end the process if threads that handlers began still run."""
        abandoned = [thread for thread in _other_threads() if thread not in self._threads_before]
        if not abandoned:
            return
        # The program may continue after the bot, also in threads from before it.
        threading.main_thread().join()
        for thread in self._threads_before:
            thread.join()
        until = time.monotonic() + _GRACE
        for thread in abandoned:
            thread.join(max(0.0, until - time.monotonic()))
        names = ", ".join(thread.name for thread in abandoned if thread.is_alive())
        if not names:
            return
        if getattr(sys, "last_value", None) is not self._error_before:
            # An error has ended the program.
            status = status or 1
        text = "the bot has ended, but threads that handlers left have not: its process ends now, with status %d: %s"
        _exit(status, text, status, names)


def _other_threads() -> list[threading.Thread]:
    """Return the threads that Python waits for at the end of the program."""
    return [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]


def _exit(status: int, text: str, *args: object) -> None:
    def log() -> None:
        _logger.critical(text, *args)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()

    # In a thread: a blocked handler may hold the lock of the log.
    logging_thread = threading.Thread(target=log, daemon=True)
    logging_thread.start()
    logging_thread.join(_LOG_TIMEOUT)
    os._exit(status)


def _check(backend: object) -> None:
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
    package = logging.getLogger("freight_exchange")
    if logging.getLogger().handlers or any(not isinstance(one, logging.NullHandler) for one in package.handlers):
        return
    handler = logging.StreamHandler()
    handler.setFormatter(CleanFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    package.addHandler(handler)
    package.setLevel(logging.INFO)
