"""Watermark and windows: no update falls between two scans. Pure.

The service lists what was updated in the last so many seconds, without times. So a complete scan covers all updates
before its start, less the time that the service may take to show an update.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final, Self

import attrs

from freight_exchange.models import validation
from freight_exchange.platform.clock import Reading, max_elapsed, min_elapsed, rebased

__all__ = [
    "LEAST_RETENTION", "LONGEST_ALLOWANCE", "SCAN_TIME", "WIDEST", "ScanTimes", "Watermark", "is_covered", "window_for",
]  # fmt: skip

LONGEST_ALLOWANCE: Final = 1800.0
"""Seconds up to which the allowance grows by itself, if deep scans find what narrow ones should have found."""

SCAN_TIME: Final = 5.0
"""Seconds that a scan is expected to take, until it is known."""

WIDEST: Final = int(validation.LONGEST_WINDOW.total_seconds())
"""Seconds: the widest window that the service allows (service document, 8)."""

LEAST_RETENTION: Final = WIDEST + 86_400.0
"""Seconds for which a request is remembered after a scan listed it, at least: as long as the service may list it
again for the same update, and a day."""

_SCANS_REMEMBERED: Final = 200


@attrs.frozen
class Watermark:
    """The moment before which everything is covered: page 0 of the last complete scan was sent then.

    Attributes:
        time: On the feed's own clock.
        reading: By every other clock.
    """

    time: float
    reading: Reading

    def most(self, now: Reading) -> float:
        """Return the most seconds that can have passed since."""
        return max_elapsed(self.reading, now)

    def least(self, now: Reading) -> float:
        """Return the seconds that have passed since, by clocks that cannot be set."""
        return min_elapsed(self.reading, now)

    def time_at(self, now: Reading) -> float:
        """Return the feed's clock at that reading; without a clock, it counts the longest silence possible."""
        passed = self.least(now)
        return self.time + (passed if math.isfinite(passed) else WIDEST)

    def continued(self, now: Reading) -> Self:
        """Return the same watermark when a run begins, by the steady clocks of its machine if it has restarted.

        They count even if the wall clock, which alone connects both starts, is set before the next complete scan.
        """
        return attrs.evolve(self, reading=rebased(self.reading, now))

    def followed(self, now: Reading) -> Self:
        """Return a watermark from which the clocks of this machine continue that of another one, which scans.

        Where no clock tells how old it is, it is young: this machine's wall clock is far behind the other one's.
        """
        passed = self.least(now)
        return attrs.evolve(self, time=self.time + (passed if math.isfinite(passed) else 0.0), reading=now)


def window_for(elapsed: float, allowance: float, scan_time: float) -> int:
    """Return the window, in seconds, that covers the watermark's age, the allowance and the duration of the scan."""
    wanted = elapsed + allowance + scan_time
    return WIDEST if wanted >= WIDEST else max(1, math.ceil(wanted))


def is_covered(window: int, elapsed: float, allowance: float) -> bool:
    """Return whether a scan whose last page came at this age of the watermark omitted nothing.

    The window slides on while the pages are read: one that was wide enough at the first may not be at the last.
    """
    return elapsed + allowance <= window


class ScanTimes:
    """Durations of earlier scans."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_SCANS_REMEMBERED)

    def record(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def expected(self) -> float:
        """Return the 99th percentile of durations: the allowance for the next scan."""
        if not self._seconds:
            return SCAN_TIME
        ordered = sorted(self._seconds)
        return max(SCAN_TIME, ordered[math.ceil(0.99 * len(ordered)) - 1])
