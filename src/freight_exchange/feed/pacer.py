"""When the next scan is due. Pure.

A steady pace with a tenth of jitter, so that many bots do not come at once; after a failure sooner or later, at random,
as the service bears it. Ticks that were missed are skipped, never made up for.
"""

from __future__ import annotations

from random import Random
from typing import Final

__all__ = ["LONGEST_PAUSE", "Pacer"]

LONGEST_PAUSE: Final = 20.0
"""Seconds: the longest pause after a failure, also where the service asks for more."""

_FIRST_PAUSE: Final = 1.0
_JITTER: Final = 0.1
_MOST_DOUBLINGS: Final = 6


class Pacer:
    """The pace of one feed.

    Args:
        interval: Seconds from the beginning of one scan to the next.
        random: What jitter is drawn from.

    Attributes:
        due: When the next scan is due, by the loop's clock.
        failures: How many scans in a row have failed.
    """

    def __init__(self, interval: float, random: Random) -> None:
        self._interval = interval
        self._random = random
        self.due = 0.0
        self.failures = 0

    def begin(self, now: float) -> None:
        """Start at a random phase: feeds that were started together do not stay together."""
        self.due = now + self._random.random() * self._interval

    def took_turn(self, began: float) -> None:
        """A scan of many pages begins: it takes this turn, and the next one is an interval away."""
        self.due = began + self._interval * self._random.uniform(1 - _JITTER, 1 + _JITTER)

    def succeeded(self, began: float) -> None:
        """The scan that began then was complete."""
        self.failures = 0
        if self.due <= began:
            self.took_turn(began)

    def fell_short(self, now: float) -> None:
        """The scan went well, and its window had slid past what it was to cover: the next, wider one follows soon."""
        self.failures = 0
        self.due = now + min(_FIRST_PAUSE, self._interval)

    def failed(self, now: float, retry_after: float | None = None) -> None:
        """The scan failed."""
        self.due = now + self.pause(self.failures, retry_after)
        self.failures += 1

    def pause(self, failures: int, retry_after: float | None = None) -> float:
        """Seconds to wait after that many failures before this one: full jitter, or what the service asked for."""
        longest = min(LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures, _MOST_DOUBLINGS))
        pause: float = self._random.random() * longest
        return pause if retry_after is None else max(pause, min(retry_after, LONGEST_PAUSE))
