"""Counter of the signs that a listing has ended. Pure."""

from __future__ import annotations

from typing import Final

from freight_exchange.paging.core.page_sizes import MIN_PAGE_SIZE

__all__ = ["FAILURE", "REFUSALS", "EndSigns", "pages_past_end"]

REFUSALS: Final = frozenset({400, 404, 416, 422})
"""Statuses with which a service refuses a page beyond the end."""

FAILURE: Final = 500
"""Status that is either an outage, or the answer of some services to a page beyond the end."""


_FURTHER_ROWS: Final = 100
"""Rows to look past the first sign of the end, since all rows of several small pages in a row may be hidden."""

_MAX_GAP: Final = 3
"""Longest run of hidden pages after which further empty pages can still show the end of a listing."""

_PAGES_PER_GAP: Final = 10
"""Pages to look past the end, for each page of the longest run of hidden pages so far: runs differ much in length."""


def pages_past_end(further: int, size: int) -> int:
    """Return how many pages to request past the first sign: `further`, or more if the pages of the service are small.

    Sizes below `MIN_PAGE_SIZE` are those of probes, which need no more.
    """
    return max(further, -(-_FURTHER_ROWS // size)) if further and size >= MIN_PAGE_SIZE else further


class EndSigns:
    """Counter of signs in a row: empty, refused, repeated and failing pages.

    Attributes:
        further: Pages to request past the first sign; more if they are small, see `pages_past_end`.
        count: Number of signs since the last page with new rows.
        fails_beyond_end: A page has failed twice in a row, so a failing page is a sign of the end.
        undecided: An offset probe could not exclude that the service ignores page numbers.
    """

    def __init__(self, further: int) -> None:
        self.further = further
        self.fails_beyond_end = False
        self._gap = 0
        self.reset()

    def reset(self) -> None:
        """Discard all signs, as the pass restarts."""
        self._failed_at = -1
        self.clear()

    def clear(self) -> None:
        """Discard the signs counted so far, as a page with new rows has come."""
        self.count = self._empty = 0
        self.undecided = False

    def record_following_rows(self) -> None:
        """Record that rows follow the signs: all rows of the empty pages among them were hidden."""
        self._gap = max(self._gap, self._empty)
        self.clear()

    @property
    def hides_runs(self) -> bool:
        """`True` if the runs of hidden pages are so long that rows may follow after any number of empty pages.

        It is always `False` for a pass that does not look past the end, since that proves nothing anyway.
        """
        return self.further > 0 and self._gap > _MAX_GAP

    def add(self, size: int, *, empty: bool) -> bool:
        """Count a page as a sign; return `True` if the listing has ended.

        Args:
            size: Minimum number of rows that the service surely puts in a page of the requested size.
            empty: Whether the page came without rows. A refused page does not count.
        """
        self.count += 1
        self._empty += empty
        pages = pages_past_end(self.further, size)
        if self.further and not self.hides_runs:
            pages = max(pages, _PAGES_PER_GAP * self._gap)
        return self.count > pages

    def record_failure(self, number: int) -> None:
        """Record that a page failed."""
        self.fails_beyond_end = self.fails_beyond_end or self._failed_at == number
        self._failed_at = number
