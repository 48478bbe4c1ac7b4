"""A reading of a listing that misses nothing that was there throughout, or says that it may have. Pure.

One pass can miss rows: the list moves, the service cuts pages shorter in the middle of it, whole pages are hidden. A
sweep is a pass that looks further past the end, and then reads the same pages again, from the last to the first and in
another page size. If both show the same rows, nothing was missed. A page that was cut in both readings was cut at
different rows. A row that slipped past the pass made another one leave its place, and that one is missing from the
second reading or comes twice in it.

What still beats it: more hidden pages in a row than it looks further past; rows that leave the listing and come back in
the middle of it; page lengths that change for a single page in each of the two readings, at the same row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from freight_exchange.paging.page_sizes import LEAST_PAGE_SIZE
from freight_exchange.paging.reread import LOOK_FURTHER, Recheck, Reread
from freight_exchange.paging.seen_rows import Alike, SeenRows
from freight_exchange.paging.single_pass import SinglePass

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.paging.page import RawPage
    from freight_exchange.paging.page_sizes import PageSizes

__all__ = ["MOST_ROUNDS", "ROUNDS_WITHOUT_NEWS", "Sweep"]

T = TypeVar("T")

MOST_ROUNDS: Final = 16
"""Rounds after which a sweep gives up on a listing that never stands still."""

ROUNDS_WITHOUT_NEWS: Final = 3
"""Rounds in a row without a new row after which a sweep ends. It is complete if its last readings all agreed."""


class Sweep(Generic[T]):
    """A climb and its recheck, again until both show the same rows: `number` and `size` name the next page.

    Rows without an identity are handed out at the end, as often as the last climb shows them: before that, two rows
    that are alike cannot be told from one that moved.

    Attributes:
        ended: It asks for nothing more.
        complete: It has ended, and nothing that was there throughout can have been missed.
        repeated: The listing ended with its first page over again.
        offset_ignored: The service ignores page numbers.
        fitting: The page size with which a later reading goes on behind the page just taken.
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
        # The most rows of any page: pages of no more are given in full, so that none of their rows is out of reach.
        self._proven = 0
        self.ended = False
        self.complete = False
        self._recheck: Recheck[T] | None = None
        self._climb = self._next_climb()

    def _next_climb(self) -> SinglePass[T]:
        self._rounds += 1
        self._recheck = None
        return SinglePass(
            self._operation,
            self._sizes,
            self._page_size,
            self._seen,
            start=self._start,
            further=LOOK_FURTHER,
            curious=True,
        )

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
    def restless(self) -> bool:
        """The listing has changed so often that the sweep cannot end."""
        return self._rounds > MOST_ROUNDS

    def numbers(self) -> Iterable[int]:
        """The numbers of the next pages, as far as they are certain before the next one is there."""
        return self._pass.numbers()

    def take(self, rows: RawPage[T]) -> tuple[T, ...]:
        """Take in the page that was asked for; the records that it adds."""
        fresh = self._pass.take(rows)
        self._conclude()
        return fresh if self._held is None else self._held_back(fresh)

    def fail(self, error: FreightExchangeError) -> bool:
        """Go on after an error in place of the page; `False` if the error is the caller's."""
        if not self._pass.fail(error):
            return False
        self._conclude()
        return True

    def rest(self) -> tuple[T, ...]:
        """The records that were held back until the end."""
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
            if (telling_size := self._telling_size()) < self._climb.size:
                self._page_size = telling_size
                self._climb = self._next_climb()
                return
            self._recheck = self._begin_recheck()
            if not self._recheck.ended:
                return
        self._end_round(self._recheck)

    def _telling_size(self) -> int:
        """The page size to read in where pages may have been cut at rows that no page in the climb's size reaches."""
        climb = self._climb
        if climb.found.end > self._start + 1:
            # Pages that were all short.
            return self._proven
        # Nothing at all: the rows of pages that were cut may all be hidden.
        return LEAST_PAGE_SIZE if climb.found.end == self._start == 0 else climb.size

    def _begin_recheck(self) -> Recheck[T]:
        climb, start = self._climb, self._start
        if climb.found.end == start:
            return Recheck(range(0), climb.asked, self._seen)
        size = climb.size
        if climb.found.end == start + 1 and start == 0:
            size = min(size, self._proven)
            most = -(-climb.asked // size) + LOOK_FURTHER
            return Reread(range(most), size, self._seen, climb.found.rows)
        # Services take odd sizes in different ways: each round tries another one.
        if start == 0 and (self._rounds <= 2 or not climb.full):
            size = max(1, size // 2 if self._rounds == 2 else size - self._rounds)
        pages = -(-climb.found.end * climb.size // size) + LOOK_FURTHER
        return Recheck(range(pages - 1, start - 1, -1), size, self._seen)

    def _end_round(self, recheck: Recheck[T]) -> None:
        climb = self._climb
        # Pages that are short in the same size may have been cut at the same rows.
        telling = climb.full or climb.size != recheck.size or climb.found.end <= self._start + 1
        agreed = telling and climb.consistent and recheck.reached_end and climb.found.rows == recheck.found
        self._agreements = self._agreements + 1 if agreed else 0
        news, self._known = len(self._seen) > self._known, len(self._seen)
        self._rounds_without_news = 0 if news else self._rounds_without_news + 1
        # Where a row moved, another one may be missing, round after round.
        enough = ROUNDS_WITHOUT_NEWS if climb.found.moved else 1
        self.complete = self._agreements >= enough
        self.ended = self.complete or climb.uncertain or self._rounds_without_news >= ROUNDS_WITHOUT_NEWS
        if not self.ended:
            if isinstance(recheck, Reread) and recheck.found - climb.found.rows:
                # The single page was a cut one after all.
                self._page_size = recheck.size
            self._climb = self._next_climb()
