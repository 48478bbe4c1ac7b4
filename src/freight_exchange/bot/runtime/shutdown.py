"""Shutdown: a callback for failures, and the time that remains afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["CLOSE_TIMEOUT", "FailureCallback", "ignore_failure"]

CLOSE_TIMEOUT: Final = 5.0
"""Seconds after its drain in which a process closes its resources. Then it is ended."""

FailureCallback = Callable[[BaseException, Callable[[], bool]], None]
"""Callback for an error that ends the bot, or one session of it, and a function that tells whether that has ended.

It is called at once: handlers that are still running may take their time, or never end.
"""


def ignore_failure(error: BaseException, has_ended: Callable[[], bool]) -> None:
    """Ignore a failure."""
