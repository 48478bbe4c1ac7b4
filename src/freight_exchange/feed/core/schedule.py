"""When to look how far back: every scan a narrow window, and at times a deep one, for what showed up late. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import attrs

from freight_exchange.feed.core.watermark import WIDEST

__all__ = ["DEEP", "DEEPEST", "DISTRUSTFUL", "NARROW", "Tier", "above", "due", "reached", "within"]

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0


@attrs.frozen
class Tier:
    """One depth of scanning.

    Attributes:
        name: As hooks and the status call it.
        window: Seconds that it looks back at least.
        every: Seconds from one to the next.
    """

    name: str
    window: int
    every: float


NARROW: Final = Tier("narrow", 0, 0.0)
DEEPEST: Final = Tier("five days", WIDEST, _DAY)
DEEP: Final = (DEEPEST, Tier("six hours", 6 * 3600, _HOUR), Tier("half an hour", 30 * 60, 5 * _MINUTE))
"""The deep scans, the deepest first. Each takes the place of a narrow one."""

DISTRUSTFUL: Final = DEEP[:2]
"""The deep scans that find out anew how many rows a page holds; they are few enough to ask for a page more."""


def due(last: Mapping[str, float], now: float, resting: AbstractSet[str] = frozenset()) -> Tier:
    """The deepest rung whose turn has come, by when each was last completed, on the feed's clock; none that rests."""
    rungs = (rung for rung in DEEP if rung.name not in resting)
    return next((rung for rung in rungs if now - last.get(rung.name, -rung.every) >= rung.every), NARROW)


def reached(window: int) -> tuple[str, ...]:
    """The rungs that a complete scan with this window has done: its own, and all that are less deep."""
    return tuple(rung.name for rung in DEEP if rung.window <= window)


def above(seconds: float) -> Tier:
    """Return the least deep tier that looks back further, or the deepest."""
    return next((tier for tier in reversed(DEEP) if tier.window > seconds), DEEPEST)


def within(seconds: float) -> Tier:
    """The deepest rung that looks back no further."""
    return next((rung for rung in DEEP if rung.window <= seconds), NARROW)
