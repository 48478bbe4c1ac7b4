"""Sweeps of a feed of offers: passes that continue after pages whose rows are all hidden from the user.

An ordinary scan ends at the first page that is shorter than others. A service that cuts its pages first and hides rows
afterwards has short and empty pages in the middle. Only a sweep reads the rows after them.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import READ_ERRORS, FeedProtocolError
from freight_exchange.feed.core.planning.scanner import PAGE_SIZE
from freight_exchange.paging import keys_of
from freight_exchange.walk import Pass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from freight_exchange.models import Listing
    from freight_exchange.offer_feed.core.scan import OfferScan
    from freight_exchange.offer_feed.scanning.source import OfferSource
    from freight_exchange.wire import Rows

__all__ = ["Sweeper"]

_BETWEEN_SWEEPS: Final = 3600.0
_PAST_END: Final = 100
"""Rows to look past the end, since the service may hide as many rows in a row."""


class Sweeper:
    """Sweeper of one feed: decides when a scan needs a sweep, and runs it.

    Args:
        source: The service.
    """

    def __init__(self, source: OfferSource) -> None:
        self._source = source
        self._listed: frozenset[int] = frozenset()
        self._swept_at = -math.inf
        self._hides_rows = False

    def is_due(self, scan: OfferScan) -> bool:
        """Return whether a scan, at its end, needs a sweep because it may lack listed rows.

        This is the case for the first scan of a run, for one scan an hour, for a scan that lacks requests of an earlier
        one, and for a service that is known to hide rows.
        """
        if scan.scanner.offset_ignored:
            return False
        is_overdue = anyio.current_time() - self._swept_at >= _BETWEEN_SWEEPS
        return is_overdue or self._hides_rows or not self._listed <= scan.requests

    def record_listed(self, scan: OfferScan) -> None:
        """Record the requests of a scan that needed no sweep, or had one."""
        self._listed = frozenset(scan.requests)

    async def sweep(self, scan: OfferScan, record: Callable[[Rows[Listing]], Awaitable[None]]) -> int:
        """Read the whole listing; return the number of its pages.

        After a failed sweep the scan proves no absence, and the sweep is due again.

        Args:
            scan: The scan, at its end.
            record: Commits a page.
        """
        sweep = Pass(PAGE_SIZE, past_end=_PAST_END)
        lengths: dict[int, dict[int, int]] = {}
        pages = 0
        try:
            while not sweep.ended:
                number, size = sweep.number, sweep.size
                try:
                    page = await self._source.page(number, size)
                except READ_ERRORS as error:
                    if sweep.refuse(error.status) is None:
                        raise
                    continue
                await record(page)
                pages += 1
                lengths.setdefault(size, {})[number] = len(page.records) + len(page.broken)
                sweep.take(keys_of(page, attrgetter("index")))
                if sweep.broken:
                    raise FeedProtocolError("the service refuses a page in the middle of its listing")
        except READ_ERRORS:
            scan.is_uncertain = True
            return pages
        self._hides_rows = self._hides_rows or any(map(_has_gap, lengths.values()))
        self._swept_at = anyio.current_time()
        self.record_listed(scan)
        return pages


def _has_gap(lengths: dict[int, int]) -> bool:
    """Return whether rows follow a page that was shorter than another page of the same size."""
    last = max((number for number, rows in lengths.items() if rows), default=0)
    return any(rows < max(lengths.values()) for number, rows in lengths.items() if number < last)
