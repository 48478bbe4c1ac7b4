"""Signals of the process as an iterator, also where asyncio cannot receive them: on Windows."""

from __future__ import annotations

import math
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Final, NamedTuple

import anyio

__all__ = ["Received", "receive_signals"]

_REPEAT_WINDOW: Final = 0.1
"""Seconds in which a signal that comes again counts once: `timeout` signals the process, and then its group."""


class Received(NamedTuple):
    """Number of a signal, and the time at which it came in seconds."""

    number: int
    time: float

    def repeats(self, earlier: Received) -> bool:
        """Return whether this is the earlier signal once more."""
        return self.number == earlier.number and self.time - earlier.time < _REPEAT_WINDOW


@contextmanager
def receive_signals(*numbers: signal.Signals) -> Iterator[AsyncIterator[signal.Signals]]:
    """Receive signals in the order of their arrival. Main thread only."""
    with ExitStack() as stack:
        try:
            received = stack.enter_context(anyio.open_signal_receiver(*numbers))
        except NotImplementedError:
            received = stack.enter_context(_receive_by_handlers(*numbers))
        yield received


@contextmanager
def _receive_by_handlers(*numbers: signal.Signals) -> Iterator[AsyncIterator[signal.Signals]]:
    """Receive signals by Python's own handlers, for an asyncio loop without `add_signal_handler`."""
    import asyncio

    loop = asyncio.get_running_loop()
    send, receive = anyio.create_memory_object_stream[signal.Signals](math.inf)

    def handle(number: int, frame: FrameType | None) -> None:
        # Wakes the loop, which may wait for the network.
        loop.call_soon_threadsafe(send.send_nowait, signal.Signals(number))

    previous = {number: signal.signal(number, handle) for number in numbers}
    try:
        with send, receive:
            yield receive
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
