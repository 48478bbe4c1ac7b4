"""Parser of `Retry-After`, and formatting of its seconds."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

__all__ = ["MAX_HONOURED", "format_seconds", "retry_after"]

MAX_HONOURED = 3600.0
"""Longest `Retry-After` to obey, in seconds: one of years may be a mistake, and must not end all calls."""

# A longer number is a mistake.
_LONGEST = 10.0**9
_DAY = 86_400


def retry_after(value: str | None, *, wall: float) -> float | None:
    """Return the seconds to wait, from a number or an HTTP date; `None` for a header that is missing or unreadable.

    Args:
        value: The header's text.
        wall: The current time, in seconds since the epoch. A date in the past gives 0.
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


def format_seconds(seconds: float) -> str:
    """Format seconds for a message."""
    if seconds > _DAY:
        return "more than a day"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
