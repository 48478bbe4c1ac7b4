"""Times that the feed's clock may not have counted: its steady clocks stop in a machine that is suspended. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import attrs

__all__ = ["ClockLag", "comparable_time", "with_lag"]

_RANGE: Final = 1.0
"""Seconds before the end of a lag in which no request is dated that was seen before it: less than any interval."""
_MOST: Final = 20
"""Lags that are kept apart; older ones are merged."""


@attrs.frozen(kw_only=True)
class ClockLag:
    """Time that the feed's clock may not have counted.

    Attributes:
        by: Seconds: what happened before `until` may be as much longer ago.
        until: Time on the feed's clock.
    """

    by: float
    until: float


def with_lag(lags: Sequence[ClockLag], by: float, until: float) -> tuple[ClockLag, ...]:
    """Return the lags and a later one."""
    first, *others = (*lags, ClockLag(by=by, until=max(until, lags[-1].until + _RANGE) if lags else until))
    if len(others) < _MOST:
        return first, *others
    second, *others = others
    return ClockLag(by=first.by + second.by, until=second.until), *others


def comparable_time(begin: float, lags: Sequence[ClockLag]) -> float:
    """Return the time on the feed's clock to compare for a window that begins then, if it was read after the lags.

    What was seen before a lag may be older by it. A window, which the service measures, is as long as it says: one that
    begins within a lag gets a time right before the end of the lag, in order, where nothing else is dated.
    """
    behind, end = sum(lag.by for lag in lags), -math.inf
    for lag in lags:
        start = lag.until - _RANGE
        if begin + behind < start:
            return max(end, begin + behind)
        if begin + behind < lag.until + lag.by:
            return start + _RANGE * (begin + behind - start) / (lag.by + _RANGE)
        behind, end = behind - lag.by, lag.until
    return max(end, begin)
