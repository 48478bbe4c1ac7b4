"""Stream of a feed's events: pulled one by one or in batches, and acknowledged durably."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import anyio.lowlevel

from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.events import Acknowledgeable, number_of
from freight_exchange.feed.queue import BATCH, EventQueue

if TYPE_CHECKING:
    from freight_exchange.feed.lease import Lease
    from freight_exchange.instrumentation import Instruments
    from freight_exchange.store.work import WorkStore

__all__ = ["EventStream"]

EventT = TypeVar("EventT", bound=Acknowledgeable)


class EventStream(Generic[EventT]):
    """Events from a store, which a scan refills when there are none. The base of feeds.

    Args:
        lease: Lease of the feed's state.
        queue: Queue of its events.
        instruments: Receive the numbers of delivered events.
        name: Name of the feed.

    Attributes:
        lease: As given.
    """

    def __init__(self, lease: Lease, queue: EventQueue[EventT], instruments: Instruments, name: str) -> None:
        self.lease = lease
        self._queue = queue
        self._instruments = instruments
        self._name = name
        self._is_pulled = False

    async def _scan(self) -> None:
        """Wait until a scan is due, and run it."""
        raise NotImplementedError

    def __aiter__(self) -> Self:
        self._queue.take_back()
        return self

    async def __anext__(self) -> EventT:
        (event,) = await self._pull(1)
        return event

    def batches(self) -> AsyncIterator[tuple[EventT, ...]]:
        """Iterate over events in batches of up to a hundred.

        Pulling the next batch acknowledges the one in hand, except for events that were acknowledged before.
        """
        self._queue.take_back()
        return _Batches(partial(self._pull, BATCH), self._queue.take_back)

    async def ack(self) -> None:
        """Acknowledge the events in hand without pulling more."""
        await self._queue.acknowledge([*self._queue.in_hand])

    async def deliver(self, handlers: Mapping[int, Sequence[str]], *, leave: Sequence[int] = ()) -> None:
        """Acknowledge a bot's events and enqueue their deliveries, in one transaction.

        Args:
            handlers: Handlers of each event, by the event's number.
            leave: Numbers of events that neither this call nor the next pull acknowledges.
        """
        for number in leave:
            self._queue.in_hand.pop(number, None)

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
            # A store that works in the event loop gives no other task a turn: its reader could not be cancelled.
            await anyio.lowlevel.checkpoint()
            await self._queue.acknowledge([*self._queue.in_hand])
            while True:
                if events := self._queue.deliver(most):
                    self._instruments.found(self._name, [number_of(event) for event in events])
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
    def __init__(self, pull: Callable[[], Awaitable[tuple[EventT, ...]]], take_back: Callable[[], None]) -> None:
        self._pull = pull
        self._take_back = take_back

    def __aiter__(self) -> Self:
        self._take_back()
        return self

    async def __anext__(self) -> tuple[EventT, ...]:
        return await self._pull()
