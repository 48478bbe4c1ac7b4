"""Updates that are inferred from what scans lacked, until a window proves them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from freight_exchange.feed.core.changes.observation import NARROW
from freight_exchange.store.protocol import TrackedRequest

__all__ = ["InferredUpdates"]

_MOST: Final = 10_000
"""Requests that are remembered; of others the inference counts as proof."""


class InferredUpdates:
    """Memory of requests whose last update is inferred to be later than windows prove.

    A request that a deep scan sees for the first time, or changed, was updated since the scan before it, unless that
    one should have listed it and did not. In that case narrow scans rightly lack it: only a scan that looks back as far
    as one that listed it can prove that it is gone.

    Args:
        last_scan: Number of the last scan of earlier runs, whose inferences are not known any more.
    """

    def __init__(self, last_scan: int = 0) -> None:
        self._last_scan = last_scan
        self._proofs: dict[int, tuple[float, float]] = {}

    def corrected(
        self, rows: Iterable[TrackedRequest], before: Mapping[int, TrackedRequest], begin: float
    ) -> list[TrackedRequest]:
        """Return rows that a page lists, without inferences that a scan which lacked them has refuted.

        Args:
            rows: What is tracked from now on.
            before: What was tracked, by index.
            begin: A time within the reach of scans to come: what was updated earlier would never be missing.
        """
        return [
            attrs.evolve(row, updated_after=min(row.updated_after, max(self._proofs[row.index][0], begin)))
            if row.index in self._proofs and row.index in before and before[row.index].missed_scans
            else row
            for row in rows
        ]

    def record(self, row: TrackedRequest, before: TrackedRequest | None, proof: tuple[float, float]) -> None:
        """Note what a page proves that lists a request, and what is inferred from it.

        Args:
            row: What is tracked from now on.
            before: What was tracked, if anything.
            proof: Begin of the window that proves it, and of one that is `NARROW` narrower. What is inferred to be no
                later than that is proven well enough. Times within a lag of the clock are closer to each other.
        """
        is_inferred = before is None or before.updated_after < row.updated_after
        # What a date of an earlier run rests on is not known any more, nor that of a request that was withdrawn.
        is_unknown = before is not None and (before.last_scan <= self._last_scan or not before.digest)
        known = self._proofs.pop(row.index, None)
        if known is None and not (is_inferred or is_unknown):
            return
        if known is None and before is not None and not is_unknown:
            known = before.updated_after, before.updated_after + NARROW
        latest = proof if known is None else max(known, proof)
        if latest[1] < row.updated_after and len(self._proofs) < _MOST:
            self._proofs[row.index] = latest

    def count_misses(self, rows: Iterable[TrackedRequest], begin: float, most: float) -> list[TrackedRequest]:
        """Count one more scan, whose window begins then, that lacks these: up to `most`, or to one by inference."""
        return [_count_miss(row, most if self._since(row) >= begin else 1) for row in rows]

    def earliest(self, rows: Iterable[TrackedRequest]) -> float:
        """Return the time to which a scan has to look back for those that an inference dates later, or infinity."""
        return min((self._since(row) for row in rows if self._since(row) < row.updated_after), default=math.inf)

    def forget(self, index: int) -> None:
        """Remove a request that is withdrawn."""
        self._proofs.pop(index, None)

    def prune(self, before: float) -> None:
        """Remove requests that the service no longer lists."""
        self._proofs = {index: proof for index, proof in self._proofs.items() if proof[0] >= before}

    def _since(self, row: TrackedRequest) -> float:
        return min(self._proofs.get(row.index, (math.inf,))[0], row.updated_after)


def _count_miss(row: TrackedRequest, most: float) -> TrackedRequest:
    return attrs.evolve(row, missed_scans=int(max(row.missed_scans, min(row.missed_scans + 1, most))))
