"""Signs of a listing's end that a pass has met. Pure."""

from __future__ import annotations

from typing import Final

from freight_exchange.paging.page_sizes import LEAST_PAGE_SIZE

__all__ = ["FAILURE", "REFUSALS", "EndSigns", "pages_past_end"]

REFUSALS: Final = frozenset({400, 404, 416, 422})
"""Statuses with which a service refuses a page beyond the end."""

FAILURE: Final = 500
"""Status with which some services answer a page beyond the end, and others an outage."""


_FURTHER_ROWS: Final = 100
"""Rows to look past the first sign of the end: several small pages in a row may be hidden whole."""

_LONGEST_GAP: Final = 3
"""Hidden pages in a row after which no number of further pages shows that a listing has ended."""

_PAGES_PER_GAP: Final = 10
"""Pages to look past the end per hidden page in a row that has been met: such runs differ much in length."""


def pages_past_end(further: int, size: int) -> int:
    """Return how many pages of a size to request past the first sign: `further`, or more where a service's are small.

    Sizes below the service's own are those of probes, and need no more.
    """
    return max(further, -(-_FURTHER_ROWS // size)) if further and size >= LEAST_PAGE_SIZE else further


class EndSigns:
    """Counter of the signs in a row: empty, refused, repeated and failing pages.

    Attributes:
        further: Pages to request past the first sign, if they are not small; see `pages_past_end`.
        count: Signs since the last page with new rows.
        undecided: An offset probe could not exclude that the service ignores page numbers.
    """

    def __init__(self, further: int) -> None:
        self.further = further
        self._fails_beyond_end = False
        self._gap = 0
        self.reset()

    def reset(self) -> None:
        """Discard the signs of the pass before a restart."""
        self._failed_at = -1
        self.clear()

    def clear(self) -> None:
        """Discard the signs before a page with new rows."""
        self.count = self._empty = 0
        self.undecided = False

    def follow(self) -> None:
        """Record that rows follow the signs: the empty pages among them were hidden whole."""
        self._gap = max(self._gap, self._empty)
        self.clear()

    @property
    def hides_runs(self) -> bool:
        """`True` if so many pages in a row were hidden whole that rows may follow any number of empty ones.

        A pass that does not look past the end proves nothing, and does not need this.
        """
        return self.further > 0 and self._gap > _LONGEST_GAP

    def add(self, size: int, *, empty: bool) -> bool:
        """Count a page as a sign; return `True` if the listing has ended.

        Args:
            size: The fewest rows that the service is known to put in a page of the size requested.
            empty: The page came without rows, and was not refused.
        """
        self.count += 1
        self._empty += empty
        pages = pages_past_end(self.further, size)
        if self.further and not self.hides_runs:
            pages = max(pages, _PAGES_PER_GAP * self._gap)
        return self.count > pages

    def is_confirmed_by_failure(self, number: int) -> bool:
        """Record that a page failed; return `True` if that is a sign: it failed twice, or such pages always do."""
        self._fails_beyond_end = self._fails_beyond_end or self._failed_at == number
        self._failed_at = number
        return self._fails_beyond_end
