"""Which window to ask for, so that no update falls between two looks. Pure.

The service lists what was updated in the last so many seconds, and names no times. What is covered is therefore all
that was updated before the moment at which the last complete look began.
"""

from __future__ import annotations

import math

__all__ = ["ALLOWANCE", "SCAN_TIME", "WIDEST", "is_covered", "window_for"]

ALLOWANCE = 60.0
"""Seconds that the service may take to show an update, unless told."""

SCAN_TIME = 5.0
"""Seconds that a look is expected to take, until one took longer."""

WIDEST = 432_000
"""Seconds: the widest window that the service allows (service document, 8)."""


def window_for(since_cover: float | None, allowance: float, scan_time: float = SCAN_TIME) -> int:
    """The window in seconds to ask for, `since_cover` seconds after the last complete look began."""
    if since_cover is None:
        return WIDEST
    return min(WIDEST, math.ceil(since_cover + allowance + max(SCAN_TIME, scan_time)))


def is_covered(window: int, since_cover: float | None, allowance: float) -> bool:
    """Whether a look with this window, now at its end, left nothing out: the window slid on while it was read."""
    return since_cover is None or window == WIDEST or since_cover + allowance <= window
