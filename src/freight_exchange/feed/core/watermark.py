"""Watermark, and windows wide enough that no update falls between two scans. Pure.

The service lists requests updated within a number of seconds, without the times of the updates. A complete scan has
therefore seen all updates before its start, except for those of the last `allowance` seconds before it.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final, Self

import attrs

from freight_exchange import validation
from freight_exchange.platform.clock import Reading, max_elapsed, min_elapsed, rebased

__all__ = [
    "MAX_ALLOWANCE",
    "MIN_RETENTION",
    "SCAN_TIME",
    "WIDEST",
    "ScanTimes",
    "Watermark",
    "is_covered",
    "window_for",
]  # fmt: skip

MAX_ALLOWANCE: Final = 1800.0
"""Longest allowance in seconds to which it grows when deep scans find late updates."""

SCAN_TIME: Final = 5.0
"""Expected duration of a scan in seconds, until one was measured."""

WIDEST: Final = int(validation.MAX_WINDOW.total_seconds())
"""Widest window that the service allows, in seconds (service document, 8)."""

MIN_RETENTION: Final = WIDEST + 86_400.0
"""Minimum seconds for which a request is remembered after a scan listed it.

It is a day more than the service may list a request again for the same update.
"""

_SCANS_REMEMBERED: Final = 200


@attrs.frozen
class Watermark:
    """Time before which all updates were seen: the last complete scan requested its first page then.

    Attributes:
        time: The time on the feed's own clock.
        reading: The same time by all other clocks.
    """

    time: float
    reading: Reading

    def most(self, now: Reading) -> float:
        """Return the largest number of seconds that can have passed since then."""
        return max_elapsed(self.reading, now)

    def least(self, now: Reading) -> float:
        """Return the seconds that have surely passed since then, by clocks that cannot be set."""
        return min_elapsed(self.reading, now)

    def time_at(self, now: Reading) -> float:
        """Return the time on the feed's clock at a reading; if no clock is valid, `WIDEST` seconds have passed."""
        passed = self.least(now)
        return self.time + (passed if math.isfinite(passed) else WIDEST)

    def continued(self, now: Reading) -> Self:
        """Return the watermark for a new run.

        After a restart of the machine, its age is taken from the wall clock once, and then measured by the new steady
        clocks.
        """
        return attrs.evolve(self, reading=rebased(self.reading, now))

    def followed(self, now: Reading) -> Self:
        """Return the watermark of another machine, which scans, by the clocks of this machine.

        If no clock measures its age, the age is 0: this machine's wall clock is then far behind the other one's.
        """
        passed = self.least(now)
        return attrs.evolve(self, time=self.time + (passed if math.isfinite(passed) else 0.0), reading=now)


def window_for(elapsed: float, allowance: float, scan_time: float) -> int:
    """Return the window, in seconds, that covers the watermark's age, the allowance and the duration of the scan."""
    wanted = elapsed + allowance + scan_time
    return WIDEST if wanted >= WIDEST else max(1, math.ceil(wanted))


def is_covered(window: int, elapsed: float, allowance: float) -> bool:
    """Return whether a scan has omitted no update.

    The window slides on while pages are read: a window that is wide enough at the first page may not be at the last.

    Args:
        window: Seconds that the scan looked back.
        elapsed: Age of the watermark when the last page came, in seconds.
        allowance: Seconds that the service may take to show an update.
    """
    return elapsed + allowance <= window


class ScanTimes:
    """Durations of earlier scans."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_SCANS_REMEMBERED)

    def record(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def expected(self) -> float:
        """Return the 99th percentile of the durations, as an estimate for the next scan."""
        if not self._seconds:
            return SCAN_TIME
        ordered = sorted(self._seconds)
        return max(SCAN_TIME, ordered[math.ceil(0.99 * len(ordered)) - 1])
