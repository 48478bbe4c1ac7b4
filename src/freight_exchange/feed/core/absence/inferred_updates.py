"""Update times that are inferred from an earlier scan, until the window of a scan proves them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from freight_exchange.feed.core.changes.observation import NARROW_MARGIN
from freight_exchange.store.protocol import TrackedRequest

__all__ = ["InferredUpdates"]

_MOST: Final = 10_000
"""Limit of remembered requests. Beyond it, an inferred time counts as proven."""


class InferredUpdates:
    """Requests with an inferred update time that is later than the time that a scan has proven.

    A deep scan that finds a new or changed request infers that it was updated since the scan before. The inference is
    wrong if the earlier scan missed it because of a failure of the service. Then narrow scans rightly lack the request,
    and only a scan that looks back as far as one that listed it can prove that it is gone.

    Args:
        last_scan: Number of the last scan of earlier runs. Their inferences are unknown to this run.
    """

    def __init__(self, last_scan: int = 0) -> None:
        self._last_scan = last_scan
        self._proofs: dict[int, tuple[float, float]] = {}

    def corrected(
        self, rows: Iterable[TrackedRequest], before: Mapping[int, TrackedRequest], start: float
    ) -> list[TrackedRequest]:
        """Return the rows of a page. A row that a scan has lacked since gets its proven time, not the inferred one.

        Args:
            rows: New state of the requests on the page.
            before: Earlier state of these requests, by index.
            start: Earliest time for a row. Later scans reach no further back, so they could never report it missing.
        """
        return [
            attrs.evolve(row, updated_after=min(row.updated_after, max(self._proofs[row.index][0], start)))
            if row.index in self._proofs and row.index in before and before[row.index].missed_scans
            else row
            for row in rows
        ]

    def record(self, row: TrackedRequest, before: TrackedRequest | None, proof: tuple[float, float]) -> None:
        """Record the update time that a page proves for a request on it, if the inferred time is later.

        Args:
            row: New state of the request.
            before: Earlier state of the request, if it was known.
            proof: Result of `Observation.proof_for`: two times. An inferred time up to the second one counts as proven.
                Within a clock lag the two times are closer.
        """
        is_inferred = before is None or before.updated_after < row.updated_after
        # For a date of an earlier run, or of a withdrawn request, it is not known whether it was inferred or proven.
        is_unknown = before is not None and (before.last_scan <= self._last_scan or not before.digest)
        known = self._proofs.pop(row.index, None)
        if known is None and not (is_inferred or is_unknown):
            return
        if known is None and before is not None and not is_unknown:
            known = before.updated_after, before.updated_after + NARROW_MARGIN
        latest = proof if known is None else max(known, proof)
        if latest[1] < row.updated_after and len(self._proofs) < _MOST:
            self._proofs[row.index] = latest

    def count_misses(self, rows: Iterable[TrackedRequest], start: float, most: float) -> list[TrackedRequest]:
        """Return the rows with one more missed scan, whose window begins at `start`.

        The count rises up to `most`, or up to one if only the inferred time is within the window.
        """
        return [_count_miss(row, most if self._since(row) >= start else 1) for row in rows]

    def earliest(self, rows: Iterable[TrackedRequest]) -> float:
        """Return the earliest proven time of the rows with a later inferred time; infinity if there are none.

        A scan must look back that far to prove that they are gone.
        """
        return min((self._since(row) for row in rows if self._since(row) < row.updated_after), default=math.inf)

    def forget(self, index: int) -> None:
        """Remove a withdrawn request."""
        self._proofs.pop(index, None)

    def prune(self, before: float) -> None:
        """Remove requests that were updated before this time, which the service no longer lists."""
        self._proofs = {index: proof for index, proof in self._proofs.items() if proof[0] >= before}

    def _since(self, row: TrackedRequest) -> float:
        return min(self._proofs.get(row.index, (math.inf,))[0], row.updated_after)


def _count_miss(row: TrackedRequest, most: float) -> TrackedRequest:
    return attrs.evolve(row, missed_scans=int(max(row.missed_scans, min(row.missed_scans + 1, most))))
