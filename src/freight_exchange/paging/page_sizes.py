"""Page sizes that a service was seen to accept, refuse or cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from freight_exchange.errors import RateLimitedError
from freight_exchange.errors.transient import is_transient

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError

__all__ = ["DEFAULT_PAGE_SIZE", "LEAST_PAGE_SIZE", "SIZE_REFUSALS", "PageSizes", "size_after", "size_below"]

DEFAULT_PAGE_SIZE: Final = 100
"""Default number of rows to ask for in a page."""

_LADDER: Final = (1000, 100, 20, 10)
"""Page sizes to step down to; 20 and 10 are the service's own defaults (service document, 4.2 and 4.4)."""

LEAST_PAGE_SIZE: Final = _LADDER[-1]
"""Least number of rows to ask for in a page where larger pages fail or show nothing."""


SIZE_REFUSALS: Final = frozenset({400, 413, 422})
"""Statuses with which a service refuses a page size."""

_FAILURE: Final = 500
_MODEST_PAGE: Final = 100
"""Rows in a page that hardly cause an outage: smaller pages do not help against one."""


def size_below(size: int) -> int | None:
    """The next smaller page size to try; `None` below the least."""
    return next((rows for rows in _LADDER if rows < size), None)


def size_after(error: FreightExchangeError, size: int) -> int | None:
    """The page size to try after one of `size` failed like this; `None` if a smaller one does not help."""
    over_size = error.status in SIZE_REFUSALS or error.status == _FAILURE
    outage = is_transient(error) and not isinstance(error, RateLimitedError) and size > _MODEST_PAGE
    return size_below(size) if over_size or outage else None


class PageSizes:
    """Page sizes learned per operation, shared by all listings of a client.

    They decide which size to ask for. Listings never conclude from them that a page is the last: the service may cut
    pages shorter than it did before.
    """

    def __init__(self) -> None:
        self._longest: dict[str, int] = {}
        self._repeating: set[str] = set()
        self._clamp: dict[str, int] = {}
        self._refused: dict[str, int] = {}

    def longest(self, operation: str) -> int:
        """The most rows that one page ever held."""
        return self._longest.get(operation, 0)

    def to_ask(self, operation: str, wanted: int, *, start: int = 0) -> int:
        """The page size to ask for when page `start` is the first.

        The first page begins with the first row in any size: it is asked for as large as is wanted, so that a mistaken
        clamp mends. Later pages begin where those of the size that the service gives would.
        """
        known = self._clamp if start else self._refused
        return min(wanted, known.get(operation, wanted))

    def saw(self, operation: str, rows: int) -> None:
        """Learn from a page of so many rows."""
        self._longest[operation] = max(rows, self.longest(operation))
        if rows > self._clamp.get(operation, rows):
            del self._clamp[operation]

    def clamp(self, operation: str) -> int | None:
        """The most rows in a page that the service gives, where that is known."""
        return self._clamp.get(operation)

    def clamped(self, operation: str, rows: int) -> None:
        """Learn that a page was cut to `rows`, and that more rows followed."""
        self._clamp[operation] = rows

    def refused(self, operation: str, wanted: int) -> None:
        """Learn that a page of more rows than `wanted` was refused, and one of `wanted` was not."""
        self._clamp[operation] = self._refused[operation] = wanted

    def afresh(self) -> PageSizes:
        """Page sizes that keep the refusals alone: the service may give less than it did, and hardly takes more."""
        fresh = PageSizes()
        for operation, wanted in self._refused.items():
            fresh.refused(operation, wanted)
        return fresh

    def first_repeat(self, operation: str) -> bool:
        """Note that the operation's second page equalled its first; `True` the first time."""
        known = operation in self._repeating
        self._repeating.add(operation)
        return not known
