"""Poller of a feed: runs one scan after another at a steady pace, and continues after transient errors.

`core` decides about the time of a scan, its window and its pages. The journal commits the content of the pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import (
    READ_ERRORS,
    DeadlineExceededError,
    FreightExchangeError,
    LoginRejectedError,
    is_transient,
)
from freight_exchange.feed.core.planning.active_scan import ActiveScan
from freight_exchange.feed.core.planning.planner import Planner
from freight_exchange.feed.scanning.confirm_withdrawn import WithdrawalCheck
from freight_exchange.feed.scanning.fetch import PageFetcher
from freight_exchange.feed.scanning.progress import FeedProgress
from freight_exchange.feed.scanning.reports import ScanReports
from freight_exchange.feed.scanning.scan_queue import PAGES_BEFORE_ENTRY, ScanQueue
from freight_exchange.feed.scanning.scan_waits import wait_until_due
from freight_exchange.hooks import ScanInfo

if TYPE_CHECKING:
    from freight_exchange.feed.client_parts import ClientParts
    from freight_exchange.feed.core.planning.pacer import Pacer
    from freight_exchange.feed.scanning.journal import ScanJournal
    from freight_exchange.feed.scanning.source import Source
    from freight_exchange.options import Start

__all__ = ["Poller"]

_BETWEEN_PRUNINGS: Final = 3600.0
_BETWEEN_PARTS: Final = 1.0
_NARROW_DEADLINE: Final = 600.0
_PAGES_AT_A_TIME: Final = 3
_ATTEMPTS_OF_A_PAGE: Final = 12
_MAX_DEPARTURES: Final = 3
"""Number of readers in a row who leave before a page comes, which counts as a failure."""


class Poller:
    """Poller of one feed: runs a scan when `scan` is called and one is due.

    Args:
        source: The service.
        journal: Journal of the feed.
        client: Parts of the client.
        pacer: Pace of the feed.
        name: Name of the feed.
        start: Content of the first scan that is reported.

    Attributes:
        progress: Progress of the feed, for its status.
    """

    def __init__(
        self,
        source: Source,
        journal: ScanJournal,
        client: ClientParts,
        pacer: Pacer,
        *,
        name: str,
        start: Start,
    ) -> None:
        self._journal = journal
        self._pacer = pacer
        self._name = name
        self._instruments = client.instruments
        planner = Planner(start)
        self._queue = ScanQueue(journal, planner, pacer, client.clock)
        self._pages = PageFetcher(source, journal, client.clock, pacer, planner.expected_duration)
        self._withdrawals = WithdrawalCheck(source, journal, client.clock, pacer)
        self._reports = ScanReports(client.hooks, name=name, url=client.base_url)
        self.progress = FeedProgress(journal, client.clock, pacer, planner, self._queue, self._reports)
        self._is_entering = False
        self._pruned = -math.inf

    async def prime(self) -> None:
        """Run the first scan up to the point from which updates are reported, unless an earlier run has completed it.

        If the listing has one page, it is read completely. Otherwise only the first pages and the recent updates are
        read: the baseline of the narrow scans that run while `scan` reads the rest.

        Raises:
            FreightExchangeError: The service does not exist or refuses, so waiting does not help.
        """
        self._is_entering = True
        while not self._journal.state.is_entered:
            await self._proceed(await self._next_entry_scan())
        self._is_entering = False
        if self._journal.state.stage == "window":
            # Updates within `start` are reported, so they are read before the rest.
            self._queue.deep = None
        self._pacer.begin(anyio.current_time())

    async def scan(self) -> None:
        """Wait until a scan is due, and run it.

        A long deep scan runs in parts. It pauses after each page with events, to deliver them. It also pauses when a
        narrow scan is due, as that finds news sooner. Both kinds take turns.

        Raises:
            LoginRejectedError: The service rejected the email or password. Other errors are retried.
            StoreError: Changes cannot be committed. The next scan finds them again.
        """
        # Send what an earlier reader left unsent.
        await self._reports.send_changes()
        scan = self._queue.current()
        if scan is None and (due := self._withdrawals.due) < math.inf:
            # Look-ups remain if the last scan made events, after a pause, or if a reader left during them.
            await anyio.sleep_until(due)
            await self._look_up()
            return
        if scan is None:
            is_extra = self._queue.is_first_scan_waiting()
            if not is_extra:
                await wait_until_due(self._pacer)
            scan = self._queue.start()
            if scan is self._queue.deep and not is_extra:
                self._pacer.take_turn(scan.started)
        elif scan.scanner.attempts and self._queue.keeps_up():
            # The failed page takes the place of a narrow scan, so that failures add no requests.
            await wait_until_due(self._pacer)
            self._pacer.take_turn(anyio.current_time())
        await self._proceed(scan)

    # The scan

    async def _next_entry_scan(self) -> ActiveScan:
        queue = self._queue
        if queue.deep is None:
            await wait_until_due(self._pacer)
            return queue.start()
        if queue.deep.scanner.pages < PAGES_BEFORE_ENTRY:
            return queue.deep
        if queue.narrow is None:
            await wait_until_due(self._pacer)
            return queue.start_recent()
        return queue.narrow

    async def _proceed(self, scan: ActiveScan) -> None:
        """Start or continue a scan, until it ends or pauses."""
        with self._instruments.scan(ScanInfo(feed=self._name, tier=scan.tier.name, window=scan.window)):
            await self._run(scan)

    async def _run(self, scan: ActiveScan) -> None:
        if scan is self._queue.deep:
            self._queue.narrow_was_last = False
        is_covering, error = False, None
        try:
            ended = await self._read_in_time(scan)
            if ended is None:
                self.progress.resume()
                return
            is_covering, error = ended, scan.doubt
        except LoginRejectedError:
            self.progress.stop()
            raise
        except READ_ERRORS as failure:
            if self._continues_after(failure, scan):
                self.progress.record_stall(scan, failure)
                await self._reports.send_changes()
                return
            error = failure
        self._queue.end(scan)
        self._withdrawals.record_listed(scan)
        self.progress.show(scan)
        now = anyio.current_time()
        # The outcome is recorded first, so that a hook that raises or a reader who leaves cannot change the pace.
        if error is None:
            is_doubtful = self._withdrawals.record_scan(scan)
            self.progress.record_success(scan, now, is_covering=is_covering, is_doubtful=is_doubtful)
        else:
            self.progress.record_failure(scan, now, error)
        await self._reports.send_end(
            scan.scanner,
            tier=scan.tier.name,
            window=scan.window,
            events=scan.event_count,
            elapsed=now - scan.started,
            error=error,
            is_complete=is_covering,
        )
        await self._reports.send_changes()
        if error is None:
            if not scan.event_count:
                # Events are delivered before missing requests are looked up.
                await self._look_up()
            await self._prune()

    async def _read_in_time(self, scan: ActiveScan) -> bool | None:
        # A deep scan needs no deadline of its own: each page has one, and the number of passes is limited.
        deadline = _NARROW_DEADLINE if scan is self._queue.narrow and not scan.is_first else math.inf
        await anyio.sleep(max(0.0, max(scan.due, self._pacer.quiet_until) - anyio.current_time()))
        began, so_far = anyio.current_time(), (scan.scanner.pages, scan.recent)
        try:
            with anyio.move_on_after(deadline):
                return await self._read(scan)
        except anyio.get_cancelled_exc_class():
            came = scan.unwritten is not None or (scan.scanner.pages, scan.recent) != so_far
            self._record_departure(scan, began, page_came=came)
            raise
        finally:
            scan.seconds += anyio.current_time() - began
        raise DeadlineExceededError(f"a scan of {scan.window} s was not done within {deadline:g} s")

    async def _read(self, scan: ActiveScan) -> bool | None:
        """Read pages; return whether the scan covers everything up to its start, or `None` if it pauses.

        The pages are committed in each case. After a cancellation, a later call continues the scan.
        """
        events_before = scan.event_count
        while True:
            await self._pages.fetch_next(scan)
            self.progress.show(scan)
            self._reports.log_progress(scan)
            if scan.scanner.ended:
                return scan.is_covering
            if scan is self._queue.deep:
                await self._reports.send_progress(scan)
                if self._pauses(scan, events_before):
                    return None

    def _pauses(self, scan: ActiveScan, events_before: int) -> bool:
        """Return whether a deep scan pauses for events or a narrow scan."""
        if self._is_entering:
            return self._journal.state.is_entered or scan.scanner.pages >= PAGES_BEFORE_ENTRY
        if scan.scanner.pages <= _PAGES_AT_A_TIME:
            return False
        # After a long silence there is no pause: the window is only as wide as necessary, and slides on meanwhile.
        return self._queue.is_narrow_due() or (self._queue.keeps_up() and scan.event_count > events_before)

    async def _look_up(self) -> None:
        try:
            await self._withdrawals.look_up()
        except LoginRejectedError:
            self.progress.stop()
            raise

    async def _prune(self) -> None:
        time = self._journal.state.watermark.time
        if time - self._pruned >= _BETWEEN_PRUNINGS:
            # Pruning runs in parts, one after each scan, so that no reader waits long.
            is_more_due = await self._journal.prune(time)
            self._pruned = -math.inf if is_more_due else time

    async def keep_pruning(self, time: Callable[[], float]) -> None:
        """Prune the store of an idle feed until cancelled; `time` returns the time on the feed's clock."""
        while True:
            is_more_due = await self._journal.prune(time())
            await anyio.sleep(_BETWEEN_PARTS if is_more_due else _BETWEEN_PRUNINGS)

    def _record_departure(self, scan: ActiveScan, began: float, *, page_came: bool) -> None:
        """Record that a reader left. Several in a row who leave before a page comes count as a failure.

        Each of them would cost a request, and receive nothing.
        """
        now = anyio.current_time()
        if page_came:
            scan.departures = 0
            return
        scan.departures += 1
        if scan.departures < _MAX_DEPARTURES:
            return
        scan.due = self._pacer.record_failure(now)
        self.progress.record_error(
            DeadlineExceededError(
                f"the reader left {scan.departures} times in a row before a page of the scan had come, after "
                f"{now - began:.1f} s the last time: wait longer for events"
            )
        )

    def _continues_after(self, error: FreightExchangeError, scan: ActiveScan) -> bool:
        """Return whether a deep scan repeats its failed page later, so that the pages before it are not lost."""
        scanner = scan.scanner
        is_stuck = 0 < scanner.attempts < _ATTEMPTS_OF_A_PAGE
        return (scan is self._queue.deep or scan.is_first) and scanner.pages > 0 and is_stuck and is_transient(error)
