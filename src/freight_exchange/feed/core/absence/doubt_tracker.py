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
        lasted: The doubt before, which had lasted.
        vanished: Indexes of the requests.
    """

    doubt: AbsenceDoubt
    lasted: AbsenceDoubt
    vanished: frozenset[int]


class DoubtTracker:
    """Tracker of the doubts about listings.

    After a doubt has lasted, what its scans have lacked counts as missing. If others vanish together, the doubt begins
    anew: the failure may have come back. The new doubt ends once a scan lists most of them.
    """

    def __init__(self) -> None:
        self._vanished: dict[int, _Vanished] = {}
        self._new_doubt: _NewDoubt | None = None

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
        before = self._without_new_doubt(before, listed)
        doubt = doubts.next_doubt(before, scan=scan, window=window, at=at, listed=known, absent=len(absent))
        if doubt is None:
            self._vanished.clear()
            return None
        self._note_vanished(absent, at)
        if before is None or doubts.is_open(doubt, at):
            return doubt
        groups = (rows for rows in _vanished_together(absent, before) if doubts.is_much(len(rows), known, window))
        last_group = max(groups, key=self._vanished_at, default=None)
        if last_group is None:
            return doubt
        anew = AbsenceDoubt(since=self._vanished_at(last_group), last=at, window=window, scan=scan)
        if not doubts.is_open(anew, at):
            return doubt
        self._new_doubt = _NewDoubt(anew, doubt, frozenset(row.index for row in last_group))
        return anew

    def prune(self, before: float) -> None:
        """Remove requests that scans have lacked since before this time, which they no longer reach."""
        self._vanished = {index: vanished for index, vanished in self._vanished.items() if vanished.at >= before}

    def _without_new_doubt(self, doubt: AbsenceDoubt | None, listed: AbstractSet[int]) -> AbsenceDoubt | None:
        """Return the doubt before the new one, if a scan lists most of the requests that had vanished."""
        new = self._new_doubt
        if doubt is None or new is None or new.doubt.scan != doubt.scan:
            return doubt
        return new.lasted if 2 * len(new.vanished & listed) > len(new.vanished) else doubt

    def _note_vanished(self, absent: Iterable[TrackedRequest], at: float) -> None:
        for row in absent:
            known = self._vanished.get(row.index)
            if known is None or known.last_scan != row.last_scan:
                self._vanished[row.index] = _Vanished(row.last_scan, at)

    def _vanished_at(self, rows: Iterable[TrackedRequest]) -> float:
        return max(self._vanished[row.index].at for row in rows)


def _vanished_together(absent: Iterable[TrackedRequest], doubt: AbsenceDoubt) -> Iterable[Sequence[TrackedRequest]]:
    """Return the absent requests that may have vanished after the doubt began, in groups that vanished together.

    Requests last listed by different scans vanished one after the other, so they do not add up. Left out are requests
    that count as missing already, and those that the doubt's own scans lacked from the beginning.
    """
    reached = doubt.last - doubt.window
    groups = defaultdict[int, list["TrackedRequest"]](list)
    for row in absent:
        was_lacked = row.last_scan < doubt.scan and row.updated_after >= reached
        if not was_lacked and not row.missed_scans:
            groups[max(row.last_scan, doubt.scan)].append(row)
    return groups.values()
