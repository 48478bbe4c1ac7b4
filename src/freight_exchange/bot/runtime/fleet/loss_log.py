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


class LossLog:
    """Log of the losses of a bot's seat. While each new seat is lost at once, it logs one a minute."""

    def __init__(self) -> None:
        self._is_quiet_until = dict[int, float]()

    def add(self, error: BaseException, *, has_worked: bool, is_stopping: bool) -> None:
        """Log a loss, at level debug if the last warning was a short time ago.

        Args:
            error: Why the seat was lost.
            has_worked: Whether the bot was running with this seat. Such a loss always gives a warning.
            is_stopping: Whether the bot ends now, and does not join again.
        """
        # A refusal may need a person, who has to correct the password or a right.
        now, level = anyio.current_time(), logging.ERROR if isinstance(error, StoreRefusedError) else logging.WARNING
        if has_worked or now >= self._is_quiet_until.get(level, -math.inf):
            self._is_quiet_until[level] = now + _INTERVAL
        else:
            level = logging.DEBUG
        next_step = "it was stopped, and ends" if is_stopping else "it joins again"
        _logger.log(level, "the bot has lost its seat in the store: %s; %s", error, next_step)
