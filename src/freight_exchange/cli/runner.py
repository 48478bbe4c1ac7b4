"""The event loop of a command: Ctrl-C and SIGTERM end it, and what ends it comes out as it was raised."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType
from typing import TypeVar

import anyio

__all__ = ["run", "sole"]

T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]]) -> T:
    """What `main` gives, in an event loop.

    Raises:
        KeyboardInterrupt: Ctrl-C, or the SIGTERM that `cli.ending` makes one of.
    """
    terminate = signal.getsignal(signal.SIGTERM)
    deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN and callable(terminate)
    if not deaf:
        return _run(main)
    # A loop lets itself be interrupted only where Ctrl-C is not ignored. What a script starts in the background ignores
    # it, and goes on doing so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _run(partial(_deaf_to_ctrl_c, main))
    finally:
        signal.signal(signal.SIGTERM, terminate)
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def sole(error: BaseException) -> BaseException:
    """What a group of errors holds, if that is one error: tasks wrap what they raise, and one another."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _run(main: Callable[[], Awaitable[T]]) -> T:
    try:
        return anyio.run(main)
    except BaseExceptionGroup as group:
        found = sole(group)
        if found is group:
            raise
    raise found


async def _deaf_to_ctrl_c(main: Callable[[], Awaitable[T]]) -> T:
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    terminate = signal.getsignal(signal.SIGTERM)

    def heed(number: int, frame: FrameType | None) -> None:
        # A question has handlers of its own meanwhile.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, interrupt)
        if callable(terminate):
            terminate(number, frame)

    signal.signal(signal.SIGTERM, heed)
    return await main()
