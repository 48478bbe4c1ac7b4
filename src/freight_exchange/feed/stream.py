"""Stream of a feed's events: pulled one by one or in batches, and acknowledged durably."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from random import Random, getrandbits
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import anyio.lowlevel

from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.account import resolve_account
from freight_exchange.feed.core.planning.pacer import Pacer
from freight_exchange.feed.events import Acknowledgeable, number_of
from freight_exchange.feed.lease import Lease, lease_time
from freight_exchange.feed.queue import BATCH, EventQueue
from freight_exchange.store.factory import make_store
from freight_exchange.store.protocol import Binding

if TYPE_CHECKING:
    from freight_exchange.feed.client_parts import ClientParts
    from freight_exchange.feed.options import FeedOptions
    from freight_exchange.store.work import WorkStore

__all__ = ["EventStream"]

EventT = TypeVar("EventT", bound=Acknowledgeable)


class EventStream(Generic[EventT]):
    """Base of feeds: events from a store, under a lease. When there are none left, a scan looks for more.

    Args:
        client: Parts of the client.
        options: Options of the feed.
        is_wanted: Filter of the events.
        kinds: Kinds of stored events that the feed delivers.
        unpack: Returns an event from its kind and its bytes.

    Attributes:
        lease: Lease of the feed's state.
    """

    def __init__(
        self,
        client: ClientParts,
        options: FeedOptions,
        is_wanted: Callable[[EventT], bool],
        *,
        kinds: AbstractSet[str],
        unpack: Callable[[str, bytes], EventT],
    ) -> None:
        store, made_here = make_store(options.store)
        self.lease = Lease(store, closes_store=made_here)
        self._queue = EventQueue[EventT](self.lease, is_wanted, self.time, kinds=kinds, unpack=unpack)
        self._client = client
        self._options = options
        self._is_pulled = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._options.name!r} of {self._client.base_url}>"

    # What a feed implements

    async def _begin(self, pacer: Pacer) -> None:
        """Run the first scan, unless an earlier run has completed it, and load events. The lease is already held."""
        raise NotImplementedError

    async def _scan(self) -> None:
        """Wait until a scan is due, and run it."""
        raise NotImplementedError

    def _stop(self) -> None:
        """Record the end of the feed, even if it has not begun."""
        raise NotImplementedError

    def time(self) -> float:
        """Return the time on the feed's own clock in seconds; it never goes back, not even over restarts."""
        raise NotImplementedError

    # Start and end

    async def __aenter__(self) -> Self:
        self.lease.check_free()
        self._queue.reset()
        client, options = self._client, self._options
        interval = options.interval.total_seconds()
        # `random.seed()` makes the pauses of a program repeatable.
        pacer = Pacer(interval, Random(getrandbits(64)), client.extra_requests)
        binding = Binding(client.base_url, await resolve_account(client, options.name, pacer), options.name)
        try:
            await self.lease.take(binding, lease=lease_time(interval), standby=options.standby)
            await self._begin(pacer)
        except BaseException:
            await self._release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._release()

    async def _release(self) -> None:
        self._stop()
        await self.lease.release()

    # Events

    def __aiter__(self) -> Self:
        self._queue.requeue_unacknowledged()
        return self

    async def __anext__(self) -> EventT:
        (event,) = await self._pull(1)
        return event

    def batches(self) -> AsyncIterator[tuple[EventT, ...]]:
        """Iterate over events in batches of up to a hundred.

        Pulling the next batch acknowledges the one before it, except for events that are acknowledged already.
        """
        self._queue.requeue_unacknowledged()
        return _Batches(partial(self._pull, BATCH), self._queue.requeue_unacknowledged)

    async def ack(self) -> None:
        """Acknowledge the delivered events without pulling more."""
        await self._queue.acknowledge([*self._queue.delivered])

    async def deliver(self, handlers: Mapping[int, Sequence[str]], *, leave: Sequence[int] = ()) -> None:
        """Acknowledge a bot's events and enqueue their deliveries, in one transaction.

        Args:
            handlers: Handlers of each event, by the event's number.
            leave: Numbers of events to leave unacknowledged, in this call and in the next pull.
        """
        for number in leave:
            self._queue.delivered.pop(number, None)

        def write(numbers: Sequence[int], at: float) -> None:
            work: WorkStore = self.lease.state()  # type: ignore[assignment]  # a bot has checked that
            work.enqueue({number: handlers.get(number, ()) for number in numbers}, at=at)

        await self._queue.acknowledge(handlers, write)

    async def _pull(self, most: int) -> tuple[EventT, ...]:
        if not self.lease.is_held:
            raise ConfigurationError("this feed is not open: use it inside `async with exchange.watch() as feed`")
        if self._is_pulled:
            raise ConfigurationError("this feed is being pulled by another task: give each task a feed of its own")
        self._is_pulled = True
        try:
            # With a store that works in the event loop, a reader that only pulls could not be cancelled.
            await anyio.lowlevel.checkpoint()
            await self._queue.acknowledge([*self._queue.delivered])
            while True:
                if events := self._queue.deliver(most):
                    self._client.instruments.found(self._options.name, [number_of(event) for event in events])
                    return events
                if self._queue.filtered:
                    await self._queue.acknowledge([])
                if not await self._queue.load():
                    await self._scan()
                    await self._queue.load(with_gaps=True)
                await anyio.lowlevel.checkpoint()
        finally:
            self._is_pulled = False


class _Batches(AsyncIterator[tuple[EventT, ...]]):
    def __init__(self, pull: Callable[[], Awaitable[tuple[EventT, ...]]], requeue: Callable[[], None]) -> None:
        self._pull = pull
        self._requeue = requeue

    def __aiter__(self) -> Self:
        self._requeue()
        return self

    async def __anext__(self) -> tuple[EventT, ...]:
        return await self._pull()
