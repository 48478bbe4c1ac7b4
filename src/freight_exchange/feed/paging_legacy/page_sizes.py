"""Page sizes: known limits of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from freight_exchange.errors import RateLimitedError, is_transient

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError

__all__ = [
    "DEFAULT_PAGE_SIZE",
    "MIN_PAGE_SIZE",
    "MODEST_PAGE",
    "SIZE_REFUSALS",
    "PageSizes",
    "size_after",
    "size_below",
]

DEFAULT_PAGE_SIZE: Final = 100
"""Default number of rows in a page."""

_LADDER: Final = (1000, 100, 20, 10)
"""Smaller page sizes to try after a refusal; 20 and 10 are the service's defaults (service document, 4.2 and 4.4)."""

MIN_PAGE_SIZE: Final = _LADDER[-1]
"""Smallest page size, used if larger pages fail or show no rows."""


SIZE_REFUSALS: Final = frozenset({400, 413, 422})
"""Statuses with which a service refuses a page size."""

_FAILURE: Final = 500
MODEST_PAGE: Final = 100
"""Page size that hardly ever makes the service fail: after a failure, smaller pages do not help."""


def size_below(size: int) -> int | None:
    """Return the next smaller page size to try; `None` if there is none."""
    return next((rows for rows in _LADDER if rows < size), None)


def size_after(error: FreightExchangeError, size: int) -> int | None:
    """Return the page size to try after an error; `None` if a smaller one does not help."""
    over_size = error.status in SIZE_REFUSALS or error.status == _FAILURE
    outage = is_transient(error) and not isinstance(error, RateLimitedError) and size > MODEST_PAGE
    return size_below(size) if over_size or outage else None


class PageSizes:
    """Page sizes learned per operation, shared by all listings of a client.

    They decide the size to request. Listings do not use them to detect the last page, since the service may cut pages
    shorter than before.
    """

    def __init__(self) -> None:
        self._longest: dict[str, int] = {}
        self._clamp: dict[str, int] = {}
        self._refused: dict[str, int] = {}

    @classmethod
    def restored(cls, operation: str, *, longest: int, clamp: int | None) -> PageSizes:
        """Return the sizes of one operation that an earlier run has learned."""
        sizes = cls()
        if longest:
            sizes.record_rows(operation, longest)
        if clamp is not None:
            sizes.record_clamp(operation, clamp)
        return sizes

    def longest(self, operation: str) -> int:
        """Return the largest number of rows on a page so far."""
        return self._longest.get(operation, 0)

    def size_to_request(self, operation: str, wanted: int, *, start: int = 0) -> int:
        """Return the page size to request for a pass from page `start`.

        Page 0 begins with the first row in any size. It is requested in the wanted size, which corrects a wrong clamp.
        The position of a later page depends on the size, so it is requested in the size that the service gives.
        """
        known = self._clamp if start else self._refused
        return min(wanted, known.get(operation, wanted))

    def record_rows(self, operation: str, rows: int) -> None:
        """Record the number of rows of a page."""
        self._longest[operation] = max(rows, self.longest(operation))
        if rows > self._clamp.get(operation, rows):
            del self._clamp[operation]

    def clamp(self, operation: str) -> int | None:
        """Return the maximum number of rows that the service puts in a page, or `None` if unknown."""
        return self._clamp.get(operation)

    def record_clamp(self, operation: str, rows: int) -> None:
        """Record that the service cuts pages to `rows`."""
        self._clamp[operation] = rows

    def record_refusal(self, operation: str, wanted: int) -> None:
        """Record that the service refuses pages of more than `wanted` rows."""
        self._clamp[operation] = self._refused[operation] = wanted

    def without_learned_sizes(self) -> PageSizes:
        """Return page sizes with the refusals only, to learn the others anew: the service may now cut pages shorter."""
        fresh = PageSizes()
        for operation, wanted in self._refused.items():
            fresh.record_refusal(operation, wanted)
        return fresh
