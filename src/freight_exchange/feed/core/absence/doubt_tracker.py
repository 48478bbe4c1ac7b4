"""Doubts of one run about listings, and the requests that vanished during them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import attrs

from freight_exchange.feed.core.absence import doubts
from freight_exchange.feed.core.state import AbsenceDoubt

if TYPE_CHECKING:
    from freight_exchange.store.protocol import TrackedRequest

__all__ = ["DoubtTracker"]


@attrs.frozen
class _Vanished:
    """First time that a scan lacked a request since it was last listed.

    Attributes:
        last_scan: Number of the last scan that listed it.
        at: When the scan that lacked it ended, on the feed's clock.
    """

    last_scan: int
    at: float


@attrs.frozen
class _NewDoubt:
    """Doubt that began anew, because requests vanished together.

    Attributes:
        doubt: The new doubt, as it began.
        before: The doubt before it.
        vanished: Indexes of the requests.
    """

    doubt: AbsenceDoubt
    before: AbsenceDoubt
    vanished: frozenset[int]


class DoubtTracker:
    """Tracker of the doubts about listings.

    When a doubt has been open for `LASTING`, the requests that its scans lacked count as missing. If further requests
    vanish together, a new doubt begins, since the failure may have returned. A scan that lists most of them ends it.
    """

    def __init__(self) -> None:
        self._vanished: dict[int, _Vanished] = {}
        self._returned: dict[int, float] = {}
        self._new_doubts: list[_NewDoubt] = []

    def next_doubt(
        self,
        before: AbsenceDoubt | None,
        *,
        scan: int,
        window: int,
        at: float,
        listed: AbstractSet[int],
        known: int,
        absent: Sequence[TrackedRequest],
    ) -> AbsenceDoubt | None:
        """Return the doubt after a complete scan.

        Args:
            before: The doubt before the scan.
            scan: Number of the scan.
            window: Seconds that it looked back.
            at: When it ended, on the feed's clock.
            listed: Indexes of the requests that it listed.
            known: Number of those that were known before.
            absent: The known requests that it should have listed and did not.
        """
        before = self._without_new_doubts(before, listed)
        doubt = doubts.next_doubt(before, scan=scan, window=window, at=at, listed=known, absent=len(absent))
        if doubt is None:
            self._vanished.clear()
            self._new_doubts.clear()
            return None
        self._record_returned(listed, at)
        self._record_vanished(absent, at)
        if before is None:
            return doubt
        is_failure = not known or doubts.is_much(len(self._returned), known, window)
        groups = self._vanished_together(absent, before, is_failure=is_failure)
        large = [rows for rows in groups if doubts.is_much(len(rows), known, window)]
        vanished = frozenset(row.index for rows in large for row in rows)
        if not vanished:
            return doubt
        since = max(self._vanished[index].at for index in vanished)
        anew = AbsenceDoubt(since=since, last=at, window=window, scan=scan)
        if not doubts.is_open(anew, at):
            return doubt
        # After `LASTING` the requests of a new doubt count as missing, and no scan ends that doubt.
        recent = (new for new in self._new_doubts if doubts.is_open(new.doubt, at))
        self._new_doubts = [*recent, _NewDoubt(anew, doubt, vanished)]
        return anew

    def prune(self, before: float) -> None:
        """Remove requests that scans have lacked since before this time, which they no longer reach."""
        self._vanished = {index: vanished for index, vanished in self._vanished.items() if vanished.at >= before}

    def _without_new_doubts(self, doubt: AbsenceDoubt | None, listed: AbstractSet[int]) -> AbsenceDoubt | None:
        """Return the doubt before all new ones that end, as the scan lists most of their vanished requests."""
        while doubt is not None and self._new_doubts and self._new_doubts[-1].doubt.scan == doubt.scan:
            vanished = self._new_doubts[-1].vanished
            if 2 * len(vanished & listed) <= len(vanished):
                break
            doubt = self._new_doubts.pop().before
        return doubt

    def _record_returned(self, listed: AbstractSet[int], at: float) -> None:
        recent = {index: seen for index, seen in self._returned.items() if at - seen < doubts.LASTING}
        returned = self._vanished.keys() & listed
        self._returned = recent | dict.fromkeys(returned, at)
        for index in returned:
            del self._vanished[index]

    def _record_vanished(self, absent: Iterable[TrackedRequest], at: float) -> None:
        for row in absent:
            known = self._vanished.get(row.index)
            if known is None or known.last_scan != row.last_scan:
                self._vanished[row.index] = _Vanished(row.last_scan, at)

    def _vanished_together(
        self, absent: Iterable[TrackedRequest], doubt: AbsenceDoubt, *, is_failure: bool
    ) -> Iterable[Sequence[TrackedRequest]]:
        """Return the absent requests that vanished after the doubt began, in groups that vanished together.

        Those last listed by different scans may have vanished one after the other. They do not add up, unless this
        looks like a failure: the scan lists no known request, or many have returned within the last hour. Left out are
        requests that count as missing already, and those that the doubt's own scans have lacked all along.
        """
        groups = defaultdict[int, list["TrackedRequest"]](list)
        for row in absent:
            if self._vanished[row.index].at > doubt.since and not row.missed_scans and not _was_lacked(row, doubt):
                # The doubt's scans did not reach what was last listed before it: that is one group.
                groups[0 if is_failure else max(row.last_scan, doubt.scan)].append(row)
        return groups.values()


def _was_lacked(row: TrackedRequest, doubt: AbsenceDoubt) -> bool:
    """Return whether the scans of the doubt have lacked the request all along, as far as they reach."""
    return row.last_scan < doubt.scan and row.updated_after >= doubt.last - doubt.window
