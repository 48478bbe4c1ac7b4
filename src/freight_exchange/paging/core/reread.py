"""Second passes through a listing, for comparison with the first. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from freight_exchange.paging.core.end_signs import REFUSALS, pages_past_end

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.paging.core.seen_rows import SeenRows
    from freight_exchange.paging.page import RawPage

__all__ = ["PAGES_PAST_END", "Recheck", "Reread"]

T = TypeVar("T")

PAGES_PAST_END: Final = 3
"""Pages that a sweep requests past the first sign of the end, as all rows of a page may be hidden from the user.

If pages are small it requests more (`end_signs.pages_past_end`).
"""

_MISSING: Final = REFUSALS | {500}


class Recheck(Generic[T]):
    """Second pass over the pages of a pass, from the last to the first; `number` and `size` describe the next page.

    Attributes:
        found: The rows, by key.
    """

    def __init__(self, numbers: range, size: int, seen: SeenRows[T]) -> None:
        self._numbers = numbers
        self._seen = seen
        self._page_before: Counter[Hashable] = Counter()
        self._beyond_end = True
        self._at = 0
        self.size = size
        self.found: Counter[Hashable] = Counter()
        seen.begin_pass()

    @property
    def ended(self) -> bool:
        return self._at == len(self._numbers)

    @property
    def reached_end(self) -> bool:
        """`True` if the pass has seen the whole listing."""
        return self.ended

    @property
    def number(self) -> int:
        return self._numbers[min(self._at, len(self._numbers) - 1)]

    def numbers(self) -> Iterable[int]:
        """Return the numbers of the next pages."""
        return self._numbers[self._at :]

    def take(self, rows: RawPage[T]) -> tuple[T, ...]:
        """Process the requested page; return the records that it adds."""
        keys = self._seen.keys(rows)
        self._at += 1
        page = Counter(keys)
        if self._beyond_end and page == self._page_before:
            # A page beyond the end repeats the last page.
            return ()
        self._beyond_end = self._at == 1
        self._page_before = page
        self.found.update(keys)
        return self._seen.add(rows, keys)

    def fail(self, error: FreightExchangeError) -> bool:
        """Treat a refused page as empty; return `False` if the caller has to raise the error."""
        if error.status not in _MISSING:
            return False
        self._at += 1
        return True


class Reread(Recheck[T]):
    """Second pass through a listing of one page, from the first page on, in a size that the service does not cut.

    It continues until it has found each row of the first pass, and then looks past the end. It detects a first page
    that was cut, even if the service counts pages in the requested size and hides the rows that follow.
    """

    def __init__(self, numbers: range, size: int, seen: SeenRows[T], expected: Counter[Hashable]) -> None:
        super().__init__(numbers, size, seen)
        self._expected = expected
        self._misses = self._repeats = 0

    @property
    def ended(self) -> bool:
        return super().ended or self.reached_end

    @property
    def reached_end(self) -> bool:
        # If fewer rows are found than before, these pages may have been cut shorter than in the first pass.
        enough = pages_past_end(PAGES_PAST_END, self.size)
        return max(self._misses, self._repeats) >= enough and not self._expected - self.found

    def take(self, rows: RawPage[T]) -> tuple[T, ...]:
        keys = self._seen.keys(rows)
        self._at += 1
        page = Counter(keys)
        if not page:
            self._misses += 1
            return ()
        if page == self._page_before:
            # The last page was repeated, or a row moved because another was inserted.
            self._repeats += 1
            return ()
        self._misses = self._repeats = 0
        self._page_before = page
        self.found.update(keys)
        return self._seen.add(rows, keys)

    def fail(self, error: FreightExchangeError) -> bool:
        self._misses += 1
        return super().fail(error)
