"""Doubts about listings that lack a third or more of the known requests. Pure.

Such a listing may be a failure of the service. Its requests count as withdrawn only if the doubt lasts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import attrs

from freight_exchange.errors import FeedProtocolError
from freight_exchange.feed.core.state import AbsenceDoubt
from freight_exchange.feed.core.watermark import WIDEST
from freight_exchange.store.protocol import TrackedRequest

__all__ = ["LASTING", "doubt_error", "is_checked", "is_open", "most_relisted", "next_doubt"]

LASTING: Final = 3600.0
"""Seconds after which requests that listings lack count as missing, though most are lacking at once."""

_FORGOTTEN: Final = 2 * LASTING
_FEW: Final = 3
_DEPTH: Final = 2
"""A scan checks a doubt if it looks back at least half as far as the deepest scan of that doubt."""


def next_doubt(
    before: AbsenceDoubt | None,
    *,
    window: int,
    at: float,
    listed: int,
    absent: int,
    scan: int = 0,
    relisted: int = 0,
) -> AbsenceDoubt | None:
    """Return the doubt after a complete scan.

    A doubt that has lasted does not stop the next one: a new one begins when one scan has listed many requests again
    and a later scan lacks them.

    Args:
        before: The doubt before it.
        window: Seconds that it looked back.
        at: When it ended, on the feed's clock.
        listed, absent: How many known requests it listed, and how many it should have listed and did not.
        scan: Its number.
        relisted: The most absent requests that one scan listed: the last scan that lacked much, or a later one.
    """
    if _is_much(absent, listed, window):
        if before is None or (_is_much(relisted, listed, window) and not is_open(before, at)):
            return AbsenceDoubt(since=at, last=at, window=window, scan=scan)
        is_open_or_deep = is_open(before, at) or _DEPTH * window >= before.window
        last = at if is_open_or_deep or is_checked(before) else before.last
        # What a shallow scan does not reach was not lacked. What it lacks counts as missing, unless the doubt is open.
        number = scan if is_open_or_deep else before.scan
        return attrs.evolve(before, last=last, window=max(before.window, window), scan=number)
    if before is None or window >= min(WIDEST, before.window + at - before.since) or at - before.last >= _FORGOTTEN:
        return None
    return before


def most_relisted(absent: Iterable[TrackedRequest], doubt: AbsenceDoubt | None) -> int:
    """Return the most absent requests that one scan listed: the last scan that lacked much, or a later one.

    Requests that different scans listed last have vanished one after the other, and those that count as missing before.
    """
    if doubt is None:
        return 0
    listed = (row.last_scan for row in absent if row.last_scan >= doubt.scan and not row.missed_scans)
    return max(Counter(listed).values(), default=0)


def _is_much(absent: int, listed: int, window: int) -> bool:
    return (absent > 0 and not listed and window >= WIDEST) or (absent >= _FEW and 2 * absent >= listed)


def is_open(doubt: AbsenceDoubt | None, at: float) -> bool:
    """Return whether a doubt has begun less than `LASTING` ago: until then, no scan proves an absence."""
    return doubt is not None and at - doubt.since < LASTING


def is_checked(doubt: AbsenceDoubt) -> bool:
    """Return whether a scan of about the same depth still lacked much after the doubt had lasted."""
    return doubt.last - doubt.since >= LASTING


def doubt_error(doubt: AbsenceDoubt, *, at: float, absent: int, noun: str = "requests") -> FeedProtocolError:
    """Return the error of a complete scan that proves nothing."""
    return FeedProtocolError(
        f"listings lack many known {noun} ({absent} in this one), perhaps by a fault of the service: nothing counts "
        f"as withdrawn for {LASTING - (at - doubt.since):.0f} s more"
    )
