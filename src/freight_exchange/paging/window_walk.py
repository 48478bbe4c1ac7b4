"""The feed's way through a window of requests: up to its end, down again, until nothing was missed. Pure.

A walk climbs from the first page to the end of the listing. Then it descends again page by page, and climbs anew, until
one descent proves that nothing was missed. It trusts page sizes that were learned: a page shorter than those is the
last one. The feed can do so because its deep scans, which learn sizes anew, look again at all that its narrow ones did.
Listings prove their end instead (`climb`, `sweep`).

Why a descent can prove it: the climb ended at a page that showed how long the listing was at that moment. A row that
the descent sees, and that had been seen before, was there at that moment. If every page is full, nothing in them is new
and nothing comes twice, the rows seen are as many as the listing was long: they are all that it held, whatever was
inserted, removed or put in another order while they were read. Two passes that agree prove less: a row that slips to
a lower page as an earlier one is removed can miss both.

What still beats it: a record that leaves the listing and comes back between two of its pages; a server that lowers its
clamp, or refuses a page that it has; a page that comes three times because exactly as many rows as it
holds were inserted, twice over.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from freight_exchange.paging.offset_probe import OffsetProbe
from freight_exchange.paging.page import RawPage
from freight_exchange.paging.page_sizes import PageSizes
from freight_exchange.paging.seen_rows import keys_of
from freight_exchange.paging.single_pass import REFUSALS

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError

__all__ = ["MOST_ROUNDS", "ROUNDS_THAT_LACK", "ROUNDS_WITHOUT_NEWS", "WindowWalk"]

T = TypeVar("T")

MOST_ROUNDS = 16
"""Climbs, each with its descent, after which a sweep says that the listing never stands still."""

ROUNDS_WITHOUT_NEWS = 3
"""Rounds in a row that bring nothing new, after which a sweep ends without proof: some listings hold a row twice."""

ROUNDS_THAT_LACK = 6
"""The same where fewer rows have come than the listing was long: a row comes twice, or one has slipped past each round.

