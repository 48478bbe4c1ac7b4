"""Window walk: reads a window of requests for the feed, up to the end and down again, until nothing was missed. Pure.

A walk climbs from the first page to the end of the listing. Then it descends page by page. It repeats both until one
descent proves that nothing was missed. It trusts learned page sizes: a shorter page is the last one. The feed can do so
because its deep scans learn the sizes anew, and read again what its narrow scans have read. Other listings prove their
end instead (`freight_exchange.walk`).

Proof by a descent: the last page of the climb shows the length of the listing at that moment. A row of the descent that
was read before was listed at that moment. Suppose that each page is full, no row is new and none comes twice. Then the
number of rows read is the length of the listing, so they are all its rows, despite insertions, removals and reordering
during the walk. Two equal passes prove less: both can miss a row that moves to an earlier page when another is removed.

A walk can still miss rows if a record leaves the listing and returns between two pages; if a server lowers its clamp,
or refuses an existing page; or if a page comes three times, because twice exactly a page of rows was inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from freight_exchange.feed.paging_legacy.end_signs import REFUSALS
from freight_exchange.feed.paging_legacy.offset_probe import OffsetProbe
from freight_exchange.feed.paging_legacy.page_sizes import PageSizes
from freight_exchange.paging import keys_of
from freight_exchange.wire import Rows

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError

__all__ = ["MAX_ROUNDS", "ROUNDS_THAT_LACK", "ROUNDS_WITHOUT_NEWS", "WindowWalk"]

T = TypeVar("T")

MAX_ROUNDS = 16
"""Rounds of climb and descent after which a walk gives up on a listing that keeps changing."""

ROUNDS_WITHOUT_NEWS = 3
"""Rounds in a row without a new row after which a walk ends without proof, since some listings have a row twice."""

ROUNDS_THAT_LACK = 6
"""The same limit if fewer rows were found than the listing is long: a row came twice, or one was missed in each round.

