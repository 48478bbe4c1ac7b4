"""Log of the losses of a bot's seat."""

from __future__ import annotations

import logging
import math
from typing import Final

import anyio

from freight_exchange.store.protocol import StoreRefusedError

__all__ = ["LossLog"]

_logger = logging.getLogger("freight_exchange.bot")

_INTERVAL: Final = 60.0
_MIN_PAUSE, _MAX_PAUSE = 1.0, 30.0


class LossLog:
    """Log of the losses of a bot's seat. While each new seat is lost at once, it logs one a minute."""

    def __init__(self) -> None:
        self._quiet_until = dict[int, float]()
        self._pause, self._last_refusal = _MIN_PAUSE, -math.inf

    def add(self, error: BaseException, *, has_worked: bool, is_stopping: bool) -> float:
        """Log a loss, at level debug if the last warning was a short time ago.

        Args:
            error: Why the seat was lost.
            has_worked: Whether the bot was running with this seat. Such a loss always gives a warning, unless the
                database refused something: a right may be missing that only a running bot needs.
            is_stopping: Whether the bot ends now, and does not join again.

        Returns:
            Seconds until the bot joins again: more after each of several refusals in a row.
        """
        # A refusal may need a person, who has to correct the password or a right.
        is_refused = isinstance(error, StoreRefusedError)
        now, level = anyio.current_time(), logging.ERROR if is_refused else logging.WARNING
        if (has_worked and not is_refused) or now >= self._quiet_until.get(level, -math.inf):
            self._quiet_until[level] = now + _INTERVAL
        else:
            level = logging.DEBUG
        next_step = "it was stopped, and ends" if is_stopping else "it joins again"
        _logger.log(level, "the bot has lost its seat in the store: %s; %s", error, next_step)
        if not is_refused:
            return _MIN_PAUSE
        in_a_row, self._last_refusal = now - self._last_refusal < _INTERVAL, now
        self._pause = min(2 * self._pause, _MAX_PAUSE) if in_a_row else _MIN_PAUSE
        return self._pause
