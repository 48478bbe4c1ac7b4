"""The way through a listing: which page to ask for next, what each page adds, and when all is seen. Pure.

A walk climbs from its first page to the end of the listing. That is all, unless it sweeps: then it descends again page
by page, and climbs anew, until one descent proves that nothing was missed.

Why a descent can prove it: the climb ended at a page that showed how long the listing was at that moment. A row that
the descent sees, and that had been seen before, was there at that moment. If every page is full, nothing in them is new
and nothing comes twice, the rows seen are as many as the listing was long: they are all that it held, whatever was
inserted, removed or put in another order while they were read. Two passes that agree prove less: a row that slips to
a lower page as an earlier one is removed can miss both.

What still beats it: a record that leaves the listing and comes back between two of its pages; a server that lowers its
clamp, or answers 400 or 404 for a page that it has; a page that comes three times because exactly as many rows as it
holds were inserted, twice over. Records without an identity can hide one another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import count as count_from
from typing import Generic, TypeVar, cast

import attrs

from freight_exchange import wire
from freight_exchange.errors import FreightExchangeError
from freight_exchange.paging.page import Rows
from freight_exchange.paging.sizes import PageSizes

__all__ = ["MOST_ROUNDS", "ROUNDS_WITHOUT_NEWS", "Walk"]

T = TypeVar("T")

MOST_ROUNDS = 16
"""Climbs, each with its descent, after which a sweep says that the listing never stands still."""

ROUNDS_WITHOUT_NEWS = 3
"""Rounds in a row that bring nothing new, after which a sweep ends without proof: some listings hold a row twice."""


class Walk(Generic[T]):
    """One walk through a listing: `number` and `size` say which page it waits for.

    Once it has `ended`: `repeated` says that it did so because the second page was the first over again, which may be
    how this server ends a listing; `offset_ignored`, which only a sweep or a strict walk finds out, that it is not.
    After a round of a sweep that proved nothing, `unexplained` is what it brought, for `excuse` to judge. `fitting` is
    the size in which whoever leaves after the page just taken can go on behind it.

    Args:
        operation: The name under which page sizes are known.
        sizes: What is known of them; learned from on the way.
        page_size: The rows wanted in a page; `None` for a listing that has no pages.
        identity: What makes a record the same record in two pages; `None` where two records may be alike.
        start: The first page's number.
        sweep: Whether to go on until nothing can have been missed.
        strict: Whether to find out, at the price of a request, why the second page is the first over again.
    """

    # Of this climb, and of the descent that follows it:
    _descending: bool
    _steady: bool
    _probing: bool
    _idle: bool
    _again: bool
    _news: bool
    _moved: bool
    _full: int
    _page_before: Counter[Hashable]
    _twins: Counter[Hashable]
    _seen: set[Hashable]
    _brought: set[Hashable]
    _first: Hashable
    _trial: int | None

    def __init__(
        self,
        operation: str,
        sizes: PageSizes,
        page_size: int | None,
        identity: Callable[[T], Hashable] | None,
        *,
        start: int = 0,
        sweep: bool = False,
        strict: bool = False,
    ) -> None:
        self._operation = operation
        self._sizes = sizes
        self._paged = page_size is not None
        self._identity = identity
        self._start = start
        self._sweep = sweep
        self._strict = strict
        self._known: set[Hashable] = set()
        self._rounds = 0
        self._rounds_without_news = 0
        self._quiet_before = 0
        self._suspected = 0
        self.unexplained: frozenset[Hashable] = frozenset()
        self._first_size = self.fitting = sizes.to_ask(operation, page_size or 0, start=start)
        self.ended = False
        self.repeated = False
        self.offset_ignored = False
        self._start_climb()

    @property
    def restless(self) -> bool:
        """Whether the listing has changed so often that what it holds cannot be told."""
        return self._rounds > MOST_ROUNDS

    @property
    def descending(self) -> bool:
        """Whether it is on the way back from the listing's end."""
        return self._descending

    def numbers(self) -> Iterable[int]:
        """The numbers of the next pages, as far as they can be told before the next one is there."""
        if self._descending:
            return range(self.number, self._start - 1, -1)
        return count_from(self.number) if self._steady else (self.number,)

    def take(self, rows: Rows[T]) -> tuple[T, ...]:
        """Take in the page that was asked for; what it adds."""
        if self._trial is not None:
            self._go_on_trying(rows)
            return ()
        self.fitting = self.size
        page = Counter(bare := [*map(self._key, rows.records), *map(_unreadable, rows.broken)])
        if page == self._page_before and page and not self._descending:
            # The last page over again, or an ignored offset: its rows are none, and no twins of those before.
            self._see_again()
            return ()
        self._page_before, self._again = page, False
        keys = [*self._told_apart(bare)]
        if self.number == self._start and not self._descending:
            self._first = bare[0] if len(bare) > 1 and bare[0] != bare[1] else None
        fresh = self._unknown(rows, keys)
        self._brought.update(key for key in keys if key not in self._known)
        news, seen_before = not self._known.issuperset(keys), len(self._seen)
        self._known.update(keys)
        self._seen.update(keys)
        self._news = self._news or news
        unseen = len(self._seen) - seen_before
        if self._descending:
            self._moved = self._moved or news or unseen < len(keys) or len(keys) < self._full
            self._step_down()
        else:
            self._step_up(bare, anything_unseen=unseen > 0)
        return fresh

    def excuse(self, recent: AbstractSet[Hashable]) -> None:
        """Count the last round as one without news if all that it brought is recent, no part of what was to be seen.

        A listing that grows as fast as it is read would otherwise never come to an end.
        """
        if self.unexplained and self.unexplained <= recent:
            self._rounds_without_news = self._quiet_before + 1
            self.ended = self._rounds_without_news == ROUNDS_WITHOUT_NEWS
        self.unexplained = frozenset()

    def beyond(self, error: FreightExchangeError) -> bool:
        """Whether the error, in place of a page, is how this server says that there is no such page."""
        if self.number == 0 or error.status not in (400, 404):
            return False
        if self._trial is not None:
            self._end_trial()
        elif self._descending:
            self._moved = True
            self._step_down()
        else:
            self._reach_end([])
        return True

    def _start_climb(self) -> None:
        self._rounds += 1
        self.size = self._first_size
        self._descending = False
        self._steady = False
        self._probing = False
        self._idle = False
        self._again = False
        self._news = False
        self._moved = False
        self._full = self.size
        self._page_before = Counter()
        self._twins = Counter()
        self._seen = set()
        self._brought = set()
        self._first = None
        self._trial = None
        self.number = self._start

    def _step_up(self, bare: list[Hashable], *, anything_unseen: bool) -> None:
        rows = len(bare)
        longest = self._sizes.longest(self._operation)
        self._sizes.saw(self._operation, rows)
        # A server may have a page size of its own, larger than the one it is asked for.
        self._full = max(self._full, rows)
        if self._paged and rows >= self._full:
            self._pass_full_page(bare, anything_unseen=anything_unseen)
        elif not self._paged or rows < longest or not rows:
            self._reach_end(bare)
        else:
            # Shorter than asked, and no page was ever longer: the end, or the most that the server gives. The next
            # page tells; from the first page on, in this very size, which is the right one under either reading.
            self._full = rows
            if self.number == 0:
                self.size = self.fitting = rows
                self._steady = rows == self._sizes.clamp(self._operation)
                self._probing = not self._steady
            self.number += 1

    def _pass_full_page(self, bare: list[Hashable], *, anything_unseen: bool) -> None:
        if not anything_unseen and self._idle:
            # Nobody showed how long the listing is: what the descent sees may be what it holds, and proves nothing.
            self._reach_end([])
            self._moved = True
            return
        # One page of rows all seen, and not the one before over again: many rows were inserted, and more may follow.
        self._idle = not anything_unseen
        if self._probing:
            self._probing = False
            if self._sweep and self._suspected != len(bare):
                # Or the first page was short because the listing was, and many rows were inserted since. Taken for
                # the most that the server gives, its few rows would make the walk a long one: it is asked for again.
                self._suspected = len(bare)
                self._start_climb()
                return
            self._sizes.clamped(self._operation, len(bare))
        self._steady = True
        self.number += 1

    def _see_again(self) -> None:
        if self._sweep and not self._again:
            # Or a page of rows was inserted just now, which would pass for the end: the next one tells.
            self._again = True
            self.number += 1
            return
        self.number -= self._again
        self.repeated = self.number == self._start + 1
        curious = self._sweep or self._strict
        if curious and self.repeated and self._start == 0 and self._first is not None:
            # The one page there is, over again: the end repeated, or an offset that is ignored. Asked for one row,
            # the second page begins with another row than the first, unless the offset counts for nothing.
            self._trial, self.size = self.size, 1
            self._steady = False
            return
        self._reach_end([])

    def _go_on_trying(self, rows: Rows[T]) -> None:
        # A page of more rows than were asked for was cut by the service's own measure, and proves nothing.
        alone = len(rows.records) == 1 and not rows.broken
        if not alone or self._key(rows.records[0]) != self._first:
            self._end_trial()
        elif self.number > self._start:
            # Or a row was inserted before the first one just now, which made that the second: it must still be first.
            self.number = self._start
        else:
            self.offset_ignored = self.ended = True

    def _end_trial(self) -> None:
        assert self._trial is not None
        self.size, self._trial, self.number = self._trial, None, self._start + 1
        self._reach_end([])

    def _reach_end(self, last_page: list[Hashable]) -> None:
        """The page asked for was the last, or beyond it: the listing holds the pages below, and these rows."""
        if not self._sweep or self.number == self._start:
            # Alone, a page is a picture of the whole listing at one moment: nothing slips past it.
            self.ended = True
            return
        self._descending = True
        self._twins.clear()
        self._seen = {*self._told_apart(last_page)}
        self._moved = len(self._seen) < len(last_page)
        self.number -= 1

    def _step_down(self) -> None:
        if self.number > self._start:
            self.number -= 1
            return
        self._quiet_before = self._rounds_without_news
        self._rounds_without_news = 0 if self._news else self._rounds_without_news + 1
        self.ended = not self._moved or self._rounds_without_news == ROUNDS_WITHOUT_NEWS
        if not self.ended:
            self.unexplained = frozenset(self._brought)
            self._start_climb()

    def _unknown(self, rows: Rows[T], keys: list[Hashable]) -> tuple[T, ...]:
        """The records that no page brought yet."""
        unknown = {key: record for key, record in zip(keys, rows.records, strict=False) if key not in self._known}
        return tuple(unknown.values())

    def _told_apart(self, bare: Iterable[Hashable]) -> Iterator[Hashable]:
        """Rows without an identity numbered: two that are alike are two, not one twice."""
        for key in bare:
            if isinstance(key, _Alike):
                self._twins[key] += 1
                yield key, self._twins[key]
            else:
                yield key

    def _key(self, record: T) -> Hashable:
        return _Alike(cast("Hashable", record)) if self._identity is None else self._identity(record)


@attrs.frozen
class _Alike:
    """A row known by nothing but what it holds."""

    row: Hashable


def _unreadable(error: Exception) -> _Alike:
    # What the error says names the row's place in its page, which changes as rows move. What the row holds may change
    # from page to page as well, a count of its readers say: its index does not.
    raw = getattr(error, "raw", error)
    index = wire.index_of_raw(raw)
    return _Alike(repr(raw) if index is None else ("unreadable", index))
