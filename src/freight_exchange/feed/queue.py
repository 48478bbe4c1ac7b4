"""Queue of a feed: events read from the store, until they are acknowledged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from freight_exchange.feed.events import Acknowledgeable, Gap, acknowledgeable

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from freight_exchange.feed.lease import Lease
    from freight_exchange.store.protocol import StoredEvent

__all__ = ["BATCH", "EventQueue"]

BATCH: Final = 100
"""Maximum number of events to read from the store at a time."""


EventT = TypeVar("EventT", bound=Acknowledgeable)


class EventQueue(Generic[EventT]):
    """Events of one feed on their way from the store to the reader.

    Args:
        lease: Lease of the store.
        is_wanted: Filter of the events to deliver.
        time: Returns the time on the feed's clock.
        kinds: Kinds of the events that the feed delivers; others in its store belong to a bot.
        unpack: Returns an event from its kind and its bytes.

    Attributes:
        delivered: Delivered events that are not acknowledged yet, by their numbers.
        filtered: Numbers of events that the filter excluded. The next acknowledgement includes them.
        gaps: Gaps that are not acknowledged yet, by their numbers.
    """

    def __init__(
        self,
        lease: Lease,
        is_wanted: Callable[[EventT], bool],
        time: Callable[[], float],
        *,
        kinds: AbstractSet[str],
        unpack: Callable[[str, bytes], EventT],
    ) -> None:
        self._lease = lease
        self._is_wanted = is_wanted
        self._time = time
        self._kinds = kinds
        self._unpack = unpack
        self._waiting: deque[StoredEvent] = deque()
        self._last_read = 0
        self._uncertain: set[int] = set()
        self.delivered: dict[int, StoredEvent] = {}
        self.filtered: list[int] = []
        self.gaps: dict[int, Gap] = {}

    def reset(self) -> None:
        """Drop the events that were read; `load` reads them again."""
        self._waiting.clear()
        self.delivered.clear()
        self.filtered.clear()
        self._last_read = 0

    def requeue_unacknowledged(self) -> None:
        """Put delivered events that are not acknowledged back in the queue."""
        if self._uncertain:
            # An acknowledgement failed, and may have been committed: only a read shows what remains.
            self._uncertain.clear()
            self.reset()
        self._waiting.extendleft(reversed(self.delivered.values()))
        self.delivered.clear()

    def deliver(self, most: int) -> tuple[EventT, ...]:
        """Return up to `most` next events that pass the filter, and add them to `delivered`."""
        wanted: dict[int, EventT] = {}
        filtered: list[int] = []
        for stored in self._waiting:
            if len(wanted) == most:
                break
            event = self._unpack(stored.kind, stored.payload)
            # The filter may be the user's own code. If it raises, nothing has been delivered yet.
            if self._is_wanted(event):
                wanted[stored.id] = acknowledgeable(event, stored.id, partial(self.acknowledge, [stored.id]))
            else:
                filtered.append(stored.id)
        for _ in range(len(wanted) + len(filtered)):
            stored = self._waiting.popleft()
            if stored.id in wanted:
                self.delivered[stored.id] = stored
        self.filtered += filtered
        return tuple(wanted.values())

    async def load(self, *, with_gaps: bool = False) -> bool:
        """Read more events from the store, and its gaps if they may have changed; return whether events wait."""
        store = self._lease.state()

        def read() -> None:
            found = store.pending(after=self._last_read, limit=BATCH)
            self._waiting.extend(stored for stored in found if stored.kind in self._kinds)
            self._last_read = found[-1].id if found else self._last_read
            if with_gaps:
                pending = store.pending_of_kind(Gap.kind)
                gaps = ((stored.id, self._unpack(stored.kind, stored.payload)) for stored in pending)
                self.gaps = {number: gap for number, gap in gaps if isinstance(gap, Gap)}

        await self._lease.run(read)
        return bool(self._waiting)

    async def acknowledge(
        self, numbers: Iterable[int], record: Callable[[Sequence[int], float], None] | None = None
    ) -> None:
        """Acknowledge events, and those that the filter excluded.

        Args:
            numbers: Numbers of the events.
            record: Writes the acknowledgement of the given numbers at the given time, in place of the store.
        """
        store = self._lease.state()
        acknowledged = {*numbers}
        done = {*self.filtered, *acknowledged}
        if not done:
            return
        time = self._time()

        def write() -> None:
            self._uncertain.update(done)
            if record is None:
                store.acknowledge(sorted(acknowledged), at=time, filtered=sorted(done - acknowledged))
            else:
                record(sorted(done), time)
            was_requeued = False
            for number in done:
                was_requeued = self.delivered.pop(number, None) is None or was_requeued
                self.gaps.pop(number, None)
            if was_requeued:
                self._waiting = deque(stored for stored in self._waiting if stored.id not in done)
            self._uncertain -= done
            # The filter may have excluded more events during the write.
            self.filtered = [number for number in self.filtered if number not in done]

        await self._lease.run(write)
