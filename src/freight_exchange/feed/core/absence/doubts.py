"""Doubts about listings that lack a third or more of the known requests. Pure.

Such a listing may be a failure of the service. The missing requests count as withdrawn only after `LASTING`.
"""

from __future__ import annotations

from typing import Final

import attrs

from freight_exchange.errors import FeedProtocolError
from freight_exchange.feed.core.state import AbsenceDoubt
from freight_exchange.feed.core.watermark import WIDEST

__all__ = ["LASTING", "doubt_error", "is_checked", "is_much", "is_open", "next_doubt"]

LASTING: Final = 3600.0
"""Seconds after which a doubt ends: from then on, requests count as missing even if most lack at once."""

_FORGOTTEN: Final = 2 * LASTING
_FEW: Final = 3
_DEPTH: Final = 2
"""A scan checks a doubt if it looks back at least half as far as the deepest scan of that doubt."""


def next_doubt(
    before: AbsenceDoubt | None, *, window: int, at: float, listed: int, absent: int, scan: int = 0
) -> AbsenceDoubt | None:
    """Return the doubt after a complete scan.

    Args:
        before: The doubt before the scan.
        window: Seconds that the scan looked back.
        at: When the scan ended, on the feed's clock.
        listed: Number of known requests that the scan listed.
        absent: Number of known requests that the scan should have listed and did not.
        scan: Number of the scan.
    """
    if is_much(absent, listed, window):
        if before is None:
            return AbsenceDoubt(since=at, last=at, window=window, scan=scan)
        # After `LASTING`, shallow scans do not belong to the doubt: they do not reach older requests, and what they do
        # not list counts as missing.
        belongs = is_open(before, at) or _DEPTH * window >= before.window or is_checked(before)
        return attrs.evolve(before, last=at if belongs else before.last, window=max(before.window, window))
    if before is None or window >= min(WIDEST, before.window + at - before.since) or at - before.last >= _FORGOTTEN:
        return None
    return before


def is_much(absent: int, listed: int, window: int) -> bool:
    """Return whether a scan lacks so many requests that it may be a failure: a third or more of those it should list.

    Args:
        absent: Number of known requests that the scan should have listed and did not.
        listed: Number of known requests that it listed.
        window: Seconds that it looked back.
    """
    return (absent > 0 and not listed and window >= WIDEST) or (absent >= _FEW and 2 * absent >= listed)


def is_open(doubt: AbsenceDoubt | None, at: float) -> bool:
    """Return whether the doubt began less than `LASTING` ago. While it is open, no scan proves an absence."""
    return doubt is not None and at - doubt.since < LASTING


def is_checked(doubt: AbsenceDoubt) -> bool:
    """Return whether a scan of about the same depth still lacked many requests after `LASTING`."""
    return doubt.last - doubt.since >= LASTING


def doubt_error(doubt: AbsenceDoubt, *, at: float, absent: int, noun: str = "requests") -> FeedProtocolError:
    """Return the error of a complete scan that proves nothing."""
    return FeedProtocolError(
        f"listings lack many known {noun} ({absent} in this one), perhaps because of a fault of the service: "
        f"nothing counts as withdrawn for another {LASTING - (at - doubt.since):.0f} s"
    )
