"""Lease of a feed's state in a store; runs the calls of the store one at a time."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.to_thread

from freight_exchange.errors import ConfigurationError, HeldError
from freight_exchange.store.protocol import HeldHereError

if TYPE_CHECKING:
    from freight_exchange.store.protocol import Binding, FeedStore, Store

__all__ = ["Lease", "Run", "lease_time"]

Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a call of the store: in a worker thread, or in the event loop."""

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange.feed")

_MIN_LEASE: Final = 90.0
_INTERVALS_OF_A_LEASE: Final = 3
_BETWEEN_TRIES: Final = 1.0
_TO_LEAVE: Final = 5.0
"""Seconds to wait for another feed of this process, which may be about to end."""


class Lease:
    """Lease of the state of one feed, from `take` to `release`.

    Args:
        store: Store of the state.
        closes_store: Whether to close the store at the end, as it was made for this feed alone.

    Attributes:
        is_waiting: Whether `take` waits for another holder.
    """

    def __init__(self, store: Store, *, closes_store: bool) -> None:
        self._store = store
        self._closes_store = closes_store
        self._threads: anyio.CapacityLimiter | None = None
        self._call_lock = threading.Lock()
        self._left = False
        self._held: FeedStore | None = None
        self.is_waiting = False

    @property
    def is_held(self) -> bool:
        """`True` while the lease is held."""
        return self._held is not None

    @property
    def inline(self) -> bool:
        """`True` if calls of the store run in the event loop, not in a thread."""
        return self._store.inline

    @property
    def unacknowledged(self) -> int:
        """Number of events that wait to be acknowledged; 0 while the lease is not held."""
        return 0 if self._held is None else self._held.unacknowledged

    def check_free(self) -> None:
        """Raise `ConfigurationError` if the lease cannot be taken."""
        if self._held is not None:
            raise ConfigurationError("this feed is already entered: make another with exchange.watch()")
        if self._left and self._closes_store:
            raise ConfigurationError("this feed was left, and its store is closed: make another with exchange.watch()")

    async def take(self, binding: Binding, *, lease: float, standby: bool) -> None:
        """Take the lease; with `standby`, wait while another process has it."""
        self._left = self.is_waiting = False
        here_until = math.inf
        while True:
            try:
                await self.run(partial(self._open_store, binding, lease))
            except HeldError as error:
                now = anyio.current_time()
                here_until = min(here_until, now + _TO_LEAVE) if isinstance(error, HeldHereError) else math.inf
                if not standby or now >= here_until:
                    raise
                if not self.is_waiting:
                    _logger.info("the feed %r stands by: it is held by %s", binding.feed, error.holder)
                    self.is_waiting = True
                await anyio.sleep(_BETWEEN_TRIES)
            else:
                self.is_waiting = False
                return

    def _open_store(self, binding: Binding, lease: float) -> None:
        # Recorded by this call, since the task that waits for it may have been cancelled meanwhile.
        if not self._left:
            self._held = self._store.open(binding, lease=lease)

    async def release(self) -> None:
        """Give the lease back, even during a cancellation."""
        self._left = True
        with anyio.CancelScope(shield=True):
            await self.run(self._give_back)

    def _give_back(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()
        if self._closes_store:
            self._store.close()

    def state(self) -> FeedStore:
        """Return the state under the lease."""
        if self._held is None:
            raise ConfigurationError("this feed is closed: the next one delivers unacknowledged events again")
        return self._held

    async def run(self, work: Callable[[], T]) -> T:
        """Call the store: in the event loop if the store is quick, otherwise in a thread reserved for this lease."""
        if self._store.inline:
            return work()

        def alone() -> T:
            # After a native cancellation the call goes on without its task: the next call waits for its end.
            with self._call_lock:
                return work()

        return await anyio.to_thread.run_sync(alone, limiter=self._limiter())

    def _limiter(self) -> anyio.CapacityLimiter:
        # A limiter of its own: a program that keeps all threads of the loop busy does not stop the feed.
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(1)
        return self._threads


def lease_time(interval: float) -> float:
    """Return the seconds for which each commit extends the lease of a feed with this interval."""
    return max(_MIN_LEASE, _INTERVALS_OF_A_LEASE * interval)
