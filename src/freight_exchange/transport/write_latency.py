"""Usual latency of a client's writes, learned from the recent ones."""

from __future__ import annotations

from collections import deque

__all__ = ["WriteLatency"]

_REMEMBERED = 20
"""Writes that are remembered. With nine in ten of them covered, one that stalled does not count."""

_MARGIN = 1.5
"""Times the usual latency: a write that is given exactly the usual time ends in doubt as often as not."""

_FLOOR = 0.1
"""Seconds: the least that a write is given, also before any latency is known."""

_LARGEST_SHARE = 0.5
"""The largest part of a call's deadline that is asked for: a call that did not wait for anything is always sent."""


class WriteLatency:
    """Seconds from the first byte of a write to the end of its reply, over the last 20 writes."""

    __slots__ = ("_recent", "usual")

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)
        self.usual = 0.0
        """The ninth decile, in seconds; 0 before the first write."""

    def observe(self, seconds: float) -> None:
        """Record how long a write took, whatever came of it."""
        self._recent.append(seconds)
        self.usual = sorted(self._recent)[len(self._recent) * 9 // 10]

    def needed(self, deadline: float) -> float:
        """Seconds that must be left of a call's `deadline` when its first byte leaves."""
        return min(max(_FLOOR, _MARGIN * self.usual), _LARGEST_SHARE * deadline)
