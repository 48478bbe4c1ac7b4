"""Circumstances under which a page was read. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs

from freight_exchange.feed.core.clock_lags import ClockLag, comparable_time
from freight_exchange.feed.core.first_scan import BASELINE

__all__ = ["NARROW_MARGIN", "RECENT_UNKNOWN", "Observation", "RecentUpdates", "Schema"]


@attrs.frozen(kw_only=True)
class Schema:
    """Last known change of the service's schema.

    Attributes:
        fields: Fields that the last change added or removed.
        at: When that was detected, on the feed's clock.
        extras: Undocumented fields that any request has had since then.
    """

    fields: frozenset[str] = frozenset()
    at: float = 0.0
    extras: frozenset[str] = frozenset()


@attrs.frozen
class RecentUpdates:
    """Requests listed by a narrow scan that was made during a deep one, to find its recent updates.

    Attributes:
        listed: The indexes.
        window: Seconds that the narrow scan looked back.
        is_complete: Whether it lists all that was updated by the time of the deep scan's last page.
    """

    listed: frozenset[int]
    window: int
    is_complete: bool = True


NARROW_MARGIN: Final = 60.0
"""Seconds: a scan counts as narrow if its window reaches back no further beyond the watermark."""
RECENT_UNKNOWN: Final = RecentUpdates(frozenset(), 0, is_complete=False)
"""Recent updates are unknown, so any difference may be an update."""


@attrs.frozen(kw_only=True)
class Observation:
    """Circumstances under which a page was read. Times are on the feed's clock.

    Attributes:
        scan: The scan's number.
        sent: When the page was requested.
        window: Seconds that it looked back from then.
        is_silent: Whether requests seen for the first time make no events.
        version: The version of requests seen for the first time that make no event.
        baseline_is_new: Whether a request of the baseline counts as seen for the first time.
        changed_is_new: Whether one does that has changed since: the scan that would report it as new lists it no more.
        undecided_since: An undecided request counts as seen for the first time if a scan first saw it after this time.
        covered: End of the time whose updates earlier scans have seen. A difference found now was updated later, unless
            the service shows it late. A look-up confirms conclusions from this.
        unseen_is_recent: Whether requests seen for the first time were updated after `covered` too.
        between: Earliest and latest time at which the present state appeared: the watermark, if any, and the reply.
        schema: Last known change of the service's schema.
        recent_updates: Result of a narrow scan during this one; `None` if it was not made yet.
        unsteady: Returns the unsteady fields of an index: those that come and go from reply to reply.
        unsteady_extras: Undocumented fields that come and go for all requests.
        clock_lags: Times that the feed's clock may not have counted.
    """

    scan: int
    sent: float
    window: int
    is_silent: bool
    version: int = BASELINE
    baseline_is_new: bool = False
    changed_is_new: bool = False
    undecided_since: float = math.inf
    covered: float
    unseen_is_recent: bool = True
    between: tuple[datetime | None, datetime]
    schema: Schema
    recent_updates: RecentUpdates | None = RECENT_UNKNOWN
    unsteady: Callable[[int], frozenset[str]] = lambda index: frozenset()
    unsteady_extras: frozenset[str] = frozenset()
    clock_lags: tuple[ClockLag, ...] = ()

    @property
    def start(self) -> float:
        """Start of the window. Every request on the page was updated later."""
        return self.updated_within(self.window)

    def start_for(self, index: int, *, narrower: float = 0.0) -> float:
        """Return the start of the narrowest window that lists a request, shortened by `narrower` seconds.

        The request was last updated after the start of the window at its full width.
        """
        recent, start = self.recent_updates, self.updated_within(self.window - narrower)
        if recent is None or index not in recent.listed:
            return start
        return max(start, self.updated_within(recent.window - narrower))

    def proof_for(self, index: int) -> tuple[float, float]:
        """Return the start of the narrowest window that lists a request, and of a window `NARROW_MARGIN` narrower."""
        return self.start_for(index), self.start_for(index, narrower=NARROW_MARGIN)

    def updated_within(self, seconds: float) -> float:
        """Return the time, comparable over clock lags, that is so many seconds before the request of the page."""
        return comparable_time(self.sent - seconds, self.clock_lags)
