"""Progress of a feed for its status, and the effects of each scan's outcome on pace and plans."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import is_transient, retry_delay
from freight_exchange.feed.core.planning import schedule
from freight_exchange.feed.core.planning.active_scan import ActiveScan
from freight_exchange.feed.core.state_rules import to_utc
from freight_exchange.feed.core.watermark import WIDEST
from freight_exchange.feed.scanning.scan_waits import quiet_for
from freight_exchange.feed.status import Phase

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.feed.core.planning.pacer import Pacer
    from freight_exchange.feed.core.planning.planner import Planner
    from freight_exchange.feed.scanning.journal import ScanJournal
    from freight_exchange.feed.scanning.reports import ScanReports
    from freight_exchange.feed.scanning.scan_queue import ScanQueue
    from freight_exchange.platform.clock import Clock

__all__ = ["FeedProgress"]


class FeedProgress:
    """Progress of one feed.

    Args:
        journal: Journal of the feed.
        clock: Clock of the machine.
        pacer, planner, queue: Pace, plans and turns of scans; outcomes adjust them.
        reports: Reports to hooks and log.

    Attributes:
        phase: State of the feed, as in its status.
        window, pages: Window and pages of the running or last scan; while priming, of the first scan.
        last_success: When the last complete scan began.
        offset_ignored: Whether the last complete scan of several pages received the first page for each offset.
    """

    def __init__(
        self, journal: ScanJournal, clock: Clock, pacer: Pacer, planner: Planner, queue: ScanQueue, reports: ScanReports
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._pacer = pacer
        self._planner = planner
        self._queue = queue
        self._reports = reports
        self.phase: Phase = "priming"
        self.window = 0
        self.pages = 0
        self.offset_ignored = False
        self.last_success: datetime | None = None
        if journal.state.is_primed:
            self.phase = "catching-up"
            self.last_success = to_utc(journal.state.watermark.reading)

    @property
    def quiet_for(self) -> float:
        """Seconds until the next request may be sent, during failures; else 0."""
        return quiet_for(self._pacer)

    def show(self, scan: ActiveScan) -> None:
        """Show the window and the pages of a scan in the status."""
        # While priming, the status shows the first scan only.
        if scan.is_first or self.phase != "priming":
            self.window, self.pages = scan.window, scan.scanner.pages

    def resume(self) -> None:
        """Record that a scan pauses after successful pages, so failures are over."""
        if self.phase == "backing-off":
            self.phase = self._priming_or("catching-up")

    def stop(self) -> None:
        """Record the end of the feed."""
        self.phase = "stopped"

    def record_stall(self, scan: ActiveScan, error: FreightExchangeError) -> None:
        """Record that a page failed, and that its scan will continue there."""
        scan.due = self._pacer.record_failure(anyio.current_time(), retry_delay(error))
        self._planner.record_stall(scan.tier)
        self.record_error(error, is_backing_off=not self._queue.keeps_up())

    def record_success(self, scan: ActiveScan, ended: float, *, is_covering: bool, is_doubtful: bool) -> None:
        """Record that a scan has read its whole window.

        Args:
            scan: The scan.
            ended: Time of its end on the loop's clock.
            is_covering: Whether it covers everything up to its start.
            is_doubtful: Whether it lacked requests that need a second scan to confirm that.
        """
        self._queue.record_success(scan)
        # An empty listing does not prove that a request is gone: a scan with a wider window must lack it too.
        own = scan.own_window if scan.indexes else max(scan.own_window, schedule.tier_above(scan.window).window)
        own = max(own, math.ceil(min(WIDEST, max(0.0, scan.recheck_window))))
        self._planner.record_success(scan.tier, scan.window, own, scan.began, is_doubtful=is_doubtful)
        if scan.scanner.offset_ignored and not self.offset_ignored:
            self._reports.log_ignored_offset()
        if scan.scanner.pages > 1:
            self.offset_ignored = scan.scanner.offset_ignored
        if is_covering:
            self._record_coverage(scan, ended)
        else:
            # The window slid past the watermark during the scan: repeat it with a wider window.
            self._planner.record_duration(scan.tier, 2 * (ended - scan.started))
            self.phase = "catching-up"
            self._pacer.rescan_soon(ended)
        if not self._planner.failing:
            self._reports.record_recovery()

    def _record_coverage(self, scan: ActiveScan, ended: float) -> None:
        began = to_utc(scan.began)
        if scan.tier is schedule.NARROW:
            self._planner.record_duration(scan.tier, ended - scan.started)
        # Narrow scans may have overtaken a deep one.
        self.last_success = began if self.last_success is None else max(began, self.last_success)
        if self._journal.state.is_primed and not self._planner.is_fresh:
            self._journal.record_unconfirmed_late(scan, self._clock.read())
        elif scan.window >= WIDEST:
            self._planner.is_fresh = False
        self.phase = self._priming_or("live")
        self._pacer.record_scan(scan.started)

    def record_failure(self, scan: ActiveScan, ended: float, error: FreightExchangeError) -> None:
        """Record that a scan failed at `ended` on the loop's clock; raise the error if waiting does not help."""
        state = self._journal.state
        if not state.is_entered and not is_transient(error):
            # A wrong address is raised, so that it does not look like an outage.
            self.phase = "stopped"
            raise error
        self._queue.record_failure(scan, error)
        self._planner.record_failure(scan.tier, state.watermark.time_at(self._clock.read()))
        self._pacer.record_failure(ended, retry_delay(error))
        self.record_error(error)

    def record_error(self, error: FreightExchangeError, *, is_backing_off: bool = True) -> None:
        """Record a failure; the pacer knows its pause already."""
        if is_backing_off and self._journal.state.is_entered:
            self.phase = "backing-off"
        self._reports.record_error(error, self.quiet_for)

    def _priming_or(self, phase: Phase) -> Phase:
        return phase if self._journal.state.stage in ("settling", "primed") else "priming"
