"""Stages of a feed's first scan. Pure.

A feed delivers events before its first scan is complete. Until then these scans take turns:

- the first scan itself, which reads everything that the service lists;
- narrow scans, which report everything updated since the feed was entered.

With `start="now"`, a request found by the first scan may be older than the feed, or may have been published since. It
stays `UNDECIDED` until a narrow scan that begins an allowance later. If that lists it, it was updated after the feed
was entered, and is reported as new; otherwise it belongs to the baseline. On a slow service the window of that scan
reaches back before the entry, as the event says. A scan that lacks many known requests decides nothing.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from freight_exchange.options import Start

__all__ = ["BASELINE", "UNDECIDED", "Stage", "next_stage"]

Stage = Literal["entering", "window", "listing", "settling", "primed"]
"""Stage of the first scan, committed with its pages.

- `entering`: before the feed is entered; updates are not reported yet.
- `window`: reads the updates within the user's `start`, which are delivered.
- `listing`: reads everything that the service lists.
- `settling`: waits for the narrow scan that decides about `UNDECIDED` requests.
- `primed`: done.
"""

BASELINE: Final = 0
"""Version of a request that was listed before the feed was entered and has not changed since."""

UNDECIDED: Final = -1
"""Version of a request that was first seen after the feed was entered, but may be older; no event reports it yet."""


def next_stage(stage: Stage, start: Start, *, listed: bool) -> Stage:
    """Return the stage after a complete scan that belongs to the first one.

    Args:
        stage: The stage before the scan.
        start: The user's `start`: which requests of the first scan are delivered.
        listed: Whether everything that the service lists has been read.
    """
    if stage == "entering" and isinstance(start, timedelta):
        return "window"
    if not listed:
        return "listing"
    # Requests are decided if they were read before the feed was entered, or are delivered in any case.
    is_decided = stage in ("entering", "window") or start == "backfill"
    return "primed" if is_decided else "settling"
