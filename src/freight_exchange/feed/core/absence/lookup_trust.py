"""Trust in look-ups, by controls: look-ups of what a scan listed. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

__all__ = ["LookUpTrust"]

_REST: Final = 600.0
"""Seconds without a look-up after controls that failed."""


class LookUpTrust:
    """Trust in look-ups: they count only after a control, which finds a request that the last scan listed.

    A service whose look-ups fail may answer all of them as if there was nothing.

    Args:
        tries: Controls that fail in a row before a rest.

    Attributes:
        is_given: Whether look-ups count until the next scan.
        resting_until: Time on the loop's clock until which nothing is looked up.
    """

    def __init__(self, tries: int) -> None:
        self._tries = tries
        self._listed: Sequence[int] = ()
        self._failures = 0
        self.is_given = False
        self.resting_until = -math.inf

    def begin(self, listed: Sequence[int]) -> None:
        """Require a control after a scan, by one of these requests; without any, look-ups count."""
        self._listed = listed
        self.is_given = not listed

    @property
    def control(self) -> int:
        """Request to look up as a control: another one after each that failed."""
        return self._listed[self._failures % len(self._listed)]

    def record_control(self, now: float, *, is_found: bool) -> bool:
        """Record the result of a control; return whether this failure is the first one with a rest."""
        if is_found:
            self.is_given, self._failures = True, 0
            return False
        self._failures += 1
        if self._failures >= self._tries:
            self.resting_until = now + _REST
        return self._failures == self._tries
