"""Fetcher of a scan's pages. It repeats failed requests, and commits each page at once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import (
    READ_ERRORS,
    FeedProtocolError,
    FreightExchangeError,
    LoginRejectedError,
    is_transient,
    request_count,
    retry_delay,
)
from freight_exchange.feed.core.changes.observation import RecentUpdates
from freight_exchange.feed.core.planning.active_scan import RecentPages
from freight_exchange.feed.core.planning.scanner import Scanner
from freight_exchange.feed.core.watermark import window_for
from freight_exchange.feed.paging_legacy.end_signs import REFUSALS
from freight_exchange.feed.scanning.journal import UnclearError
from freight_exchange.feed.scanning.scan_waits import read_page
from freight_exchange.platform.clock import max_elapsed

if TYPE_CHECKING:
    from freight_exchange.feed.core.planning.active_scan import ActiveScan
    from freight_exchange.feed.core.planning.pacer import Pacer
    from freight_exchange.feed.scanning.journal import ScanJournal
    from freight_exchange.feed.scanning.source import Source
    from freight_exchange.models import RateRequest
    from freight_exchange.platform.clock import Clock, Reading
    from freight_exchange.wire import Rows

__all__ = ["PageFetcher"]

_logger = logging.getLogger("freight_exchange.feed")

_PAGES_OF_RECENT: Final = 20
_SIMULTANEOUS: Final = 10.0
"""Maximum seconds between two scans that count as simultaneous. Later, shippers may have updated requests."""


class PageFetcher:
    """Fetcher of the pages of scans.

    Args:
        source: The service.
        journal: Journal of the feed.
        clock: Clock of the machine.
        pacer: Pace of the feed.
        expected: Returns the seconds that a narrow scan is expected to take.
    """

    def __init__(
        self, source: Source, journal: ScanJournal, clock: Clock, pacer: Pacer, expected: Callable[[], float]
    ) -> None:
        self._source = source
        self._journal = journal
        self._clock = clock
        self._pacer = pacer
        self._expected = expected

    async def fetch_next(self, scan: ActiveScan) -> None:
        """Fetch the next page and commit it. After a cancellation, the next call continues with this page.

        Raises:
            FreightExchangeError: The page cannot be read, or proves nothing. Earlier pages are committed.
        """
        error_after_page = None
        # After a cancellation during a commit, the page is committed when the caller comes back.
        if scan.unwritten is None and not scan.scanner.ended:
            if scan.scanner.unexplained:
                await self._fetch_recent(scan)
            else:
                error_after_page = await self._fetch_page(scan)
        while scan.unwritten is not None:
            try:
                await self._journal.record_page(scan, *scan.unwritten)
            except UnclearError:
                try:
                    scan.recent_updates = await self._read_recent_updates(scan)
                except READ_ERRORS:
                    if (page := scan.unwritten[0]) is not None:
                        await self._journal.record_sighting(scan, page)
                    raise
        if error_after_page is not None:
            raise error_after_page

    async def _fetch_page(self, scan: ActiveScan) -> FreightExchangeError | None:
        """Fetch the next page into `scan.unwritten`; return an error that ends the scan after that page, if any."""
        scanner, sent = scan.scanner, self._clock.read()
        if not scanner.pages:
            scan.began = sent
        page = await self._page(scanner, scan.window)
        if page is not None or scanner.ended:
            scan.unwritten = (page, sent, self._clock.read())
        try:
            if page is not None:
                scanner.take(page)
        except FeedProtocolError as error:
            return error
        return None

    async def _fetch_recent(self, scan: ActiveScan) -> None:
        """Fetch a page of the updates since the scan began. The scan may miss these, but no earlier ones.

        After the last page the scanner receives their indexes. If that ends the scan, the end is committed like a page.
        """
        sent = self._clock.read()
        found = await self._read_recent_page(scan)
        scan.recent = scan.recent.add(found)
        if found and not scan.recent.is_exhausted:
            return
        scan.scanner.excuse(scan.recent.indexes)
        scan.recent = RecentPages()
        if scan.scanner.ended:
            scan.unwritten = (None, sent, self._clock.read())

    async def _read_recent_page(self, scan: ActiveScan) -> frozenset[int]:
        """Commit the next page of recent updates and return its indexes; return none if it cannot be read.

        The request follows another page at once, so a rate limit may refuse it. One refusal must not cost a pass
        through the whole listing, so it is repeated.
        """
        pages = scan.recent
        while (window := self._window_since(scan.began)) < scan.window:
            sent = self._clock.read()
            try:
                page = await self._source.page(pages.number, pages.size_to_request(scan.scanner.size), window)
            except LoginRejectedError:
                raise
            except READ_ERRORS as error:
                if pages.number and error.status in REFUSALS:
                    # There is no such page: the one before was the last.
                    self._pacer.record_reply()
                    break
                pause = self._pacer.repeat_delay(sent=request_count(error), retry_after=retry_delay(error))
                if not is_transient(error) or pause is None:
                    _logger.debug("recent updates cannot be read: %s; the scan continues without them", error)
                    self._pacer.record_failure(anyio.current_time(), retry_delay(error))
                    break
                await anyio.sleep(pause)
            else:
                self._pacer.record_reply()
                await self._journal.record_recent(scan, page, window, sent, self._clock.read())
                return frozenset(record.index for record in page.records)
        return frozenset()

    def _window_since(self, began: Reading) -> int:
        elapsed = max_elapsed(began, self._clock.read())
        return window_for(elapsed, self._journal.state.allowance, self._expected())

    async def _read_recent_updates(self, scan: ActiveScan) -> RecentUpdates:
        """Commit the updates since the watermark and return their indexes; raise the error if a page fails."""
        state, now = self._journal.state, self._clock.read()
        window = window_for(state.watermark.most(now), state.allowance, self._expected())
        scanner: Scanner[RateRequest] = Scanner(self._journal.sizes)
        listed = frozenset[int]()
        until = anyio.current_time() + _SIMULTANEOUS
        while not scanner.ended:
            if anyio.current_time() > until or window >= scan.window or scanner.pages == _PAGES_OF_RECENT:
                return RecentUpdates(listed, window, is_complete=False)
            sent = self._clock.read()
            page = await self._page(scanner, window)
            if page is not None:
                listed = listed.union(record.index for record in page.records)
                scanner.take(page)
                await self._journal.record_recent(scan, page, window, sent, self._clock.read())
        return RecentUpdates(listed, window, is_complete=not scanner.offset_ignored)

    async def _page(self, scanner: Scanner[RateRequest], window: int) -> Rows[RateRequest] | None:
        return await read_page(self._pacer, scanner, lambda: self._source.page(scanner.number, scanner.size, window))