In a listing that is reordered before each page, three rounds miss a row about once in two thousand walks.
"""


@attrs.define
class _Round:
    """One climb and the descent that follows it.

    Attributes:
        full: Number of rows of a full page.
        descending: The climb has ended.
        probing: The first page was short, and the next one is requested in its size.
        idle: The previous page had no row that was new to this climb.
        repeated_rows: Rows that the climb had read when known rows ended it; 0 if it ended otherwise.
        again: The previous page was the same as the one before it.
        length: Length of the listing at the end of the climb; 0 if unknown.
        moved: Rows moved, so the descent proves nothing.
        seen: The rows of this climb; during the descent, its rows and those of the last page of the climb.
        brought: The rows that were not in earlier rounds.
        page_before: The keys of the previous page.
        first: The keys of the first page.
    """

    full: int
    descending: bool = False
    probing: bool = False
    idle: bool = False
    repeated_rows: int = 0
    again: bool = False
    length: int = 0
    moved: bool = False
    seen: set[Hashable] = attrs.Factory(set)
    brought: set[Hashable] = attrs.Factory(set)
    page_before: frozenset[Hashable] = frozenset()
    first: list[Hashable] = attrs.Factory(list)


class WindowWalk(Generic[T]):
    """Walk through a listing. Until it has `ended`, `number` and `size` describe the next page.

    Args:
        operation: Name of the listing in `sizes`.
        sizes: Page sizes known so far; the walk adds to them.
        page_size: Wanted rows in a page.
        identity: Returns the key of a record.

    Attributes:
        offset_ignored: Each page was the same as the first.
        unexplained: The new rows of a round without proof, which the caller may `excuse`.
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
        self._probe: OffsetProbe | None = None
        self._first_size = sizes.size_to_request(operation, page_size)
        self.unexplained: frozenset[Hashable] = frozenset()
        self.ended = False
        self.offset_ignored = False
        self._start_climb()

    @property
    def is_unstable(self) -> bool:
        """`True` if the listing has changed so often that its content is uncertain."""
        return self._rounds > MAX_ROUNDS

    @property
    def descending(self) -> bool:
        """`True` while the walk goes back from the end of the listing."""
        return self._round.descending

    @property
    def _is_quiet(self) -> bool:
        """`True` once enough rounds in a row had no new row."""
        is_short = self._length > len(self._known)
        return self._rounds_without_news >= (ROUNDS_THAT_LACK if is_short else ROUNDS_WITHOUT_NEWS)

    def take(self, rows: Rows[T]) -> None:
        """Process the requested page."""
        keys, now = keys_of(rows, self._identity), self._round
        if self._probe is not None:
            self._continue_probe(self._probe, keys)
            return
        if self._is_rest_of_first(keys):
            # The first page has rows twice. The second page begins after all of them, so the size must count them.
            self.size = len(now.first)
            return
        page = frozenset(keys)
        if page == now.page_before and page and not now.descending:
            self._see_again()
            return
        now.page_before, now.again = page, False
        if self.number == 0 and not now.descending:
            now.first = keys
        new_rows, seen_before = page - self._known, len(now.seen)
        now.brought |= new_rows
        self._known |= page
        now.seen |= page
        unseen = len(now.seen) - seen_before
        if now.descending:
            now.moved = now.moved or bool(new_rows) or unseen < len(page) or len(page) < now.full
            self._step_down()
        else:
            now.length += len(page)
            self._step_up(keys, anything_unseen=unseen > 0)

    def excuse(self, recent: AbstractSet[Hashable]) -> None:
        """Count the last round as one without new rows if all its new rows are recent: the walk may miss these.

        Otherwise a walk would never end in a listing that grows as fast as it is read.
        """
        if self.unexplained and self.unexplained <= recent:
            self._rounds_without_news = self._quiet_before + 1
            self.ended = self._is_quiet
        self.unexplained = frozenset()

    def beyond(self, error: FreightExchangeError) -> bool:
        """Treat a refusal of a page beyond the end as the end; return `False` for other errors."""
        if self.number == 0 or error.status not in REFUSALS:
            return False
        if self._probe is not None:
            self._end_probe()
        elif self._round.descending:
            self._round.moved = True
            self._step_down()
        else:
            self._reach_end([])
        return True

    def _start_climb(self) -> None:
        self._rounds += 1
        self.number, self.size = 0, self._first_size
        self._round: _Round = _Round(full=self.size)

    @property
    def _has_twins(self) -> bool:
        """`True` if the first page lists a row twice, and is shorter than requested."""
        first = self._round.first
        return len({*first}) < len(first) < self._first_size

    def _is_rest_of_first(self, keys: list[Hashable]) -> bool:
        """Return whether a second page has only rows of the first, because its size counted equal rows once."""
        now = self._round
        is_small_second = self.number == 1 and not now.descending and self.size < len(now.first)
        return is_small_second and self._has_twins and bool(keys) and {*keys} <= {*now.first}

    def _step_up(self, keys: list[Hashable], *, anything_unseen: bool) -> None:
        # A row that is twice in a page counts once.
        rows, now, longest = len({*keys}), self._round, self._sizes.longest(self._operation)
        self._sizes.record_rows(self._operation, rows)
        # A server may have a page size of its own, larger than the one requested.
        now.full = max(now.full, rows)
        if len(keys) >= now.full or (len(keys) > rows and rows < longest):
            self._pass_full_page(rows, anything_unseen=anything_unseen)
        elif not rows or (rows < longest and not self._is_perhaps_cut(keys)):
            self._reach_end(keys)
        else:
            # This page is shorter than requested, and none was longer: it is the end, or the server's largest page.
            # The next page decides. It is requested in this size, which is right in both cases.
            now.full = rows
            if self.number == 0:
                self.size = rows
                now.probing = rows != self._sizes.clamp(self._operation)
            self.number += 1

    def _is_perhaps_cut(self, keys: list[Hashable]) -> bool:
        """Return whether a lowered clamp may have cut this first page, since it lacks rows of an earlier round."""
        return self.number == 0 and self._rounds > 1 and not self._known <= {*keys}

    def _pass_full_page(self, rows: int, *, anything_unseen: bool) -> None:
        now = self._round
        # If all rows are known but the page is not a repetition, rows were inserted, and others follow after as many
        # known rows. If these are as many as the climb has read, the listing begins again or grows too fast.
        if not anything_unseen and now.idle and self.number * now.full >= 2 * len(now.seen):
            # The length of the listing is unknown, so the descent proves nothing.
            now.repeated_rows = len(now.seen)
            self._reach_end([])
            now.moved, now.length = True, 0
            return
        now.idle = not anything_unseen
        if now.probing:
            now.probing = False
            if self._suspected != rows:
                # Or the listing was short at first, and many rows were inserted since. A page size of so few rows would
                # make a long walk, so the page is requested again.
                self._suspected = rows
                self._start_climb()
                return
            self._sizes.record_clamp(self._operation, rows)
        self.number += 1

    def _see_again(self) -> None:
        """Process a repetition of the last page: the end, or an ignored offset."""
        now = self._round
        if not now.again:
            # Or exactly a page of rows was just inserted, which looks the same: the next page decides.
            now.again = True
            self.number += 1
            return
        self.number -= 1
        self._probe = OffsetProbe.make(now.first) if self.number == 1 else None
        if self._probe is None:
            self._reach_end([])
        else:
            self._place, self.size = (1, self.size), self._probe.SIZE

    def _continue_probe(self, probe: OffsetProbe, keys: list[Hashable]) -> None:
        probe.take(keys)
        self.number = probe.number
        if probe.offset_ignored:
            self.offset_ignored = self.ended = True
        elif probe.ended:
            self._end_probe()

    def _end_probe(self) -> None:
        self._probe = None
        self.number, self.size = self._place
        self._reach_end([])

    def _reach_end(self, last_page: list[Hashable]) -> None:
        """Begin the descent. The listing consists of the earlier pages and of `last_page`."""
        if self.number == 0:
            # A single page shows the whole listing at one moment, so no row is missed.
            self.ended = True
            return
        now = self._round
        if self.number == 1 and not last_page and self._has_twins:
            # The page was not cut, but a row that is twice in it counts once.
            now.full = len({*now.first})
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
        self._rounds_without_news = 0 if now.brought else self._rounds_without_news + 1
        self._length = now.length
        self.ended = not now.moved or self._is_quiet
        if not self.ended:
            # If half of the rows of such a climb are new, the listing grows too fast, and recent rows do not excuse it.
            self.unexplained = frozenset() if 0 < now.repeated_rows < 2 * len(now.brought) else frozenset(now.brought)
            self._start_climb()
