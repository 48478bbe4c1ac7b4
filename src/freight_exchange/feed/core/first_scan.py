"""Stages of a feed's first scan. Pure.

A feed delivers events before its first scan is complete. Until then these scans take turns:

- the first scan itself, which reads everything that the service lists;
- narrow scans, which report everything updated since the feed was entered.

What the first scan of `start="now"` sees for the first time may have been there before the feed was entered, or may
have been published since. It stays `UNDECIDED` until a narrow scan that begins an allowance later: listed there, it was
updated after the feed was entered and is reported as new; otherwise it belongs to the baseline. A scan that lacks much
of what it should list decides nothing.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from freight_exchange.options import Start

__all__ = ["BASELINE", "UNDECIDED", "Stage", "next_stage"]

Stage = Literal["entering", "window", "listing", "settling", "primed"]
"""Stage of the first scan, committed with its pages.

- `entering`: no event is promised yet.
- `window`: reading what was updated within `start`, which is delivered.
- `listing`: reading everything that the service lists.
- `settling`: waiting for the narrow scan that decides what is `UNDECIDED`.
- `primed`: done.
"""

BASELINE: Final = 0
"""Version of a request that was listed before the feed was entered and has not changed since."""

UNDECIDED: Final = -1
"""Version of a request that the first scan saw after the feed was entered, and that no event reports yet."""


def next_stage(stage: Stage, start: Start, *, listed: bool) -> Stage:
    """Return the stage after a complete scan that belongs to the first one.

    Args:
        stage: The stage before it.
        start: The content of the first scan that is delivered.
        listed: Whether everything that the service lists has been read.
    """
    if stage == "entering" and isinstance(start, timedelta):
        return "window"
    if not listed:
        return "listing"
    # What was read before the feed was entered, or is delivered anyway, is not undecided.
    is_decided = stage in ("entering", "window") or start == "backfill"
    return "primed" if is_decided else "settling"
