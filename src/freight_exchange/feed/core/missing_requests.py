"""Judgement of the requests that a scan lacks: missing, or no proof. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from freight_exchange.feed.core.absence import doubts
from freight_exchange.feed.core.absence.doubt_tracker import DoubtTracker
from freight_exchange.feed.core.absence.inferred_updates import InferredUpdates
from freight_exchange.feed.core.state_rules import recheck_window
from freight_exchange.feed.core.watermark import WIDEST

if TYPE_CHECKING:
    from freight_exchange.feed.core.planning.active_scan import ActiveScan
    from freight_exchange.feed.core.state import AbsenceDoubt, State
    from freight_exchange.platform.clock import Reading
    from freight_exchange.store.protocol import AbsenceQuery, TrackedRequest

__all__ = ["MissingRequests"]


class MissingRequests:
    """Requests that the scans of this run have lacked, and the rules by which they count as missing.

    Args:
        last_scan: Number of the last scan of earlier runs.

    Attributes:
        inferred: Requests whose last update is inferred.
    """

    def __init__(self, last_scan: int) -> None:
        self.inferred = InferredUpdates(last_scan)
        self._doubts = DoubtTracker()

    def next_doubt(
        self,
        state: State,
        scan: ActiveScan,
        absent: Sequence[TrackedRequest],
        received: Reading,
        query: AbsenceQuery | None,
    ) -> AbsenceDoubt | None:
        """Store the missing requests in `scan`, or the reason why none counts as missing; return the new doubt."""
        doubt, ended = state.absence_doubt, state.watermark.time_at(received)
        if query is not None:
            doubt = self._doubts.next_doubt(
                doubt,
                scan=scan.number,
                window=scan.window,
                at=ended,
                listed=scan.indexes,
                known=len(scan.known),
                absent=absent,
            )
        scan.doubt = None
        if scan.scanner.ended and doubt is not None and doubts.is_open(doubt, ended):
            scan.doubt = doubts.doubt_error(doubt, at=ended, absent=len(absent))
        # An empty listing may be a failure: it counts as one miss only, until a deeper scan lacks them too.
        most = 1 if scan.window < WIDEST and not scan.indexes else math.inf
        start = -math.inf if query is None or scan.window >= WIDEST else query.updated_after
        scan.missing = self.inferred.count_misses(absent if scan.doubt is None else (), start, most)
        scan.recheck_window = recheck_window(state, scan, self.inferred.earliest(scan.missing), received)
        return doubt

    def prune(self, before: float) -> None:
        """Remove requests that scans no longer reach, as they were updated before this time."""
        self.inferred.prune(before)
        self._doubts.prune(before)
