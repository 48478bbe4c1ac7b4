"""Running scans and their turns: at most one narrow and one deep scan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.feed.core.planning import schedule
from freight_exchange.feed.core.planning.active_scan import ActiveScan
from freight_exchange.feed.core.planning.planner import Planner, ScanPlan, is_recent
from freight_exchange.feed.core.planning.scanner import PAGE_SIZE, Scanner
from freight_exchange.feed.core.watermark import is_covered
from freight_exchange.feed.paging_legacy.page_sizes import PageSizes, size_after

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.feed.core.planning.pacer import Pacer
    from freight_exchange.feed.scanning.journal import ScanJournal
    from freight_exchange.platform.clock import Clock

__all__ = ["PAGES_BEFORE_ENTRY", "ScanQueue"]

PAGES_BEFORE_ENTRY: Final = 2
"""Pages of the first scan to read before a feed is entered. The second shows whether the first was the only one."""
_OUTAGE: Final = 600.0
"""Seconds without a complete scan after which page sizes are measured anew."""
_INTERVALS_OF_AN_OUTAGE: Final = 4
_MAX_ABSENCE: Final = 120.0
"""Maximum seconds of a reader's absence during a narrow scan that count as its duration."""


class ScanQueue:
    """At most one narrow and one deep scan, which take turns.

    Args:
        journal: Journal of the feed.
        planner: Plans scans.
        pacer: Pace of the feed.
        clock: Clock of the machine.

    Attributes:
        narrow, deep: The running scans. A deep one may pause; a narrow one waits until its reader comes back.
        narrow_was_last: Whether the last new scan was a narrow one.
    """

    def __init__(self, journal: ScanJournal, planner: Planner, pacer: Pacer, clock: Clock) -> None:
        self._journal = journal
        self._planner = planner
        self._pacer = pacer
        self._clock = clock
        self._deep_failed = False
        self._page_sizes = dict[str, int]()
        self.narrow: ActiveScan | None = None
        self.deep: ActiveScan | None = None
        self.narrow_was_last = False

    def keeps_up(self) -> bool:
        """Return whether narrow scans reach back to the watermark. Then no narrow scan may be late."""
        state = self._journal.state
        return state.is_entered and is_recent(state.watermark, self._clock.read())

    def is_narrow_due(self) -> bool:
        """Return whether it is time for a narrow scan."""
        return anyio.current_time() >= self._pacer.due and self.keeps_up()

    def current(self) -> ActiveScan | None:
        """Return the scan to continue: one whose reader left, or a deep one that paused and whose turn it is."""
        if self.narrow is not None:
            state = self._journal.state
            if is_covered(self.narrow.window, state.watermark.most(self._clock.read()), state.allowance):
                return self.narrow
            # The window no longer reaches back to the watermark: a new scan with a wider one replaces this one.
            since, seconds = anyio.current_time() - self.narrow.started, self.narrow.seconds
            self._planner.record_duration(schedule.NARROW, 2 * min(since, seconds + _MAX_ABSENCE))
            self.narrow = None
        if self.deep is None or not self._is_narrow_first(self.deep):
            return self.deep
        if self.deep.unwritten is not None:
            # Its uncommitted page is older than the narrow scan, and would overwrite newer states.
            self.deep = None
        return None

    def is_first_scan_waiting(self) -> bool:
        """Return whether a part of the first scan may run now, before the next regular scan is due."""
        if self._journal.state.stage not in ("window", "listing") or self.deep is not None or self._deep_failed:
            return False
        return self._pacer.quiet_until <= anyio.current_time() < self._pacer.due and self.keeps_up()

    def start(self) -> ActiveScan:
        """Start the scan that is due."""
        # After a deep scan has failed, a narrow one comes first while it reaches back to the watermark.
        deep = self.deep is None and not (self._deep_failed and self.keeps_up())
        state, now = self._journal.state, self._clock.read()
        plan = self._planner.next_plan(state, now, unconfirmed_since=self._journal.unconfirmed_since, deep=deep)
        scan = self._start(plan)
        if scan.tier is schedule.NARROW and not scan.is_first:
            self.narrow, self.narrow_was_last = scan, True
        else:
            self.deep = scan
        return scan

    def start_recent(self) -> ActiveScan:
        """Start the scan of recent updates that precedes the entry into a feed."""
        self.narrow = self._start(self._planner.recent_plan(self._journal.state, self._clock.read()))
        return self.narrow

    def end(self, scan: ActiveScan) -> None:
        """Remove a scan that has ended."""
        self.narrow = None if scan is self.narrow else self.narrow
        self.deep = None if scan is self.deep else self.deep

    def record_success(self, scan: ActiveScan) -> None:
        """Record that a scan has read its whole window."""
        self._deep_failed = False
        self._page_sizes.pop(scan.tier.name, None)

    def record_failure(self, scan: ActiveScan, error: FreightExchangeError) -> None:
        """Record that a scan has failed."""
        self._deep_failed = scan.is_first or scan.tier is not schedule.NARROW
        if not scan.scanner.pages and (smaller := size_after(error, scan.scanner.size)) is not None:
            # The service may fail at pages of that size: the next scan of this tier asks for fewer rows. After another
            # failure, or a success, the full size is requested again.
            self._page_sizes[scan.tier.name] = smaller
        else:
            self._page_sizes.pop(scan.tier.name, None)

    def _is_after_outage(self) -> bool:
        """Return whether the service may have changed its page size during an outage before this scan.

        Measuring it costs one page, less than the requests that the outage has saved. During an absence doubt it is
        already being measured.
        """
        state = self._journal.state
        silence = max(_OUTAGE, _INTERVALS_OF_AN_OUTAGE * self._pacer.interval)
        return state.absence_doubt is None and state.watermark.most(self._clock.read()) >= silence

    def _is_narrow_first(self, deep: ActiveScan) -> bool:
        now = anyio.current_time()
        if not self.keeps_up() or (self.narrow_was_last and deep.due <= now):
            return False
        return self._pacer.due <= max(now, deep.due)

    def _start(self, plan: ScanPlan) -> ActiveScan:
        state = self._journal.state
        # A scan that assumes a page size misses requests if the service has lowered it. So these scans assume none, nor
        # does any before the first scan is complete: requests missed by that would later count as older than the feed.
        assumes_no_size = plan.tier in schedule.MEASURING_TIERS or not state.is_primed or self._is_after_outage()
        return ActiveScan(
            number=state.scan + 1,
            tier=plan.tier,
            window=plan.window,
            own_window=plan.own_window,
            is_silent=plan.is_silent,
            is_first=plan.is_first,
            watermark=state.watermark,
            gap_until=state.gap_until,
            began=self._clock.read(),
            started=anyio.current_time(),
            scanner=Scanner(
                PageSizes() if assumes_no_size else self._journal.sizes,
                self._page_sizes.get(plan.tier.name, PAGE_SIZE),
            ),
        )
