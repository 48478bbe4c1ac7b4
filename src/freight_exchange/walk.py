"""Walks through a listing: choose the next page, and know when the listing has ended. Pure.

A service may cut pages silently, but not below its documented size: it gives that many rows to a client that asks for
nothing. A walk trusts a larger size only after a full page of it. A short page is never the end, since a service may
hide rows of a page from the user: the end are `past_end` rows without a new one.

A walk has the `number` and `size` of the next page until it has `ended`; a sweep has that of the walk that it does
`now`. `take` processes the page, and `refuse` a refusal in its place: it returns `False` if the caller has to raise it.
`ahead` returns the numbers of up to `window` next pages of this size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final, Literal

SAFE: Final = 10
"""Rows of a page that no service cuts: the documented default of most listings (service document, 8)."""
LARGE: Final = 100
"""Rows of a page that are tried after a full page of the documented size, before any larger size."""
REFUSALS: Final = frozenset({400, 404, 413, 416, 422, 500})
"""Statuses of a reply that there is no such page, or that it is too large. 500 also stands for an outage."""
_ROUNDS, _ROUNDS_WITHOUT_NEWS, _AGREEMENTS_IF_MOVED = 8, 3, 3


class Pass:
    """One pass upwards.

    Attributes:
        fitting: Page size with which a later pass continues after the last page.
        rows: How often each row was found; `moved` if one came again.
        pages: Number of the last page with rows, plus one; `short` has the rows of those that are not full.
        broken: A page follows one that failed, or rows follow a refused one, so that one was not past the end.
        ignores_offset: The service ignores page numbers.
    """

    def __init__(self, size: int, *, safe: int = SAFE, start: int = 0, past_end: int = 20) -> None:
        # A page size gives `start` its meaning, so only a pass from page 0 may try others.
        self.size, *self._larger = sorted({min(safe, size), min(LARGE, size), size}) if start == 0 else [size]
        self.number = self.pages = self._start = start
        self.fitting = self.size
        self.rows: Counter[Hashable] = Counter()
        self.short: dict[int, int] = {}
        self.moved = self.broken = self.ended = self.ignores_offset = False
        self.up = self.now = self
        self._past_end = past_end
        self._first: Sequence[Hashable] = ()
        self._before: Counter[Hashable] = Counter()
        self._without = self._repeats = self._last_rows = 0
        self._refused = self._fails = False
        # The question that the next page answers.
        self._asking: Literal["", "size", "offset", "alive"] = ""
        self._smaller, self._failed_at = self.size, -1

    @property
    def settling(self) -> bool:
        """`True` while the first page is requested again, in a larger size."""
        return self._asking == "size"

    def ahead(self, window: int) -> Sequence[int]:
        if self.number == 0 or self._asking:
            return (self.number,)
        left = -(-(self._past_end - self._without) // self.size) if self._last_rows < self.size else window
        return range(self.number, self.number + min(window, left))

    def take(self, keys: Sequence[Hashable]) -> None:
        self.broken = self.broken or (self._fails and not self._asking)
        self._take(keys)

    def refuse(self, status: int | None) -> bool:
        is_first = self.number == 0 and not self._asking
        if status not in REFUSALS or is_first or self._asking == "alive":
            return False
        if not self._asking:
            if status == 500 and not self._fails and self._failed_at != self.number:
                # An outage looks like the end: the first page has to come before this one fails again.
                self._failed_at, self.number, self._asking = self.number, self._start, "alive"
                return True
            self._refused, self._fails = True, status == 500
        self._take(())
        return True

    def _take(self, keys: Sequence[Hashable]) -> None:
        page, asking = Counter(keys), self._asking
        self._asking = ""
        match asking:
            case "alive":
                self.number = self._failed_at
                return
            case "offset":
                # With page numbers, this is the last row of the first page, or a later one, but not the first.
                self.ignores_offset = [*keys[:1]] == [*self._first[:1]]
                self.number, self.size, self._repeats = 1, self._smaller, 1
                self._go_on(self._past_end if self.ignores_offset else self._without + self.size)
                return
            case "size" if len(keys) < self.size:
                self.number, self.size, self.fitting = 1, self._smaller, max(self._smaller, len(keys))
                return
            case "size":
                self.rows.clear()
        self.fitting = self.size
        if page and page == self._before:
            if self.number == 1 and self._start == 0 and self._first[0] != self._first[-1]:
                self._asking, self._smaller, self.number, self.size = "offset", self.size, self.size - 1, 1
                return
            # Equal pages are real if other or no rows follow: a service that repeats its last page never stops.
            self._repeats, self._last_rows = self._repeats + 1, 0
            self._go_on(self._without + self.size)
            return
        for _ in range(self._repeats):
            self.rows.update(self._before)
        self.pages, self._repeats, self._last_rows = self.pages + self._repeats, 0, len(keys)
        # A service that changes the order at each call may always give known rows.
        without = self._without + self.size if page.keys() <= self.rows.keys() else 0
        if page:
            self._add(page, keys)
            if self.number == 0 and self._larger and len(keys) >= self.size:
                self._asking, self._smaller, self.size = "size", self.size, self._larger.pop(0)
                return
        self._go_on(without)

    def _add(self, page: Counter[Hashable], keys: Sequence[Hashable]) -> None:
        self.moved = self.moved or not self.rows.keys().isdisjoint(page)
        self.broken = self.broken or self._refused
        self.rows.update(page)
        self._before, self.pages = page, self.number + 1
        if len(keys) < self.size:
            self.short[self.number] = len(keys)
        if self.number == 0:
            self._first = keys

    def _go_on(self, without: int) -> None:
        self._without = without
        self.number += 1
        self.ended = without >= self._past_end or not self.size


class Down:
    """Pass downwards over the pages of a pass, which proves that it missed nothing if it finds the same rows."""

    def __init__(self, up: Pass, start: int) -> None:
        # The last rows may have moved a few places towards the end.
        first = up.pages + -(-SAFE // up.size)
        self.size, self._end, self._start = up.size, up.pages, start
        self._left: Sequence[int] = range(first, start - 1, -1) if up.pages > start else ()
        self.rows: Counter[Hashable] = Counter()
        self._before: Counter[Hashable] = Counter()

    @property
    def ended(self) -> bool:
        return not self._left

    @property
    def number(self) -> int:
        return self._left[0]

    def ahead(self, window: int) -> Sequence[int]:
        return self._left[:window]

    def take(self, keys: Sequence[Hashable]) -> None:
        page = Counter(keys)
        if self.number < self._end - 1 or page != self._before:  # past the end, a service may repeat the last page
            self.rows.update(page)
            self._before = page
        self._left = self._left[1:]

    def refuse(self, status: int | None) -> bool:
        if status not in REFUSALS or self.number == self._start:
            return False
        self.take(())
        return True


class Places(Down):
    """Single rows that a cut of pages below their size skips: the last of a cut page, or the next of the last page."""

    def __init__(self, up: Pass, start: int) -> None:
        super().__init__(up, start)
        last = up.pages - 1
        self._left = [at * up.size + (rows if at == last else up.size - 1) for at, rows in up.short.items()]
        self.size = 1


class Sweep:
    """Passes up and down until they agree.

    If the size `safe` is not `documented`, rows that a cut below it would have skipped are looked for before the sweep
    is complete. `rows` counts those of the last pass; rows of earlier passes that it lacks count once.
    """

    def __init__(
        self, size: int, *, safe: int = SAFE, start: int = 0, past_end: int = 100, documented: bool = True
    ) -> None:
        self._size, self._safe, self._start, self._past_end = size, safe, start, past_end
        self._documented = documented
        self._known: dict[Hashable, None] = {}
        self._rounds = self._quiet = self._agreed = 0
        self.ended = self.complete = False
        self._begin()

    def _begin(self) -> None:
        self.up = Pass(self._size, safe=self._safe, start=self._start, past_end=self._past_end)
        self.now: Pass | Down = self.up
        self._known_before = len(self._known)
        self.cut = False

    @property
    def is_unstable(self) -> bool:
        """`True` if each of many readings had new rows, and none was complete."""
        return self._rounds == _ROUNDS and not self.complete

    @property
    def rows(self) -> Counter[Hashable]:
        return self.up.rows | Counter(self._known.keys())

    def take(self, keys: Sequence[Hashable]) -> None:
        self.now.take(keys)
        self._known |= dict.fromkeys(keys)
        self._conclude()

    def refuse(self, status: int | None) -> bool:
        if not self.now.refuse(status):
            return False
        self._conclude()
        return True

    def _conclude(self) -> None:
        if self.now is self.up and self.up.ended:
            self.ended = self.up.ignores_offset
            self.now = Down(self.up, self._start)
        if self.ended or not self.now.ended:
            return
        if isinstance(self.now, Places):
            self.cut = not self.now.rows.keys() <= self.up.rows.keys()
            self._end_round(agrees=not self.cut)
        elif self.now.rows == self.up.rows and not self._documented and self.up.short:
            self.now = Places(self.up, self._start)
        else:
            self._end_round(agrees=self.now.rows == self.up.rows)

    def _end_round(self, *, agrees: bool) -> None:
        self._rounds += 1
        self._quiet = self._quiet + 1 if len(self._known) == self._known_before else 0
        self._agreed = self._agreed + 1 if agrees else 0
        self.complete = self._agreed >= (_AGREEMENTS_IF_MOVED if self.up.moved else 1)
        self.ended = self.complete or self._quiet >= _ROUNDS_WITHOUT_NEWS or self._rounds == _ROUNDS
        if not self.ended:
            self._begin()
