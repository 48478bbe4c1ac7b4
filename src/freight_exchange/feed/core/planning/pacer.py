"""Pace of a feed's requests. Pure.

The pace is steady, with a tenth of jitter, so that many bots do not poll at once. A failing service receives no more
requests than a healthy one: each failed request costs at least an interval. Missed ticks are skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Final

from freight_exchange.transport.replies import MAX_HONOURED

__all__ = ["Pacer"]

_FIRST_PAUSE: Final = 1.0
_HOUR: Final = 3600.0
_MAX_BACKOFF: Final = 20.0
_MAX_PAUSE: Final = 3600.0
"""Longest pause in seconds, unless the interval or `Retry-After` is longer."""
_MAX_QUICK: Final = 1200.0
"""Longest interval in seconds with immediate repeats.

With a longer interval, the pause that makes up for a repeat would be too long.
"""
_JITTER: Final = 0.1
_TURNS: Final = (1.0, 2.5, 5.0)
"""Intervals until the next turn, after 0, 1 or 2 repeated requests.

They are longer than the number of requests requires, because a repeat may fall into the next hour. Two repeats are
possible: one of a deep scan, which takes its turn before it sends anything, and one of the narrow scan after it.
"""
_MAX_DOUBLINGS: Final = 6


class Pacer:
    """Pace of one feed.

    Args:
        interval: Seconds from the start of one scan to the next.
        random: Source of jitter.
        extra: Returns how many requests successful calls needed in addition to their first one, since its last call.

    Attributes:
        interval: Seconds from one scan to the next.
        due: When the next scan is due, by the loop's clock.
        quiet_until: Time on the loop's clock until which no request is sent.
        failures: Failed requests in a row, without those that were repeated at once.
    """

    def __init__(self, interval: float, random: Random, extra: Callable[[], int] = lambda: 0) -> None:
        self.interval = interval
        self._random = random
        self._extra = extra
        self._owed = 0
        self._repeated = 0
        self.due = 0.0
        self.quiet_until = -math.inf
        self.failures = 0

    def begin(self, now: float) -> None:
        """Start at a random phase, so that feeds that start together spread out."""
        self.due = now + self._random.random() * self.interval

    def take_turn(self, began: float) -> None:
        """Use this turn for a scan of many pages; the next one is an interval away.

        Each request repeated since the last turn delays it further: a service that fails every other request receives
        no more of them than a healthy one.
        """
        self.due = began + self._turn_length() * self.interval * self._random.uniform(1 - _JITTER, 1 + _JITTER)

    def _turn_length(self) -> float:
        """Return the intervals until the next turn."""
        repeated = self._repeated + self._extra()
        self._repeated = 0
        return _TURNS[min(repeated, len(_TURNS) - 1)]

    def record_scan(self, began: float) -> None:
        """Record a complete scan, and schedule the next one unless the scan has taken its turn already."""
        self.record_reply()
        if self.due <= began:
            self.take_turn(began)
        else:
            # A scan of many pages took its turn before it sent anything.
            self.due += (self._turn_length() - 1) * self.interval

    def rescan_soon(self, now: float) -> None:
        """Schedule a wider scan soon: the last one took longer than its window allowed for."""
        self.record_reply()
        self.due = now + min(_FIRST_PAUSE, self.interval)

    def record_reply(self) -> None:
        """Record that a request succeeded."""
        self.failures = self._owed = 0

    def repeat_delay(self, *, sent: int = 1, retry_after: float | None = None) -> float | None:
        """Count a failed call, and return the seconds until it may be repeated within the same scan.

        Args:
            sent: Number of requests that the call sent, logins included.
            retry_after: Seconds that the service asked for.

        Returns:
            `None` if the call must wait for the next scan. Only the first of several failures in a row is repeated, and
            only if the call sent a single request: a login has its own retries.
        """
        self._owed += sent
        if self.failures or self._owed > 1 or self.interval > _MAX_QUICK:
            return None
        if retry_after is not None and retry_after > min(self.interval, _MAX_BACKOFF):
            return None
        self._repeated += 1
        return max(self._random.random() * min(_FIRST_PAUSE, self.interval), retry_after or 0.0)

    def record_failure(self, now: float, retry_after: float | None = None) -> float:
        """Pause for an interval for each failed request; return the time at which the pause ends."""
        widened = 1 + self._random.random() * min(1.0, 0.5 + self.failures / 8)
        pause = min(self._cost(max(1, self._owed)) * widened, max(self.interval, _MAX_PAUSE))
        if retry_after is not None:
            pause = max(pause, min(retry_after, MAX_HONOURED))
        self.quiet_until = max(self.quiet_until, now + pause)
        self.due = max(self.due, self.quiet_until)
        self.failures += 1
        self._owed, self._repeated = 0, 0
        # `_owed` includes all requests of failed calls.
        self._extra()
        return self.quiet_until

    def _cost(self, requests: int) -> float:
        """Return the pause in seconds after failed requests: an hour never has more of them than of regular scans."""
        bursts = int(_HOUR / self.interval) // requests
        return max(requests * self.interval, _HOUR / bursts if bursts else _MAX_PAUSE)

    def backoff(self, failures: int) -> float:
        """Return the seconds to wait for a resource other than the service, after so many failures: full jitter."""
        return self._random.random() * min(_MAX_BACKOFF, _FIRST_PAUSE * 2.0 ** min(failures, _MAX_DOUBLINGS))
