"""Pace of a feed's requests, and the reports of its scans to hooks and log.

The pace is steady, with a tenth of jitter, so that many feeds do not poll at once. A failure costs an interval, and
each further one twice the pause before it. Before the service has answered at all, tries follow after 1, 2, 4 ... 30 s.
"""

from __future__ import annotations

import logging
import math
from random import Random
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import retry_delay
from freight_exchange.hooks import Degraded, Recovered

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.instruments import Hooks

_logger = logging.getLogger("freight_exchange.feed")

_JITTER: Final = 0.1
_LONGEST_AT_START: Final = 30.0
_LONGEST_PAUSE: Final = 60.0
"""Longest pause in seconds, unless the interval is longer: a service that recovers is noticed within a minute."""
_MAX_HONOURED: Final = 3600.0
_MOST_DOUBLINGS: Final = 12


class Pace:
    """Pace of one feed. All times are on the loop's clock.

    Attributes:
        due: When the next scan is due.
        quiet_until: Until when no request is sent.
        deep_due: When the next page of a deep scan is due.
    """

    def __init__(self, interval: float, random: Random) -> None:
        self.interval = interval
        self._random = random
        self._failures = self._deep_failures = 0
        self._has_answered = False
        self.due = self.quiet_until = self.deep_due = -math.inf

    def begin(self, now: float) -> None:
        """Start at a random phase."""
        self.due = self.deep_due = now + self._random.random() * self.interval

    def take_turn(self, now: float) -> None:
        """Schedule the scan after the one that begins now."""
        self.due = now + self.interval * self._random.uniform(1 - _JITTER, 1 + _JITTER)

    def record_reply(self, *, is_deep: bool) -> None:
        """Record that a request succeeded."""
        self._has_answered = True
        self._failures = 0
        if is_deep:
            self._deep_failures = 0

    def record_failure(self, now: float, error: FreightExchangeError, *, is_deep: bool = False) -> float:
        """Pause after a failed request, and return the seconds. A deep scan pauses longer, while others go on."""
        if self._has_answered:
            longest = max(self.interval, _LONGEST_PAUSE)
            pause = min(longest, self.interval * 2.0 ** min(self._failures, _MOST_DOUBLINGS))
            pause *= self._random.uniform(1.0, 1 + _JITTER)
        else:
            pause = min(_LONGEST_AT_START, 2.0 ** min(self._failures, _MOST_DOUBLINGS))
            pause *= self._random.uniform(1 - _JITTER, 1.0)
        asked = retry_delay(error)
        if asked is not None:
            pause = max(pause, min(asked, _MAX_HONOURED))
        self.quiet_until = max(self.quiet_until, now + pause)
        self._failures += 1
        if is_deep:
            rest = min(_MAX_HONOURED, self.interval * 2.0 ** min(self._deep_failures, _MOST_DOUBLINGS))
            self.deep_due = now + max(rest, pause)
            self._deep_failures += 1
        return pause

    @property
    def quiet_for(self) -> float:
        """Seconds until the next request may be sent; more than 0 only after a failure."""
        return max(0.0, self.quiet_until - anyio.current_time())


class Reports:
    """Reports of failures and scans of one feed to the log, and to the hooks of the client."""

    def __init__(self, hooks: Hooks, *, name: str, url: str) -> None:
        self._hooks = hooks
        self._name = name
        self._url = url
        self._failing_since: float | None = None

    async def send_error(self, error: FreightExchangeError, pause: float) -> None:
        """Report a failure, if it is the first of several."""
        if self._failing_since is None:
            self._failing_since = anyio.current_time()
            _logger.warning("the feed %r cannot read %s: %s; retrying in %.0f s", self._name, self._url, error, pause)
            await self._hooks.emit(Degraded(feed=self._name, error=error, retry_in=pause))

    async def send_recovery(self) -> None:
        """Report the end of failures, if there were any."""
        if self._failing_since is not None:
            after, self._failing_since = anyio.current_time() - self._failing_since, None
            _logger.info("the feed %r recovered: %s can be read again, after %.0f s", self._name, self._url, after)
            await self._hooks.emit(Recovered(feed=self._name, after=after))