In a listing that is put in a new order with each page, three rounds miss a row about once in two thousand walks.
"""


@attrs.define
class _Round:
    """One climb and the descent that follows it.

    Attributes:
        full: The rows of a full page.
        descending: The climb has ended.
        probing: The first page came short, and the next one is asked for in its size.
        idle: The page before brought nothing that this climb had not seen.
        again: The page before was the one before it over again.
        length: How many rows the listing held when the climb ended; 0 where nothing showed it.
        news: Something came that no earlier round brought.
        moved: The descent proves nothing.
        seen: The rows of this climb, or of the descent and the climb's last page.
        brought: The rows that this round was the first to bring.
        page_before: The keys of the page before.
        first: The keys of the first page.
    """

    full: int
    descending: bool = False
    probing: bool = False
    idle: bool = False
    again: bool = False
    length: int = 0
    news: bool = False
    moved: bool = False
    seen: set[Hashable] = attrs.Factory(set)
    brought: set[Hashable] = attrs.Factory(set)
    page_before: frozenset[Hashable] = frozenset()
    first: list[Hashable] = attrs.Factory(list)


class WindowWalk(Generic[T]):
    """One walk through a listing: `number` and `size` say which page it waits for.

    Once it has `ended`: `offset_ignored` says that every page was the first one. After a round that proved nothing,
    `unexplained` is what it brought, for `excuse` to judge.

    Args:
        operation: The name under which page sizes are known.
        sizes: What is known of them; learned from on the way.
        page_size: The rows wanted in a page.
        identity: What makes a record the same record in two pages.
    """

    def __init__(self, operation: str, sizes: PageSizes, page_size: int, identity: Callable[[T], Hashable]) -> None:
        self._operation = operation
        self._sizes = sizes
        self._identity = identity
        self._known: set[Hashable] = set()
        self._rounds = 0
        self._rounds_without_news = 0
        self._quiet_before = 0
        self._suspected = 0
        self._length = 0
        self._trial: OffsetProbe | None = None
        self._first_size = sizes.to_ask(operation, page_size)
        self.unexplained: frozenset[Hashable] = frozenset()
        self.ended = False
        self.offset_ignored = False
        self._start_climb()

    @property
    def restless(self) -> bool:
        """The listing has changed so often that what it holds cannot be told."""
        return self._rounds > MOST_ROUNDS

    @property
    def descending(self) -> bool:
        """The walk is on the way back from the listing's end."""
        return self._round.descending

    @property
    def _is_quiet(self) -> bool:
        """True once enough rounds have brought nothing new."""
        lacks = self._length > len(self._known)
        return self._rounds_without_news >= (ROUNDS_THAT_LACK if lacks else ROUNDS_WITHOUT_NEWS)

    def take(self, rows: RawPage[T]) -> None:
        """Take in the page that was asked for."""
        keys, now = keys_of(rows, self._identity), self._round
        if self._trial is not None:
            self._go_on_trying(self._trial, keys)
            return
        page = frozenset(keys)
        if page == now.page_before and page and not now.descending:
            self._see_again()
            return
        now.page_before, now.again = page, False
        if self.number == 0 and not now.descending:
            now.first = keys
        now.brought.update(key for key in keys if key not in self._known)
        news, seen_before = not self._known.issuperset(keys), len(now.seen)
        self._known.update(keys)
        now.seen.update(keys)
        now.news = now.news or news
        unseen = len(now.seen) - seen_before
        if now.descending:
            now.moved = now.moved or news or unseen < len(page) or len(page) < now.full
            self._step_down()
        else:
            now.length += len(page)
            self._step_up(keys, anything_unseen=unseen > 0)

    def excuse(self, recent: AbstractSet[Hashable]) -> None:
        """Count the last round as one without news if all that it brought is recent, no part of what was to be seen.

        A listing that grows as fast as it is read would otherwise never come to an end.
        """
        if self.unexplained and self.unexplained <= recent:
            self._rounds_without_news = self._quiet_before + 1
            self.ended = self._is_quiet
        self.unexplained = frozenset()

    def beyond(self, error: FreightExchangeError) -> bool:
        """Take the error for the end where it is how this server says that there is no such page; else `False`."""
        if self.number == 0 or error.status not in REFUSALS:
            return False
        if self._trial is not None:
            self._end_trial()
        elif self._round.descending:
            self._round.moved = True
            self._step_down()
        else:
            self._reach_end([])
        return True

    def _start_climb(self) -> None:
        self._rounds += 1
        self.number, self.size = 0, self._first_size
        self._round = _Round(full=self.size)

    def _step_up(self, keys: list[Hashable], *, anything_unseen: bool) -> None:
        # A row that comes twice in a page counts once, and says nothing of where the listing ends.
        rows, now = len({*keys}), self._round
        longest = self._sizes.longest(self._operation)
        self._sizes.saw(self._operation, rows)
        # A server may have a page size of its own, larger than the one it is asked for.
        now.full = max(now.full, rows)
        if len(keys) >= now.full or (len(keys) > rows and rows < longest):
            self._pass_full_page(rows, anything_unseen=anything_unseen)
        elif rows < longest or not rows:
            self._reach_end(keys)
        else:
            # Shorter than asked, and no page was ever longer: the end, or the most that the server gives. The next
            # page tells; from the first page on, in this very size, which is the right one under either reading.
            now.full = rows
            if self.number == 0:
                self.size = rows
                now.probing = rows != self._sizes.clamp(self._operation)
            self.number += 1

    def _pass_full_page(self, rows: int, *, anything_unseen: bool) -> None:
        now = self._round
        if not anything_unseen and now.idle:
            # Nothing showed how long the listing is: what the descent sees may be what it holds, and proves nothing.
            self._reach_end([])
            now.moved, now.length = True, 0
            return
        # One page of rows all seen, and not the one before over again: many rows were inserted, and more may follow.
        now.idle = not anything_unseen
        if now.probing:
            now.probing = False
            if self._suspected != rows:
                # Or the first page was short because the listing was, and many rows were inserted since. Taken for
                # the most that the server gives, its few rows would make the walk a long one: it is asked for again.
                self._suspected = rows
                self._start_climb()
                return
            self._sizes.clamped(self._operation, rows)
        self.number += 1

    def _see_again(self) -> None:
        """The last page over again, or an ignored offset."""
        now = self._round
        if not now.again:
            # Or a page of rows was inserted just now, which would pass for the end: the next one tells.
            now.again = True
            self.number += 1
            return
        self.number -= 1
        self._trial = OffsetProbe.of(now.first) if self.number == 1 else None
        if self._trial is None:
            self._reach_end([])
        else:
            self._place, self.size = (1, self.size), self._trial.SIZE

    def _go_on_trying(self, trial: OffsetProbe, keys: list[Hashable]) -> None:
        trial.take(keys)
        self.number = trial.number
        if trial.offset_ignored:
            self.offset_ignored = self.ended = True
        elif trial.ended:
            self._end_trial()

    def _end_trial(self) -> None:
        self._trial = None
        self.number, self.size = self._place
        self._reach_end([])

    def _reach_end(self, last_page: list[Hashable]) -> None:
        """Descend: the listing holds the pages below, and these rows."""
        if self.number == 0:
            # Alone, a page is a picture of the whole listing at one moment: nothing slips past it.
            self.ended = True
            return
        now = self._round
        now.descending = True
        now.seen = {*last_page}
        now.moved = False
        self.number -= 1

    def _step_down(self) -> None:
        now = self._round
        if self.number > 0:
            self.number -= 1
            return
        self._quiet_before = self._rounds_without_news
        self._rounds_without_news = 0 if now.news else self._rounds_without_news + 1
        self._length = now.length
        self.ended = not now.moved or self._is_quiet
        if not self.ended:
            self.unexplained = frozenset(now.brought)
            self._start_climb()
