"""Shutdown: callbacks for failures, and the time that remains afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from freight_exchange.bot.outcomes import describe

__all__ = ["CLOSE_TIMEOUT", "FailureCallback", "FailureLog", "ignore_failure", "log_failure"]

_logger = logging.getLogger("freight_exchange.bot")

CLOSE_TIMEOUT: Final = 5.0
"""Seconds after its drain in which a process closes its resources. Then it is ended."""

FailureCallback = Callable[[BaseException, Callable[[], bool]], None]
"""Callback for an error that ends the bot or a session. The second argument returns whether that has ended.

It is called at once, while handlers may still run.
"""

FailureLog = Callable[[Exception], None]
"""Log of the error that ends a bot."""


def ignore_failure(error: BaseException, has_ended: Callable[[], bool]) -> None:
    """Ignore a failure."""


def log_failure(error: Exception) -> None:
    """Log an error that ends a bot inside an application."""
    _logger.critical("the bot ends: %s", describe(error))
