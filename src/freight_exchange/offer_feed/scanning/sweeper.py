"""Sweeps of a feed of offers: readings that look past pages whose rows are all hidden from the user.

An ordinary scan ends at the first page that is shorter than others, which is one request a page. A service that hides
rows after it has cut its pages has short and empty pages in the middle: what lies behind them takes a sweep.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors.transient import READ_ERRORS
from freight_exchange.feed.core.planning.scanner import OPERATION, PAGE_SIZE
from freight_exchange.models import Listing
from freight_exchange.paging import PageSizes
from freight_exchange.paging.page_sizes import WantedSize
from freight_exchange.paging.reread import LOOK_FURTHER
from freight_exchange.paging.seen_rows import SeenRows
from freight_exchange.paging.single_pass import SinglePass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from freight_exchange.offer_feed.core.scan import OfferScan
    from freight_exchange.offer_feed.scanning.source import OfferSource
    from freight_exchange.wire import Rows

__all__ = ["Sweeper"]

_BETWEEN_SWEEPS: Final = 3600.0


class Sweeper:
    """Sweeps of one feed: when a scan needs one, and the sweep itself.

    Args:
        source: The service.
    """

    def __init__(self, source: OfferSource) -> None:
        self._source = source
        self._sizes = PageSizes()
        self._listed: frozenset[int] = frozenset()
        self._swept_at = -math.inf
        self._hides_rows = False

    def is_due(self, scan: OfferScan) -> bool:
        """Return whether a scan that has reached its end may lack rows that are listed.

        It may in the first scan of a run, once an hour, if it lacks requests that were listed before, and where the
        service has been seen to hide rows.
        """
        if scan.scanner.offset_ignored:
            return False
        is_overdue = anyio.current_time() - self._swept_at >= _BETWEEN_SWEEPS
        return is_overdue or self._hides_rows or not self._listed <= scan.requests

    def note_listed(self, scan: OfferScan) -> None:
        """Record the requests of a scan that needs no sweep, or has made one."""
        self._listed = frozenset(scan.requests)

    async def sweep(self, scan: OfferScan, record: Callable[[Rows[Listing]], Awaitable[None]]) -> int:
        """Read the whole listing; return the number of its pages.

        A sweep that fails takes nothing from the scan but its proof of absence, and is due again.

        Args:
            scan: The scan, at its end.
            record: Commits a page.
        """
        wanted = WantedSize(OPERATION, self._sizes, PAGE_SIZE, 0)
        sweep = SinglePass[Listing](wanted, SeenRows(attrgetter("index")), start=0, further=LOOK_FURTHER, curious=True)
        lengths: dict[int, dict[int, int]] = {}
        pages = 0
        try:
            while not sweep.ended:
                number, size = sweep.number, sweep.size
                try:
                    page = await self._source.page(number, size)
                    if page.failure is not None:
                        raise page.failure
                except READ_ERRORS as error:
                    if not sweep.fail(error):
                        raise
                    continue
                await record(page)
                pages += 1
                lengths.setdefault(size, {})[number] = len(page.records) + len(page.broken)
                sweep.take(page)
        except READ_ERRORS:
            scan.is_uncertain = True
            return pages
        self._hides_rows = self._hides_rows or any(map(_has_gap, lengths.values()))
        self._swept_at = anyio.current_time()
        self.note_listed(scan)
        return pages


def _has_gap(lengths: dict[int, int]) -> bool:
    """Return whether rows follow a page that was shorter than another one of its size."""
    last = max((number for number, rows in lengths.items() if rows), default=0)
    return any(rows < max(lengths.values()) for number, rows in lengths.items() if number < last)
