"""State of a running scan. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from freight_exchange.feed.core.changes.observation import RecentUpdates
from freight_exchange.feed.core.planning.scanner import OPERATION, Scanner
from freight_exchange.feed.core.planning.schedule import Tier
from freight_exchange.feed.core.watermark import Watermark
from freight_exchange.platform.clock import Reading
from freight_exchange.store.protocol import TrackedRequest

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.feed.core.state import AbsenceDoubt, State
    from freight_exchange.feed.paging_legacy.page_sizes import PageSizes
    from freight_exchange.models import RateRequest
    from freight_exchange.wire import Rows

__all__ = ["ActiveScan", "RecentPages"]


@attrs.frozen
class RecentPages:
    """Pages read so far of the requests updated since a scan began.

    Attributes:
        indexes: The indexes on them.
        number: Number of the next page.
        productive: Number of pages that had an index which none before them had.
        rows: Number of indexes on the first page.
        last: The indexes on the last page.
        repeats: How often in a row the last page was the same.
    """

    indexes: frozenset[int] = frozenset()
    number: int = 0
    productive: int = 0
    rows: int = 0
    last: frozenset[int] = frozenset()
    repeats: int = 0

    def add(self, found: frozenset[int]) -> RecentPages:
        """Return the pages with another one."""
        return RecentPages(
            self.indexes | found,
            self.number + 1,
            self.productive + (not found <= self.indexes),
            self.rows or len(found),
            found,
            self.repeats + 1 if found == self.last else 0,
        )

    @property
    def is_exhausted(self) -> bool:
        """`True` if at least as many pages added nothing as added something, or one came three times in a row.

        If updates came between two pages, others may follow after as many known ones.
        """
        return self.number >= 2 * self.productive or self.repeats >= 2

    def size_to_request(self, wanted: int) -> int:
        """Return the size of the next page: the first page shows how many rows the service gives."""
        return min(wanted, self.rows) if self.rows else wanted


@attrs.define(eq=False)
class ActiveScan:
    """Running scan with its results so far.

    Attributes:
        number: Number of the scan, one more than the last one's.
        tier: Its tier.
        window: Seconds that it looks back.
        own_window: The window that it would have without requests to check that earlier scans lacked.
        is_silent: Whether requests that it sees for the first time make no events.
        is_first: Whether it belongs to the first scan.
        watermark: The watermark at its start.
        gap_until: `State.gap_until` at its start.
        began: When its first page was requested.
        started: Time of its first attempt on the loop's clock.
        scanner: Its place in the listing.
        event_count: Number of events so far.
        changed: Indexes of requests that are new or changed.
        indexes: Indexes of requests that it saw.
        known: Those of `indexes` that were known before it began.
        missing: Requests that it should have seen and did not.
        recheck_window: Seconds before its start that a second scan must look back, to prove that some of `missing` are
            gone.
        doubt: Reason why the scan proves no absence, if it lacks too many requests.
        unwritten: The last page with the times of its request and its reply, until it is committed.
        seconds: Seconds spent on its pages, with those that a reader did not wait for.
        is_covering: Whether it covers everything up to its start; valid once its last page is committed.
        recent_updates: Result of the narrow scan made at its last page, if any.
        due: Time on the loop's clock at which to continue after a failed page.
        departures: Number of readers in a row who left before a page came.
        recent: Pages read so far of the requests updated since it began.
    """

    number: int
    tier: Tier
    window: int
    own_window: int
    is_silent: bool
    is_first: bool
    watermark: Watermark
    gap_until: float | None
    began: Reading
    started: float
    scanner: Scanner[RateRequest]
    event_count: int = 0
    changed: set[int] = attrs.field(factory=set)
    indexes: set[int] = attrs.field(factory=set)
    known: set[int] = attrs.field(factory=set)
    missing: Sequence[TrackedRequest] = ()
    recheck_window: float = -math.inf
    doubt: FreightExchangeError | None = None
    unwritten: tuple[Rows[RateRequest] | None, Reading, Reading] | None = None
    seconds: float = 0.0
    is_covering: bool = False
    recent_updates: RecentUpdates | None = None
    due: float = -math.inf
    departures: int = 0
    recent: RecentPages = RecentPages()

    def recorded_in(self, state: State, sizes: PageSizes) -> State:
        """Return the state with the number of this scan and the known page sizes of the service."""
        number = max(state.scan, self.number)
        return attrs.evolve(state, scan=number, longest=sizes.longest(OPERATION), clamp=sizes.clamp(OPERATION))

    def lacks_more(self, doubt: AbsenceDoubt | None) -> bool:
        """Return whether requests are missing for the first time. They may be on a page after the supposed last one.

        Args:
            doubt: The doubt before this scan, if any.
        """
        return any(row.missed_scans == 1 for row in self.missing) or (self.doubt is not None and doubt is None)
