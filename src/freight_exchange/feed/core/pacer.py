"""Pace of a feed's requests. Pure.

A steady pace with a tenth of jitter, so that many bots do not come at once. In trouble a feed sends at most what it
sends in health: every request that failed costs at least an interval. Ticks that were missed are skipped, never made
up for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Final

from freight_exchange.transport.retry_after import LONGEST_HONOURED

__all__ = ["Pacer"]

_FIRST_PAUSE: Final = 1.0
_HOUR: Final = 3600.0
_LONGEST_BACKOFF: Final = 20.0
_LONGEST_PAUSE: Final = 3600.0
"""Seconds: no pause is longer, unless the interval is or the service asks for it."""
_LONGEST_QUICK: Final = 1200.0
"""Seconds: with a longer interval no page is asked for again at once, as the pause could not make up for it."""
_JITTER: Final = 0.1
_TURNS: Final = (1.0, 2.5, 5.0)
"""Intervals to the next turn, by the requests that were repeated: more than pays for them, as some come at the edge of
the hour. They are two where a deep scan, which takes its turn before it sends any, and the next narrow one repeat."""
_MOST_DOUBLINGS: Final = 6


class Pacer:
    """Pace of one feed.

    Args:
        interval: Seconds from the beginning of one scan to the next.
        random: Source of jitter.
        extra: Gives how many requests calls that went well have sent beyond one each, since it was last asked.

    Attributes:
        due: When the next scan is due, by the loop's clock.
        quiet_until: Until when nothing at all is sent, by the loop's clock.
        failures: How many requests in a row have failed, less those that were repeated at once.
    """

    def __init__(self, interval: float, random: Random, extra: Callable[[], int] = lambda: 0) -> None:
        self._interval = interval
        self._random = random
        self._extra = extra
        self._owed = 0
        self._repeated = 0
        self.due = 0.0
        self.quiet_until = -math.inf
        self.failures = 0

    def begin(self, now: float) -> None:
        """Start at a random phase: feeds that were started together do not stay together."""
        self.due = now + self._random.random() * self._interval

    def take_turn(self, began: float) -> None:
        """Give this turn to a scan of many pages; the next one is an interval away.

        It is more for each request that was repeated since the last turn: a service that fails every other request is
        sent no more than in health.
        """
        self.due = began + self._turns() * self._interval * self._random.uniform(1 - _JITTER, 1 + _JITTER)

    def _turns(self) -> float:
        repeated = self._repeated + self._extra()
        self._repeated = 0
        return _TURNS[min(repeated, len(_TURNS) - 1)]

    def record_scan(self, began: float) -> None:
        """Note that the scan that began then was complete."""
        self.record_reply()
        if self.due <= began:
            self.take_turn(began)
        else:
            # A scan of many pages, which took its turn before it sent any.
            self.due += (self._turns() - 1) * self._interval

    def rescan_soon(self, now: float) -> None:
        """Schedule a wider scan soon: the window of the last one had slid past what it was to cover."""
        self.record_reply()
        self.due = now + min(_FIRST_PAUSE, self._interval)

    def record_reply(self) -> None:
        """Note that a request succeeded."""
        self.failures = self._owed = 0

    def repeat_delay(self, *, sent: int = 1, retry_after: float | None = None) -> float | None:
        """Count a failed request, and give the seconds after which it may be repeated at once.

        Args:
            sent: How many requests it was, logins included.
            retry_after: Seconds that the service asked for.

        Returns:
            `None` if it may not: only a single request is repeated at once, the first of several failures in a row.
            A login, say, has retried by itself.
        """
        self._owed += sent
        if self.failures or self._owed > 1 or self._interval > _LONGEST_QUICK:
            return None
        if retry_after is not None and retry_after > min(self._interval, _LONGEST_BACKOFF):
            return None
        self._repeated += 1
        return max(self._random.random() * min(_FIRST_PAUSE, self._interval), retry_after or 0.0)

    def record_failure(self, now: float, retry_after: float | None = None) -> float:
        """Nothing is sent before an interval has passed for every request that failed; give the time until which."""
        widened = 1 + self._random.random() * min(1.0, 0.5 + self.failures / 8)
        pause = min(self._cost(max(1, self._owed)) * widened, max(self._interval, _LONGEST_PAUSE))
        if retry_after is not None:
            pause = max(pause, min(retry_after, LONGEST_HONOURED))
        self.quiet_until = max(self.quiet_until, now + pause)
        self.due = max(self.due, self.quiet_until)
        self.failures += 1
        self._owed, self._repeated = 0, 0
        # A failed call is counted by what it sent.
        self._extra()
        return self.quiet_until

    def _cost(self, requests: int) -> float:
        """Return the seconds after so many failed requests by which no hour holds more of them than of scans."""
        bursts = int(_HOUR / self._interval) // requests
        return max(requests * self._interval, _HOUR / bursts if bursts else _LONGEST_PAUSE)

    def backoff(self, failures: int) -> float:
        """Seconds to wait for what is not the service, after that many failures before this one: full jitter."""
        return self._random.random() * min(_LONGEST_BACKOFF, _FIRST_PAUSE * 2.0 ** min(failures, _MOST_DOUBLINGS))
