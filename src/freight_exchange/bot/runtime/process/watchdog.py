"""Watchdog: end a process that hangs, as a crash would."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from freight_exchange.bot.metrics.metrics import InFlight

__all__ = ["Watchdog"]

_logger = logging.getLogger("freight_exchange.bot")

_LOG_TIMEOUT: Final = 0.5
_THREAD_GRACE: Final = 1.0


@attrs.frozen(order=True)
class _Deadline:
    at: float
    status: int
    unless: Callable[[], bool] = attrs.field(order=False)


class Watchdog:
    """Thread that ends the process at a deadline. It runs even while the event loop is blocked.

    After the bot has ended it also ends threads that handlers abandoned: Python would wait for them forever.

    Args:
        in_flight: Deliveries to name in the log.
    """

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._messages: SimpleQueue[_Deadline | int] = SimpleQueue()
        self._threads_before = _other_threads()
        self._error_before = _uncaught_error()
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def set_deadline(self, seconds: float, status: int, *, unless: Callable[[], bool] = lambda: False) -> None:
        """End the process after `seconds` with this status, unless `unless()` is true then.

        Safe in a signal handler: a `SimpleQueue` is reentrant.
        """
        self._messages.put(_Deadline(time.monotonic() + seconds, status, unless))

    def dismiss(self, status: int) -> None:
        """Report that the bot has ended, and the exit status of the process."""
        self._messages.put(status)

    def _run(self) -> None:
        deadlines: list[_Deadline] = []
        while True:
            next_one = min(deadlines, default=None)
            try:
                message = self._messages.get(
                    timeout=None if next_one is None else max(0.0, next_one.at - time.monotonic())
                )
            except Empty:
                assert next_one is not None
                deadlines.remove(next_one)
                if not next_one.unless():
                    self._end_hanging_bot(next_one.status)
                continue
            if isinstance(message, int):
                self._end_abandoned_threads(message)
                return
            deadlines.append(message)

    def _end_abandoned_threads(self, status: int) -> None:
        """After the end of the program, end the process if threads that handlers began still run."""
        abandoned = [thread for thread in _other_threads() if thread not in self._threads_before]
        if not abandoned:
            return
        # The program may continue after the bot, also in threads from before it.
        threading.main_thread().join()
        for thread in self._threads_before:
            thread.join()
        until = time.monotonic() + _THREAD_GRACE
        for thread in abandoned:
            thread.join(max(0.0, until - time.monotonic()))
        names = ", ".join(thread.name for thread in abandoned if thread.is_alive())
        if not names:
            return
        if _uncaught_error() is not self._error_before:
            status = status or 1
        text = "the bot has ended, but threads that handlers left have not: its process ends now, with status %d: %s"
        _exit(status, text, status, names)

    def _end_hanging_bot(self, status: int) -> None:
        active = str(self._in_flight) or "nothing but the bot itself"
        text = "the bot did not shut down in time: ending its process with status %d; still running: %s"
        _exit(status, text, status, active)


def _other_threads() -> list[threading.Thread]:
    """Return the threads that Python waits for at the end of the program."""
    return [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]


def _uncaught_error() -> object:
    """Return the error that ended the program, if one did."""
    return getattr(sys, "last_value", None)


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
