"""Sweep: passes that prove that they missed no row listed all the time, or report that they may have. Pure.

A single pass can miss rows if the list moves, if the service begins to cut pages shorter, or if all rows of a page are
hidden. A sweep makes a pass that looks past the end. Then it reads the same pages again, from the last to the first, in
another page size. If both passes find the same rows, no row was missed:

- A page that was cut in both passes was cut at different rows.
- If a row moved past the first pass, other rows moved too. The second pass then lacks one, or finds one twice.

A sweep can still miss rows in three cases: after more hidden pages in a row than it looks past the end; if rows leave
the listing and return during the sweep; if in each pass the length of a single page changes, at the same row or
among hidden pages.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from freight_exchange.paging.core.end_signs import pages_past_end
from freight_exchange.paging.core.page_sizes import MIN_PAGE_SIZE, WantedSize
from freight_exchange.paging.core.reread import PAGES_PAST_END, Recheck, Reread
from freight_exchange.paging.core.seen_rows import Alike, SeenRows
from freight_exchange.paging.core.single_pass import SinglePass

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.paging.core.page_sizes import PageSizes
    from freight_exchange.paging.page import RawPage

__all__ = ["MAX_ROUNDS", "ROUNDS_WITHOUT_NEWS", "Sweep"]

T = TypeVar("T")

MAX_ROUNDS: Final = 16
"""Rounds after which a sweep gives up on a listing that keeps changing."""

ROUNDS_WITHOUT_NEWS: Final = 3
"""Rounds in a row without a new row after which a sweep ends; it is complete if the passes of the last one agree."""


class Sweep(Generic[T]):
    """A pass and its recheck, repeated until both find the same rows; `number` and `size` describe the next page.

    Rows without an identity are returned at the end, as often as the last pass found them. Before the end, two equal
    rows cannot be told from one that moved.

    Attributes:
        ended: The sweep needs no further page.
        complete: The sweep has ended, and missed no row that was listed all the time.
        repeated: The listing ended with a repetition of its first page.
        offset_ignored: The service ignores page numbers.
        fitting: Page size with which a later pass can continue after the last page.
    """

    def __init__(
        self,
        operation: str,
        sizes: PageSizes,
        page_size: int,
        identity: Callable[[T], Hashable] | None,
        *,
        start: int = 0,
    ) -> None:
        self._operation = operation
        self._sizes = sizes
        self._page_size = page_size
        self._start = start
        self._seen = SeenRows(identity)
        self._held: dict[Hashable, T] | None = {} if identity is None else None
        self._rounds = 0
        self._rounds_without_news = 0
        self._agreements = 0
        self._known = 0
        # Largest number of rows on a page: the service does not cut pages of this size.
        self._proven = 0
        self.ended = False
        self.complete = False
        self._recheck: Recheck[T] | None = None
        self._climb = self._next_climb()

    def _next_climb(self) -> SinglePass[T]:
        self._rounds += 1
        self._recheck = None
        wanted = WantedSize(self._operation, self._sizes, self._page_size, self._start)
        return SinglePass(wanted, self._seen, start=self._start, further=PAGES_PAST_END, probes_offset=True)

    @property
    def _pass(self) -> SinglePass[T] | Recheck[T]:
        return self._recheck or self._climb

    @property
    def number(self) -> int:
        return self._pass.number

    @property
    def size(self) -> int:
        return self._pass.size

    @property
    def fitting(self) -> int:
        return self._climb.fitting if self._recheck is None else self._recheck.size

    @property
    def repeated(self) -> bool:
        return self._climb.repeated

    @property
    def offset_ignored(self) -> bool:
        return self._climb.offset_ignored

    @property
    def is_unstable(self) -> bool:
        """`True` if the listing has changed so often that the sweep gives up."""
        return self._rounds > MAX_ROUNDS

    def numbers(self) -> Iterable[int]:
        """Return the numbers of the next pages, as far as they do not depend on the reply to the next one."""
        return self._pass.numbers()

    def take(self, rows: RawPage[T]) -> tuple[T, ...]:
        """Process the requested page; return the records that it adds."""
        fresh = self._pass.take(rows)
        self._conclude()
        return fresh if self._held is None else self._held_back(fresh)

    def fail(self, error: FreightExchangeError) -> bool:
        """Process an error in place of the page; return `False` if the caller has to raise it."""
        if not self._pass.fail(error):
            return False
        self._conclude()
        return True

    def rest(self) -> tuple[T, ...]:
        """Return the records without an identity, which are returned at the end only."""
        if self._held is None:
            return ()
        listed: set[Hashable] = {*self._climb.found.rows}
        missing = [record for record in self._held.values() if Alike(record) not in listed]
        self._held = None
        return (*self._climb.found.records, *missing)

    def _held_back(self, fresh: tuple[T, ...]) -> tuple[T, ...]:
        assert self._held is not None
        self._held.update((Alike(record), record) for record in fresh)
        return ()

    def _conclude(self) -> None:
        if not self._pass.ended:
            return
        if self._recheck is None:
            if self._climb.offset_ignored:
                self.ended = True
                return
            self._proven = max(self._proven, self._climb.longest)
            if not self._climb.uncertain and (revealing_size := self._revealing_size()) < self._climb.size:
                self._page_size = revealing_size
                self._climb = self._next_climb()
                return
            self._recheck = self._begin_recheck()
            if not self._recheck.ended:
                return
        self._end_round(self._recheck)

    def _revealing_size(self) -> int:
        """Return the page size for another pass if rows may have been missed by cuts; the same size if not."""
        climb = self._climb
        if climb.found.end > self._start + 1:
            # All pages were short.
            return self._proven
        # Without any row, all rows of cut pages may be hidden: the smallest size shows more pages.
        return MIN_PAGE_SIZE if climb.found.end == self._start == 0 else climb.size

    def _begin_recheck(self) -> Recheck[T]:
        climb, start = self._climb, self._start
        if climb.found.end == start:
            return Recheck(range(0), climb.first_size, self._seen)
        size = climb.size
        if climb.found.end == start + 1 and start == 0:
            size = min(size, self._proven)
            most = -(-climb.first_size // size) + pages_past_end(PAGES_PAST_END, size)
            return Reread(range(most), size, self._seen, climb.found.rows)
        # Each round uses another size, since services differ in their treatment of odd sizes.
        if start == 0 and (self._rounds <= 2 or not climb.full):
            size = max(1, size // 2 if self._rounds == 2 else size - self._rounds)
        pages = -(-climb.found.end * climb.size // size) + PAGES_PAST_END
        return Recheck(range(pages - 1, start - 1, -1), size, self._seen)

    def _end_round(self, recheck: Recheck[T]) -> None:
        climb = self._climb
        # Short pages of the same size may have been cut at the same rows in both passes.
        is_conclusive = climb.full or climb.size != recheck.size or climb.found.end <= self._start + 1
        agreed = is_conclusive and climb.consistent and recheck.reached_end and climb.found.rows == recheck.found
        self._agreements = self._agreements + 1 if agreed else 0
        has_new_rows, self._known = len(self._seen) > self._known, len(self._seen)
        self._rounds_without_news = 0 if has_new_rows else self._rounds_without_news + 1
        # If a row moves, another one may be missing in each round.
        enough = ROUNDS_WITHOUT_NEWS if climb.found.moved else 1
        self.complete = self._agreements >= enough
        self.ended = self.complete or climb.uncertain or self._rounds_without_news >= ROUNDS_WITHOUT_NEWS
        if not self.ended:
            if isinstance(recheck, Reread) and recheck.found - climb.found.rows:
                # The only page was cut.
                self._page_size = recheck.size
            self._climb = self._next_climb()
