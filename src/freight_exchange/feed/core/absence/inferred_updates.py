"""Updates that are inferred from what scans lacked, until a window proves them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from freight_exchange.store.protocol import TrackedRequest

__all__ = ["InferredUpdates"]

_MOST: Final = 10_000
"""Requests that are remembered; of others the inference counts as proof."""
_NARROW: Final = 60.0
"""Seconds: a window that reaches back so little further is that of a narrow scan, which proves enough."""


class InferredUpdates:
    """Memory of requests whose last update is inferred to be later than windows prove.

    A request that a deep scan sees for the first time, or changed, was updated since the scan before it, unless that
    one should have listed it and did not. In that case narrow scans rightly lack it: only a scan that looks back as far
    as one that listed it can prove that it is gone.
    """

    def __init__(self) -> None:
        self._proven: dict[int, float] = {}

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
            attrs.evolve(row, updated_after=min(row.updated_after, max(self._proven[row.index], begin)))
            if row.index in self._proven and row.index in before and before[row.index].missed_scans
            else row
            for row in rows
        ]

    def record(self, row: TrackedRequest, before: TrackedRequest | None, begin: float) -> None:
        """Note what a page proves that lists a request, and what is inferred from it.

        Args:
            row: What is tracked from now on.
            before: What was tracked, if anything.
            begin: Begin of the window that proves it.
        """
        is_inferred = before is None or before.updated_after < row.updated_after
        proven = self._proven.pop(row.index, None)
        if proven is None and not is_inferred:
            return
        if proven is None and before is not None:
            proven = before.updated_after
        proven = begin if proven is None else max(proven, begin)
        if proven + _NARROW < row.updated_after and len(self._proven) < _MOST:
            self._proven[row.index] = proven

    def count_misses(self, rows: Iterable[TrackedRequest], begin: float, most: float) -> list[TrackedRequest]:
        """Count one more scan, whose window begins then, that lacks these: up to `most`, or to one by inference."""
        return [_count_miss(row, most if self._since(row) >= begin else 1) for row in rows]

    def earliest(self, rows: Iterable[TrackedRequest]) -> float:
        """Return the time to which a scan has to look back for those that an inference dates later, or infinity."""
        return min((self._since(row) for row in rows if self._since(row) < row.updated_after), default=math.inf)

    def without_inference(self, row: TrackedRequest) -> TrackedRequest:
        """Return a row with the update that windows prove: a request that returns refutes what was inferred."""
        return attrs.evolve(row, updated_after=self._since(row))

    def forget(self, index: int) -> None:
        """Remove a request that is withdrawn."""
        self._proven.pop(index, None)

    def prune(self, before: float) -> None:
        """Remove requests that the service no longer lists."""
        self._proven = {index: proven for index, proven in self._proven.items() if proven >= before}

    def _since(self, row: TrackedRequest) -> float:
        return min(self._proven.get(row.index, math.inf), row.updated_after)


def _count_miss(row: TrackedRequest, most: float) -> TrackedRequest:
    return attrs.evolve(row, missed_scans=int(max(row.missed_scans, min(row.missed_scans + 1, most))))
