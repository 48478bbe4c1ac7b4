"""Signals of a process before its bot runs, and in its forks.

Imported first. Process 1 of a container ignores signals that it has no handler for, so a SIGTERM during its imports
would be lost.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""Signals that stop a bot."""

_forking: Final = threading.local()


def _exit_at_once(number: int, frame: FrameType | None) -> None:
    """End the process, as a signal ends any other process: nothing has begun that must be drained."""
    os._exit(128 + number)


def _hold_signals() -> None:
    """Hold signals until a fork has its own handlers: one that came before that would be lost."""
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _release_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _reset_in_child() -> None:
    """Undo the bot's handling of signals in a fork, which has no loop, but the wake-up descriptor of its parent's."""
    for number in SIGNALS:
        if getattr(signal.getsignal(number), "__module__", "").startswith("freight_exchange."):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
    _release_signals()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_signals, after_in_parent=_release_signals, after_in_child=_reset_in_child)
if (
    os.getpid() == 1
    and threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
):
    signal.signal(signal.SIGTERM, _exit_at_once)
