"""Fetching of a scan's pages, with repetitions, each committed as it comes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import FeedProtocolError, FreightExchangeError, LoginRejectedError
from freight_exchange.errors.transient import READ_ERRORS, is_transient, request_count, retry_delay
from freight_exchange.feed.core.changes.observation import RecentUpdates
from freight_exchange.feed.core.planning.scanner import Scanner
from freight_exchange.feed.core.watermark import window_for
from freight_exchange.feed.scanning.journal import UnclearError
from freight_exchange.feed.scanning.paced import goes_on, read_page
from freight_exchange.paging.end_signs import REFUSALS
from freight_exchange.platform.clock import max_elapsed

if TYPE_CHECKING:
    from freight_exchange.feed.core.planning.active_scan import ActiveScan
    from freight_exchange.feed.core.planning.pacer import Pacer
    from freight_exchange.feed.scanning.journal import Journal
    from freight_exchange.feed.scanning.source import Source
    from freight_exchange.models import RateRequest
    from freight_exchange.platform.clock import Clock, Reading
    from freight_exchange.wire import Rows

__all__ = ["PageFetcher"]

_logger = logging.getLogger("freight_exchange.feed")

_PAGES_OF_RECENT: Final = 20
_ONE_MOMENT: Final = 10.0
"""Seconds within which two scans count as simultaneous; between later ones shippers may update requests."""


class PageFetcher:
    """Fetcher of the pages that scans wait for.

    Args:
        source: The service.
        journal: Journal of the feed.
        clock: Clock of the machine.
        pacer: Pace of the feed.
        expected: Returns the seconds that a narrow scan is expected to take.
    """

    def __init__(
        self, source: Source, journal: Journal, clock: Clock, pacer: Pacer, expected: Callable[[], float]
    ) -> None:
        self._source = source
        self._journal = journal
        self._clock = clock
        self._pacer = pacer
        self._expected = expected

    async def take(self, scan: ActiveScan) -> None:
        """Fetch the next page, and commit it. After a cancellation, the next call continues with it.

        Raises:
            FreightExchangeError: The page does not come, or proves nothing; earlier pages are committed.
        """
        error_after_page = None
        # A caller that was cancelled during a commit comes back to a page that is committed.
        if scan.unwritten is None and not scan.scanner.ended:
            if scan.scanner.unexplained:
                await self._next_recent(scan)
            else:
                error_after_page = await self._next_page(scan)
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

    async def _next_page(self, scan: ActiveScan) -> FreightExchangeError | None:
        """Fetch the next page, which is then unwritten; return an error that ends the scan once it is written."""
        scanner, sent = scan.scanner, self._clock.read()
        if not scanner.pages:
            scan.began = sent
        page = await self._page(scanner, scan.window)
        if page is not None or scanner.ended:
            scan.unwritten = (page, sent, self._clock.read())
        if page is not None and page.failure is not None:
            # Its rows count; the page does not, and is requested again.
            return None if await goes_on(self._pacer, scanner, page.failure) else page.failure
        try:
            if page is not None:
                scanner.take(page)
        except FeedProtocolError as error:
            return error
        return None

    async def _next_recent(self, scan: ActiveScan) -> None:
        """Fetch a page of the updates since the scan began: only requests from before it must not be missed.

        Once a page adds nothing, the scanner receives them. If that ends the scan, its end must be committed.
        """
        sent, (recent, number) = self._clock.read(), scan.recent
        found = await self._recent(scan, number)
        if not found <= recent:
            scan.recent = (recent | found, number + 1)
            return
        scan.recent = (frozenset(), 0)
        scan.scanner.excuse(recent)
        if scan.scanner.ended:
            scan.unwritten = (None, sent, self._clock.read())

    async def _recent(self, scan: ActiveScan, number: int) -> frozenset[int]:
        """Return what a page of recent updates lists; nothing if that fails.

        It is requested right after another page, which a rate limit may refuse: one refusal must not cost a round
        through the whole listing.
        """
        while (window := self._window_since(scan.began)) < scan.window:
            sent = self._clock.read()
            try:
                page = await self._source.page(number, scan.scanner.size, window)
                if page.failure is not None:
                    raise page.failure
            except LoginRejectedError:
                raise
            except READ_ERRORS as error:
                if number and error.status in REFUSALS:
                    # There is no such page: the one before it was the last one.
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
        """Return what was updated since the watermark, or raise the error."""
        state, now = self._journal.state, self._clock.read()
        window = window_for(state.watermark.most(now), state.allowance, self._expected())
        scanner: Scanner[RateRequest] = Scanner(self._journal.sizes)
        listed = frozenset[int]()
        until = anyio.current_time() + _ONE_MOMENT
        while not scanner.ended:
            if anyio.current_time() > until or window >= scan.window or scanner.pages == _PAGES_OF_RECENT:
                return RecentUpdates(listed, window, is_complete=False)
            sent = self._clock.read()
            page = await self._page(scanner, window)
            if page is not None and page.failure is not None:
                if not await goes_on(self._pacer, scanner, page.failure):
                    raise page.failure
            elif page is not None:
                listed = listed.union(record.index for record in page.records)
                scanner.take(page)
                await self._journal.record_recent(scan, page, window, sent, self._clock.read())
        return RecentUpdates(listed, window, is_complete=not scanner.offset_ignored)

    async def _page(self, scanner: Scanner[RateRequest], window: int) -> Rows[RateRequest] | None:
        return await read_page(self._pacer, scanner, lambda: self._source.page(scanner.number, scanner.size, window))
