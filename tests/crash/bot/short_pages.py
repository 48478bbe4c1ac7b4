"""Listings that end at a page shorter than the longest one so far, as those of many clients do.

A service that lowers its page size, or that hides rows after it has cut a page, hides bids from such a client.
"""

from __future__ import annotations

from typing import Any, ClassVar

from freight_exchange.paging.core.page_sizes import WantedSize
from freight_exchange.paging.core.seen_rows import SeenRows
from freight_exchange.paging.core.single_pass import SinglePass
from freight_exchange.paging.page import RawPage
from freight_exchange.paging.paginator import Paginator

__all__ = ["trust_short_pages"]


class _ShortPageEnds(SinglePass[Any]):
    longest_ever: ClassVar[int] = 0

    def take(self, rows: RawPage[Any]) -> tuple[Any, ...]:
        fresh = super().take(rows)
        length = len(rows.records) + len(rows.broken)
        self.ended = self.ended or length < _ShortPageEnds.longest_ever
        _ShortPageEnds.longest_ever = max(length, _ShortPageEnds.longest_ever)
        return fresh


def trust_short_pages() -> None:
    """Have every listing of this process, sweeps included, end at a short page."""

    def walk(self: Paginator[Any], *, start: int, sweep: bool) -> Any:
        assert self._page_size is not None
        wanted = WantedSize(self._operation, self._sizes, self._page_size, start)
        return _ShortPageEnds(wanted, SeenRows(self._identity), start=start)

    Paginator._walk = walk  # type: ignore[method-assign]  # for the whole process, which is killed
