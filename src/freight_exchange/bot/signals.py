"""Signals of a process before its bot runs, and in its forks.

Imported first. Process 1 of a container ignores signals that it has no handler for, so a SIGTERM during its imports
would be lost.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

__all__: list[str] = []


def _exit_at_once(number: int, frame: FrameType | None) -> None:
    """End the process, as a signal ends any other process: nothing has begun that must be drained."""
    os._exit(128 + number)


def _reset_in_child() -> None:
    """Undo the bot's handling of signals in a fork, which shares no loop with it but its wake-up descriptor."""
    for number in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(number)
        if getattr(handler, "__module__", "").startswith("freight_exchange."):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            signal.set_wakeup_fd(-1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
_is_init = os.getpid() == 1 and threading.current_thread() is threading.main_thread()
if _is_init and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
    signal.signal(signal.SIGTERM, _exit_at_once)
