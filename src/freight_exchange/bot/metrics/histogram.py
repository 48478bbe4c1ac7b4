"""Histograms of durations, kept without a metrics library."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

__all__ = ["CALL_BOUNDS", "HANDLER_BOUNDS", "LATENCY_BOUNDS", "Histogram", "Histograms"]

CALL_BOUNDS: Final = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds for calls, in seconds; the default deadline is 60."""
HANDLER_BOUNDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0)
"""Bounds for handlers, in seconds."""
LATENCY_BOUNDS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
"""Bounds for the latency of events, in seconds; hours are a backlog."""


class Histogram:
    """Counts of durations by upper bounds, and their sum.

    Args:
        bounds: The upper bounds in seconds, ascending, infinity left out.

    Attributes:
        total: Sum of the durations in seconds.
    """

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = (*bounds, math.inf)
        self._counts = [0] * len(self._bounds)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.total += seconds

    def buckets(self) -> Sequence[tuple[float, int]]:
        """Return each upper bound with the number of durations up to it."""
        return list(zip(self._bounds, accumulate(self._counts), strict=True))


class Histograms:
    """Histograms with the same bounds, by the values of their labels.

    Args:
        bounds: The upper bounds in seconds.
    """

    __slots__ = ("_bounds", "_series")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._series: dict[tuple[str, ...], Histogram] = {}

    def __getitem__(self, labels: tuple[str, ...]) -> Histogram:
        """Return the histogram of these labels, a new one the first time."""
        return self._series.setdefault(labels, Histogram(self._bounds))

    def series(self, expected: Iterable[tuple[str, ...]] = ()) -> Mapping[tuple[str, ...], Histogram]:
        """Return a copy of the histograms, with those of the expected labels."""
        return {labels: Histogram(self._bounds) for labels in expected} | self._series
