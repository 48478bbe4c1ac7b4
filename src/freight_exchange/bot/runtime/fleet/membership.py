"""Membership of a bot in the fleet of its store: the seat, its lease, and the term for the feed."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

import anyio
import anyio.to_thread

from freight_exchange import __version__
from freight_exchange.bot.tasks import flatten
from freight_exchange.errors import ConfigurationError, FencedError, StoreAwayError, StoreError
from freight_exchange.store.protocol import ConflictError, StoreRefusedError

if TYPE_CHECKING:
    from freight_exchange.store.protocol import Binding, FeedStore, Store
    from freight_exchange.store.seat import Adoption, BotStore, Seat
    from freight_exchange.store.work import Work, WorkStore

__all__ = ["LOST_SEAT", "Membership", "TermHeldError", "is_loss_of_seat"]

_logger = logging.getLogger("freight_exchange.bot")

LOST_SEAT: Final = (FencedError, StoreAwayError, ConflictError, StoreRefusedError)
"""Errors after which a bot joins again; after the last one only if it has been running before."""

T = TypeVar("T")


def is_loss_of_seat(error: BaseException, *, has_run: bool) -> bool:
    """Return whether a bot may join again after an error. One that has not run yet ends if the database refuses it."""
    return all(
        isinstance(leaf, LOST_SEAT) and (has_run or not isinstance(leaf, StoreRefusedError)) for leaf in flatten(error)
    )


_HEARTBEATS_PER_LEASE: Final = 3
_VERSION_INTERVAL: Final = 2.0
_LISTEN_INTERVAL: Final = 0.5
"""Seconds of one wait for a notification: the longest for which the end of a bot waits for the thread."""


class TermHeldError(StoreError):
    """Another replica has the term, and scans.

    Args:
        message: Which one.
        feed_state: State of the feed that it has committed last; `None` if there is none, or it is unknown.
    """

    def __init__(self, message: str, feed_state: str | None) -> None:
        super().__init__(message)
        self.feed_state = feed_state


class Membership:
    """Membership of a bot in the fleet of its store.

    It is the store of the bot's feed: `open` joins the fleet, and takes the term.

    Args:
        store: The store.
        handlers: Ids of the bot's handlers.
        closes_store: Whether the store was made for this bot alone, and ends with it.

    Attributes:
        has_joined: Whether it has ever had a seat.
        notified: Set by the next notification that a delivery may be due, or the term free.

    Raises:
        ConfigurationError: The store serves feeds only.
    """

    def __init__(self, store: Store, *, handlers: Collection[str], closes_store: bool) -> None:
        if not hasattr(store, "join"):
            raise ConfigurationError("the store keeps no work: a bot needs a SQLiteStore, a MemoryStore or a BotStore")
        self._store = cast("BotStore", store)
        self._handlers = handlers
        self._closes_store = closes_store
        self._seat: Seat | None = None
        self._left_out: Sequence[str] = ()
        self._left_out_due = -math.inf
        self.has_joined = False
        self._lapsed = anyio.Event()
        self.notified = anyio.Event()
        self._calls = threading.Lock()
        self._call_thread: anyio.CapacityLimiter | None = None
        self._heartbeat_thread: anyio.CapacityLimiter | None = None

    @property
    def further_feeds(self) -> Store:
        """The store, for further feeds of the bot."""
        return _FurtherFeeds(self._store, self)

    @property
    def lease(self) -> float | None:
        """Seconds of the lease, while there is a seat that needs one."""
        return None if self._seat is None else self._seat.lease

    @property
    def is_joined(self) -> bool:
        """`True` while the bot has a seat."""
        return self._seat is not None

    @property
    def inline(self) -> bool:
        """`True` if calls of the store run in the event loop, not in a thread."""
        return self._store.inline

    # The store of the feed

    def open(self, binding: Binding, *, lease: float) -> WorkStore:
        """Join the fleet, unless that is done, and take the term.

        Raises:
            TermHeldError: Another replica has it.
            StoreError: As `BotStore.join`.
        """
        if self._seat is None:
            self._seat = self._store.join(binding, handlers=self._handlers, version=__version__, lease=lease)
            self.has_joined = True
        term = self._seat.take_term()
        if term is None:
            seat = self._seat
            self._check_left_out(seat)
            raise TermHeldError(f"{seat.holder} scans for the bot {binding.feed!r}", seat.feed_state)
        return term

    def close(self) -> None:
        """Do nothing: the bot calls `leave` after the end of its feed."""

    # The store of deliveries and offers

    def state(self) -> Work:
        """Return the deliveries and effects."""
        return self._joined().work

    async def run(self, work: Callable[[], T]) -> T:
        """Call the store: in the loop if the store is `inline`, otherwise in a separate thread."""
        if self._store.inline:
            return work()

        def alone() -> T:
            # A task that `task.cancel()` cancels ends before its call in the thread does: the next call waits for that.
            with self._calls:
                return work()

        self._call_thread = self._call_thread or anyio.CapacityLimiter(1)
        return await anyio.to_thread.run_sync(alone, limiter=self._call_thread)

    @property
    def is_restored(self) -> bool:
        """`True` if the store may have lost commits, until `trust`."""
        return self._joined().is_restored

    async def trust(self) -> None:
        """Record that the bot has looked for the offers that the store may have lost."""
        await self.run(self._joined().trust)

    async def acknowledge(self, kind: str, *, at: float) -> int:
        """Acknowledge all events of a kind, and return their number."""
        return await self.run(partial(self._joined().acknowledge, kind, at=at))

    async def announce(self) -> None:
        """Make this replica count as one of its version, which may scan."""
        await self.run(self._joined().announce)

    async def adopt(self) -> Adoption:
        """Take over the unfinished work of replicas that have ended."""
        return await self.run(self._joined().adopt)

    async def leave(self) -> None:
        """Give the seat back, even during a cancellation."""
        with anyio.CancelScope(shield=True):
            await self.run(self._leave)

    # The lease

    async def keep_lease(self) -> None:
        """Wait for a seat, and renew its lease until cancelled. Later, `heartbeat` renews it."""
        while self._seat is None:  # noqa: ASYNC110 - it is taken in another thread
            await anyio.sleep(_LISTEN_INTERVAL)
        while self._seat.lease is not None:
            await self._send_heartbeat(self._seat)
            await anyio.sleep(self._seat.lease / _HEARTBEATS_PER_LEASE)

    async def heartbeat(self, on_notification: Callable[[], None]) -> None:
        """Renew the lease, and listen for notifications, until cancelled.

        Args:
            on_notification: Called when a delivery may be due, or the term free.
        """
        seat = self._joined()
        if seat.lease is None:
            return
        interval = seat.lease / _HEARTBEATS_PER_LEASE
        due = anyio.current_time()
        while True:
            if anyio.current_time() >= due:
                due = anyio.current_time() + interval
                await self._send_heartbeat(seat)
            pause = min(_LISTEN_INTERVAL, max(0.0, due - anyio.current_time()))
            has_news = await self._run_in_heartbeat_thread(partial(seat.wait, pause))
            if has_news:
                self.notified.set()
                self.notified = anyio.Event()
            # Also with each renewal, since a notification may be lost.
            if has_news or anyio.current_time() >= due:
                on_notification()

    async def wait_lapsed(self) -> None:
        """Wait until another replica has ended and left work to adopt."""
        await self._lapsed.wait()
        self._lapsed = anyio.Event()

    async def wait_newer(self) -> None:
        """Wait until a replica of a newer version of the bot lives: the term is left to it."""
        seat = self._joined()
        if seat.lease is None:
            await anyio.sleep_forever()
        while True:
            if await self.run(seat.has_newer):
                return
            await anyio.sleep(_VERSION_INTERVAL)

    async def has_peer(self) -> bool:
        """Return whether another replica of this version of the bot lives."""
        return await self.run(self._joined().has_peer)

    async def _send_heartbeat(self, seat: Seat) -> None:
        if await self._run_in_heartbeat_thread(seat.heartbeat):
            self._lapsed.set()

    async def _run_in_heartbeat_thread(self, work: Callable[[], T]) -> T:
        """Call the store in the thread of the lease, in which no other call can delay it."""
        self._heartbeat_thread = self._heartbeat_thread or anyio.CapacityLimiter(1)
        return await anyio.to_thread.run_sync(work, limiter=self._heartbeat_thread)

    def _joined(self) -> Seat:
        if self._seat is None:
            raise ConfigurationError("this bot has no seat in its store: call this method while the bot runs")
        return self._seat

    def _check_left_out(self, seat: Seat) -> None:
        """Log the handlers that the newest version lacks, once. Look for them at each `_VERSION_INTERVAL`."""
        if (now := time.monotonic()) < self._left_out_due:
            return
        self._left_out_due = now + _VERSION_INTERVAL
        handlers = seat.left_out()
        if handlers and handlers != self._left_out:
            _logger.warning(
                "handlers %s receive no new events: the newest version of the bot, which scans, lacks them; stop this"
                " replica if they were removed, otherwise give all replicas the same handlers",
                ", ".join(handlers),
            )
        self._left_out = handlers

    def _leave(self) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.leave()
        if self._closes_store:
            self._store.close()


class _FurtherFeeds:
    """Store of a bot's further feeds. Only the bot takes them over, so their leases are as long as that of its seat."""

    def __init__(self, store: Store, membership: Membership) -> None:
        self._store = store
        self._membership = membership

    @property
    def inline(self) -> bool:
        return self._store.inline

    def open(self, binding: Binding, *, lease: float) -> FeedStore:
        return self._store.open(binding, lease=self._membership.lease or lease)

    def close(self) -> None:
        pass
