"""Event loop of a bot, as other threads use it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import anyio.from_thread
import anyio.lowlevel

__all__ = ["BotLoop"]

T = TypeVar("T")


class BotLoop:
    """Event loop of a bot: the one in which this object was made."""

    def __init__(self) -> None:
        self._token = anyio.lowlevel.current_token()
        self._thread = threading.get_ident()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the loop and return its result. Any thread may call this."""
        if threading.get_ident() == self._thread:
            return function()
        return anyio.from_thread.run_sync(function, token=self._token)
