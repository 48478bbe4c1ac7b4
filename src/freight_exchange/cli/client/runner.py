"""Event loop of a command, ended by Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType
from typing import TypeVar

import anyio

__all__ = ["run", "unwrap"]

T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` in an event loop and return its result.

    Raises:
        KeyboardInterrupt: Ctrl-C, or SIGTERM, which `exit_status` turns into Ctrl-C.
    """
    terminate = signal.getsignal(signal.SIGTERM)
    ignores_interrupts = signal.getsignal(signal.SIGINT) is signal.SIG_IGN and callable(terminate)
    if not ignores_interrupts:
        return _run(main)
    # An event loop can be interrupted only while SIGINT has Python's default handler. A program that a script starts
    # in the background ignores SIGINT, and must keep ignoring it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _run(partial(_ignoring_interrupts, main))
    finally:
        signal.signal(signal.SIGTERM, terminate)
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def unwrap(error: BaseException) -> BaseException:
    """Return the only error of nested groups, or the group if it holds several."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _run(main: Callable[[], Awaitable[T]]) -> T:
    try:
        return anyio.run(main)
    except BaseExceptionGroup as group:
        error = unwrap(group)
        if error is group:
            raise
    raise error


async def _ignoring_interrupts(main: Callable[[], Awaitable[T]]) -> T:
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    terminate = signal.getsignal(signal.SIGTERM)

    def handle_termination(number: int, frame: FrameType | None) -> None:
        # A confirmation prompt has installed its own handler.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, interrupt)
        if callable(terminate):
            terminate(number, frame)

    signal.signal(signal.SIGTERM, handle_termination)
    return await main()
