"""Listing that has no pages in the service document.

A service may page it nevertheless, and send the first rows only. A reply with a round number of rows may be such a
page, so one more page is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from freight_exchange.paging.core.page_sizes import WantedSize
from freight_exchange.paging.core.seen_rows import SeenRows
from freight_exchange.paging.core.single_pass import SinglePass

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.paging.core.page_sizes import PageSizes
    from freight_exchange.paging.page import RawPage

__all__ = ["UnpagedListing"]

T = TypeVar("T")

_ROUND: Final = 5
"""Divisor of the usual default page sizes: 10, 15, 20 and 25."""


class UnpagedListing(Generic[T]):
    """Strategy for a listing without pages; `number` and `size` describe the next page, size 0 the whole listing."""

    def __init__(self, operation: str, sizes: PageSizes, identity: Callable[[T], Hashable] | None) -> None:
        self._operation = operation
        self._sizes = sizes
        self._seen = SeenRows(identity)
        self._further: SinglePass[T] | None = None
        self.ended = False

    @property
    def number(self) -> int:
        return 0 if self._further is None else self._further.number

    @property
    def size(self) -> int:
        return 0 if self._further is None else self._further.size

    @property
    def fitting(self) -> int:
        """0: the listing has no pages."""
        return 0

    def numbers(self) -> Iterable[int]:
        """Return the numbers of the next pages, as far as they do not depend on the reply to the next one."""
        return (self.number,)

    def take(self, rows: RawPage[T]) -> tuple[T, ...]:
        """Process the requested page; return the records that it adds."""
        if self._further is not None:
            fresh = self._further.take(rows)
            self.ended = self._further.ended or not fresh
            return fresh
        keys = self._seen.keys(rows)
        fresh = self._seen.add(rows, keys)
        if keys and len(keys) % _ROUND == 0:
            self._further = SinglePass(WantedSize(self._operation, self._sizes, len(keys), 1), self._seen, start=1)
        else:
            self.ended = True
        return fresh

    def fail(self, error: FreightExchangeError) -> bool:
        """Treat a refused page as the end; return `False` if the caller has to raise the error."""
        if self._further is None or not self._further.fail(error):
            return False
        self.ended = self._further.ended
        return True
