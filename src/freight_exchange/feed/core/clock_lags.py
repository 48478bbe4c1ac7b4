"""Clock lags: while a machine is suspended its steady clocks stop, and the feed's clock loses time. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import attrs

__all__ = ["ClockLag", "comparable_time", "with_lag"]

_RANGE: Final = 1.0
"""Seconds before the end of a lag that hold no date of a request seen before it; less than any scan interval."""
_MOST: Final = 20
"""Maximum number of lags to keep; older ones are merged into one."""


@attrs.frozen(kw_only=True)
class ClockLag:
    """Time that the feed's clock may not have counted.

    Attributes:
        by: Maximum seconds that the clock has lost. Anything before `until` may have happened that much earlier.
        until: End of the lag, on the feed's clock.
    """

    by: float
    until: float


def with_lag(lags: Sequence[ClockLag], by: float, until: float) -> tuple[ClockLag, ...]:
    """Return the lags with a later one added."""
    first, *others = (*lags, ClockLag(by=by, until=max(until, lags[-1].until + _RANGE) if lags else until))
    if len(others) < _MOST:
        return first, *others
    second, *others = others
    return ClockLag(by=first.by + second.by, until=second.until), *others


def comparable_time(window_start: float, lags: Sequence[ClockLag]) -> float:
    """Convert the start of a window, read after the lags, to a time that can be compared with dates of requests.

    Requests seen before a lag may be older than their dates. The service measures the window, so a lag does not change
    its length. A window that begins within a lag gets a time in the last second before its end, which has no dates of
    requests. Such windows keep their order.
    """
    behind, end = sum(lag.by for lag in lags), -math.inf
    for lag in lags:
        start = lag.until - _RANGE
        if window_start + behind < start:
            return max(end, window_start + behind)
        if window_start + behind < lag.until + lag.by:
            return start + _RANGE * (window_start + behind - start) / (lag.by + _RANGE)
        behind, end = behind - lag.by, lag.until
    return max(end, window_start)
