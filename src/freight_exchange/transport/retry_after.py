"""The one reader of `Retry-After`, and how its seconds are told to people."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

__all__ = ["LONGEST_HONOURED", "retry_after", "spoken"]

LONGEST_HONOURED = 3600.0
"""Seconds: a `Retry-After` of years, which may be a mistake, does not end all calls."""

# No service means to be left alone for longer than anyone could wait; a longer number is a mistake to be cut short.
_LONGEST = 10.0**9
_DAY = 86_400


def retry_after(value: str | None, *, wall: float) -> float | None:
    """Seconds to wait, from a header that gives seconds or an HTTP date; `None` for none and for nonsense.

    Args:
        value: The header's text.
        wall: Seconds since the epoch, now: what a date is compared with. A date in the past is 0.
    """
    if value is None:
        return None
    text = value.strip()
    whole, _, fraction = text.partition(".")
    if whole.isascii() and whole.isdigit() and (not fraction or (fraction.isascii() and fraction.isdigit())):
        return min(float(text), _LONGEST) if len(text) < 300 else _LONGEST
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return min(max(0.0, moment.timestamp() - wall), _LONGEST)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def spoken(seconds: float) -> str:
    """The seconds as a sentence says them, in plain digits."""
    if seconds > _DAY:
        return "more than a day"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
