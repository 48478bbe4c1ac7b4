"""The last moment of a process: what hangs then is ended, as by a crash."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from freight_exchange.bot.at_work import AtWork

__all__ = ["LastMoment"]

_logger = logging.getLogger("freight_exchange.bot")

_TO_TELL: Final = 0.5


@attrs.frozen(order=True)
class _End:
    at: float
    status: int
    unless: Callable[[], bool] = attrs.field(order=False)


class LastMoment:
    """Ends the process if it has not ended by itself by then: in a thread, which goes on while the loop is blocked.

    Args:
        at_work: Who is to be named, if it comes to that.
    """

    def __init__(self, at_work: AtWork) -> None:
        self._at_work = at_work
        self._told: SimpleQueue[_End | None] = SimpleQueue()
        threading.Thread(target=self._wait, name="last moment", daemon=True).start()

    def comes_in(self, seconds: float, status: int, *, unless: Callable[[], bool] = lambda: False) -> None:
        """End the process then, with that status, `unless` something is so by then. A signal handler may say so too: a
        simple queue can be put into while it is."""
        self._told.put(_End(time.monotonic() + seconds, status, unless))

    def dismiss(self) -> None:
        """It has ended by itself."""
        self._told.put(None)

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
            if told is None:
                return
            ends.append(told)

    def _end(self, status: int) -> None:
        who = str(self._at_work) or "nothing but the bot itself"
        said = "the bot does not end: its process ends now, as by a crash, with status %d; at work still: %s"
        # Whoever blocks may hold the log as well.
        telling = threading.Thread(target=_logger.critical, args=(said, status, who), daemon=True)
        telling.start()
        telling.join(_TO_TELL)
        os._exit(status)
