"""A feed's state in memory: it ends with the process."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from freight_exchange.errors import StoreError
from freight_exchange.store.book import Book
from freight_exchange.store.protocol import (
    Absence,
    Binding,
    Commit,
    Found,
    HeldHereError,
    NewEvent,
    Seen,
    StoredEvent,
)

if TYPE_CHECKING:
    from freight_exchange.store.work import Delivery, DeliveryState, Effect

__all__ = ["MemoryStore"]


class MemoryStore:
    """Keeps the state of feeds as long as it is itself kept: a feed that is opened again goes on where it was."""

    def __init__(self) -> None:
        self.inline = True
        self._books: dict[str, Book] = {}
        self._held: dict[str, _MemoryFeed] = {}
        self._closed = False

    def open(self, binding: Binding, *, lease: float) -> _MemoryFeed:
        if self._closed:
            raise StoreError("the store is closed: make another one")
        if binding.feed in self._held:
            raise HeldHereError.of(binding.feed)
        book = self._books.get(binding.feed)
        if book is None:
            book = self._books[binding.feed] = Book(binding)
        elif book.binding != binding:
            raise StoreError(
                f"the feed {binding.feed!r} in this store belongs to {book.binding.account} at "
                f"{book.binding.base_url}, not to {binding.account} at {binding.base_url}: take another store, or name "
                "the feed otherwise"
            )
        feed = self._held[binding.feed] = _MemoryFeed(self, book)
        return feed

    def close(self) -> None:
        self._held.clear()
        self._closed = True

    def book_of(self, feed: _MemoryFeed, name: str) -> None:
        """Refuse a feed that does not hold its lease any more."""
        if self._held.get(name) is not feed:
            raise StoreError(f"the feed {name!r} was released, or its store closed")

    def release(self, feed: _MemoryFeed, name: str) -> None:
        if self._held.get(name) is feed:
            del self._held[name]


class _MemoryFeed:
    """The state of one feed, as long as it is not released."""

    def __init__(self, store: MemoryStore, book: Book) -> None:
        self.state = book.state
        self._store = store
        self._all = book

    @property
    def unacknowledged(self) -> int:
        return len(self._all.pending)

    @property
    def _book(self) -> Book:
        self._store.book_of(self, self._all.binding.feed)
        return self._all

    def commit(
        self, decide: Callable[[Found], Commit], *, indexes: Sequence[int] = (), absence: Absence | None = None
    ) -> int:
        book = self._book
        known = {index: book.seen[index] for index in indexes if index in book.seen}
        return book.write(decide(Found(known, () if absence is None else book.absent(absence))))

    def pending(self, *, after: int = 0, limit: int = 100) -> Sequence[StoredEvent]:
        book = self._book
        start = bisect_right(book.pending, after)
        return [book.events[number].event for number in book.pending[start : start + max(0, limit)]]

    def of_kind(self, kind: str) -> Sequence[StoredEvent]:
        book = self._book
        events = (book.events[number].event for number in book.pending)
        return [event for event in events if event.kind == kind]

    def acknowledge(self, ids: Sequence[int], *, at: float, passed_over: Sequence[int] = ()) -> None:
        book = self._book
        for number in ids:
            book.deliver(number, (), at)
        for number in passed_over:
            book.deliver(number, (), at, passed_over=True)

    def history(self, index: int) -> tuple[Seen | None, Sequence[StoredEvent]]:
        book = self._book
        return book.seen.get(index), book.about(index)

    def prune(self, *, before: float) -> bool:
        self._book.prune(before)
        return False

    def deliver(self, handlers: Mapping[int, Sequence[str]], *, at: float) -> None:
        book = self._book
        for number, names in handlers.items():
            book.deliver(number, names, at)

    def claim(self, *, now: float, limit: int, handlers: Collection[str] | None = None) -> Sequence[Delivery]:
        book = self._book
        return [book.delivery(slip) for slip in book.tray.claim(now, limit, handlers)]

    def settle(
        self,
        event: int,
        handler: str,
        *,
        state: Literal["ready", "done", "dead"],
        not_before: float = 0,
        error: str | None = None,
        forgive: bool = False,
        also: Sequence[int] = (),
        at: float,
    ) -> None:
        book = self._book
        if book.tray.settle((event, handler), state, not_before=not_before, error=error, forgive=forgive):
            book.touch(event, at)
            for later in also:
                if book.tray.skip((later, handler)):
                    book.touch(later, at)

    def reclaim(self) -> int:
        return self._book.tray.reclaim()

    def next_due(self, *, handlers: Collection[str] | None = None) -> float | None:
        return self._book.tray.next_due(handlers)

    def overdue(self, *, now: float, handlers: Collection[str] | None = None) -> tuple[int, float | None]:
        return self._book.tray.overdue(now, handlers)

    def ready_by_handler(self) -> Mapping[str, int]:
        return self._book.tray.ready_by_handler()

    def deliveries(self, *, state: DeliveryState, index: int | None = None, limit: int = 1000) -> Sequence[Delivery]:
        book = self._book
        if index is None:
            slips = book.tray.of_state(state, limit)
        else:
            slips = book.tray.of_events((event.id for event in book.about(index)), state, limit)
        return [book.delivery(slip) for slip in slips]

    def behind(self, event: int, handler: str) -> Sequence[Delivery]:
        book = self._book
        return [book.delivery(slip) for slip in book.tray.behind((event, handler))]

    def replay(self, event: int, handler: str, *, at: float) -> bool:
        book = self._book
        found = book.tray.replay((event, handler), at)
        if found:
            book.touch(event, at)
        return found

    def add_event(self, event: NewEvent, *, at: float) -> bool:
        return self.commit(lambda found: Commit(events=(event,), at=at)) == 1

    def effect(self, key: str) -> Effect | None:
        return self._book.effects.get(key)

    def put_effect(self, effect: Effect, *, was: str | None) -> bool:
        book = self._book
        known = book.effects.get(effect.key)
        if was != (None if known is None else known.state):
            return False
        book.put_effect(effect)
        return True

    def effects(self, *states: str) -> Sequence[Effect]:
        effects = self._book.effects.values()
        return sorted(
            (effect for effect in effects if not states or effect.state in states),
            key=lambda effect: (effect.at, effect.key),
        )

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._book.undo.together():
            yield

    def release(self) -> None:
        self._store.release(self, self._all.binding.feed)
