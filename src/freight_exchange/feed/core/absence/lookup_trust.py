"""Trust in look-ups, tested by controls: a control looks up a request that was just listed. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

__all__ = ["LookupTrust"]

_REST: Final = 600.0
"""Seconds without look-ups after several failed controls."""


class LookupTrust:
    """Trust in look-ups: after a scan they count only if a control has found a listed request.

    A service whose look-ups fail may answer that every request is unknown.

    Args:
        tries: Number of failed controls in a row that pauses all look-ups.

    Attributes:
        is_given: Whether look-ups count until the next scan.
        resting_until: End of the pause, on the loop's clock.
    """

    def __init__(self, tries: int) -> None:
        self._tries = tries
        self._listed: Sequence[int] = ()
        self._failures = 0
        self.is_given = False
        self.resting_until = -math.inf

    def begin(self, listed: Sequence[int]) -> None:
        """Require a control by one of the requests that a scan listed. If it listed none, look-ups count."""
        self._listed = listed
        self.is_given = not listed

    @property
    def control(self) -> int:
        """Request to look up as a control; a different one after each failed control."""
        return self._listed[self._failures % len(self._listed)]

    def record_control(self, now: float, *, is_found: bool) -> bool:
        """Record the result of a control; return whether look-ups pause now for the first time since a success."""
        if is_found:
            self.is_given, self._failures = True, 0
            return False
        self._failures += 1
        if self._failures >= self._tries:
            self.resting_until = now + _REST
        return self._failures == self._tries
