"""Poller of a feed of offers: runs complete scans at a steady pace, and continues after transient errors."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import READ_ERRORS, FreightExchangeError, LoginRejectedError, is_transient, retry_delay
from freight_exchange.feed.core.planning.scanner import Scanner
from freight_exchange.feed.core.state_rules import to_utc
from freight_exchange.feed.paging_legacy.page_sizes import PageSizes
from freight_exchange.feed.scanning.reports import ScanReports
from freight_exchange.feed.scanning.scan_waits import quiet_for, read_page, wait_until_due
from freight_exchange.hooks import ScanInfo
from freight_exchange.models import Listing
from freight_exchange.offer_feed.core.scan import OfferScan
from freight_exchange.offer_feed.scanning.confirm_gone import GoneCheck
from freight_exchange.offer_feed.scanning.sweeper import Sweeper

if TYPE_CHECKING:
    from freight_exchange.feed.client_parts import ClientParts
    from freight_exchange.feed.core.planning.pacer import Pacer
    from freight_exchange.feed.status import Phase
    from freight_exchange.offer_feed.scanning.journal import OfferJournal
    from freight_exchange.offer_feed.scanning.source import OfferSource

__all__ = ["TIER", "OfferPoller"]

TIER: Final = "complete"
"""Tier of all scans of offers in the records of hooks."""

_BETWEEN_PRUNINGS: Final = 3600.0


class OfferPoller:
    """Poller of one feed of offers: runs a scan when `scan` is called and one is due.

    Args:
        source: The service.
        journal: Journal of the feed.
        client: Parts of the client.
        pacer: Pace of the feed.
        name: Name of the feed.

    Attributes:
        phase: State of the feed, as in its status.
        pages: Pages of the last scan.
        last_success: When the last complete scan began.
    """

    def __init__(
        self,
        source: OfferSource,
        journal: OfferJournal,
        client: ClientParts,
        pacer: Pacer,
        *,
        name: str,
    ) -> None:
        self._source = source
        self._journal = journal
        self._clock = client.clock
        self._pacer = pacer
        self._name = name
        self._instruments = client.instruments
        self._reports = ScanReports(client.hooks, name=name, url=client.base_url)
        self._sizes = PageSizes()
        self._sweeper = Sweeper(source)
        self._gone_check = GoneCheck(source, journal, client.clock, pacer)
        self._pruned = -math.inf
        self.phase: Phase = "catching-up" if journal.state.is_primed else "priming"
        self.pages = 0
        self.last_success: datetime | None = None

    @property
    def quiet_for(self) -> float:
        """Seconds until the next request may be sent; more than 0 only after a failure."""
        return quiet_for(self._pacer)

    def stop(self) -> None:
        """Record the end of the feed."""
        self.phase = "stopped"

    async def prime(self) -> None:
        """Run the first scan, unless an earlier run has completed it.

        Raises:
            FreightExchangeError: The service does not exist or refuses, so waiting does not help.
        """
        while not self._journal.state.is_primed:
            await self.scan()
        self._pacer.begin(anyio.current_time())

    async def scan(self) -> None:
        """Wait until a scan is due, and run it.

        Raises:
            LoginRejectedError: The service rejected the email or password. Other errors are retried.
            StoreError: Changes cannot be committed. The next scan finds them again.
        """
        await self._reports.send_changes()
        await wait_until_due(self._pacer)
        with self._instruments.scan(ScanInfo(feed=self._name, tier=TIER, window=0)):
            await self._run()

    async def _run(self) -> None:
        scan, started = OfferScan(Scanner[Listing](self._sizes), self._clock.read()), anyio.current_time()
        # Taken before the first request, so that a reader who leaves during the scan does not cause another one at
        # once.
        self._pacer.take_turn(started)
        error: FreightExchangeError | None = None
        try:
            await self._read(scan)
            error = await self._journal.end_scan(scan, self._clock.read())
        except LoginRejectedError:
            self.stop()
            raise
        except READ_ERRORS as failure:
            error = failure
        self.pages = scan.pages
        if error is None:
            self._record_success(scan, started)
        else:
            self._record_failure(error)
        await self._reports.send_end(
            scan.scanner,
            tier=TIER,
            window=0,
            events=scan.event_count,
            elapsed=anyio.current_time() - started,
            error=error,
            is_complete=error is None,
        )
        await self._reports.send_changes()
        if error is None:
            try:
                await self._gone_check.look_up(scan)
            except LoginRejectedError:
                self.stop()
                raise
            await self._prune()

    async def _read(self, scan: OfferScan) -> None:
        """Read to the end of the listing. Each page is committed at once, even if a later one fails."""
        scanner = scan.scanner
        while not scan.has_ended:
            page = await read_page(self._pacer, scanner, lambda: self._source.page(scanner.number, scanner.size))
            if page is None:
                continue
            await self._journal.record_page(scan, page, self._clock.read())
            scanner.take(page)
        scan.pages = scanner.pages
        if self._sweeper.is_due(scan):
            scan.pages += await self._sweeper.sweep(
                scan, lambda page: self._journal.record_page(scan, page, self._clock.read())
            )
        else:
            self._sweeper.record_listed(scan)

    # Outcomes

    def _record_success(self, scan: OfferScan, started: float) -> None:
        self.last_success = to_utc(scan.began)
        self.phase = "live"
        self._pacer.record_scan(started)
        self._reports.record_recovery()

    def _record_failure(self, error: FreightExchangeError) -> None:
        if not self._journal.state.is_primed and not is_transient(error):
            # A wrong address is raised, so that it does not look like an outage.
            self.stop()
            raise error
        self._pacer.record_failure(anyio.current_time(), retry_delay(error))
        self.phase = "backing-off"
        self._reports.record_error(error, self.quiet_for)

    # After a scan

    async def _prune(self) -> None:
        now = anyio.current_time()
        if now - self._pruned >= _BETWEEN_PRUNINGS:
            await self._journal.prune(self._clock.read())
            self._pruned = now
