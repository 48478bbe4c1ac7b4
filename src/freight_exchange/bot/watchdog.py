"""The last moment of a process: what hangs then is ended, as by a crash."""

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
    from freight_exchange.bot.delivery.in_flight import InFlight

__all__ = ["Watchdog"]

_logger = logging.getLogger("freight_exchange.bot")

_TO_TELL: Final = 0.5
_LAST_SECOND: Final = 1.0


@attrs.frozen(order=True)
class _End:
    at: float
    status: int
    unless: Callable[[], bool] = attrs.field(order=False)


class Watchdog:
    """Ends the process if it has not ended by itself by then: in a thread, which goes on while the loop is blocked.

    Once the bot has ended it may wait for a thread that was left in it: Python itself waits for each, for ever, when
    the program has ended.

    Args:
        at_work: Who is to be named, if it comes to that.
    """

    def __init__(self, at_work: InFlight) -> None:
        self._at_work = at_work
        self._told: SimpleQueue[_End | int] = SimpleQueue()
        self._before = _threads()
        self._error_before = _uncaught()
        threading.Thread(target=self._wait, name="last moment", daemon=True).start()

    def comes_in(self, seconds: float, status: int, *, unless: Callable[[], bool] = lambda: False) -> None:
        """End the process then, with that status, `unless` something is so by then. A signal handler may say so too: a
        simple queue can be put into while it is."""
        self._told.put(_End(time.monotonic() + seconds, status, unless))

    def dismiss(self, status: int) -> None:
        """The bot has ended by itself, and its process is to exit with that status."""
        self._told.put(status)

    def _wait(self) -> None:
        ends: list[_End] = []
        while True:
            soonest = min(ends, default=None)
            try:
                told = self._told.get(timeout=None if soonest is None else max(0.0, soonest.at - time.monotonic()))
            except Empty:
                assert soonest is not None
                ends.remove(soonest)
                if not soonest.unless():
                    self._end(soonest.status)
                continue
            if isinstance(told, int):
                self._see_off(told)
                return
            ends.append(told)

    def _see_off(self, status: int) -> None:
        """End the process once the program has ended, if threads that were begun during the bot still go on then."""
        left = [thread for thread in _threads() if thread not in self._before]
        if not left:
            return
        # What the program goes on with is its own affair: after the bot, and in threads that it had before.
        threading.main_thread().join()
        for thread in self._before:
            thread.join()
        until = time.monotonic() + _LAST_SECOND
        for thread in left:
            thread.join(max(0.0, until - time.monotonic()))
        names = ", ".join(thread.name for thread in left if thread.is_alive())
        if not names:
            return
        if _uncaught() is not self._error_before:
            status = status or 1
        said = "the bot has ended, and threads that were left in it have not: its process ends now, with status %d: %s"
        _leave(status, said, status, names)

    def _end(self, status: int) -> None:
        who = str(self._at_work) or "nothing but the bot itself"
        said = "the bot does not end: its process ends now, as by a crash, with status %d; at work still: %s"
        _leave(status, said, status, who)


def _threads() -> list[threading.Thread]:
    """Those that Python waits for when the program has ended, other than the one that it ended in."""
    return [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]


def _uncaught() -> object:
    """The error that has ended the program, if one has: Python has shown its traceback."""
    return getattr(sys, "last_value", None)


def _leave(status: int, said: str, *args: object) -> None:
    def tell() -> None:
        _logger.critical(said, *args)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()

    # Whoever blocks may hold the log as well.
    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    telling.join(_TO_TELL)
    os._exit(status)
