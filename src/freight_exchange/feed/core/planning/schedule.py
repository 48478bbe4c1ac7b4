"""Tiers of scans: every scan is narrow, except for deep ones at intervals, which find what showed up late. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import attrs

from freight_exchange.feed.core.watermark import WIDEST

__all__ = [
    "DEEP",
    "DEEPEST",
    "DISTRUSTFUL",
    "NARROW",
    "Tier",
    "completed_tiers",
    "due_tier",
    "tier_above",
    "tier_within",
]

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0


@attrs.frozen
class Tier:
    """One depth of scanning.

    Attributes:
        name: Name in hooks and in the status.
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
"""The deep scans that measure again how many rows a page holds; they are few enough to request a page more."""


def due_tier(last: Mapping[str, float], now: float, resting: AbstractSet[str] = frozenset()) -> Tier:
    """Return the deepest tier that is due and does not rest, by when each was last completed."""
    tiers = (tier for tier in DEEP if tier.name not in resting)
    return next((tier for tier in tiers if now - last.get(tier.name, -tier.every) >= tier.every), NARROW)


def completed_tiers(window: int) -> tuple[str, ...]:
    """Return the tiers that a complete scan with this window completes: its own, and all that are less deep."""
    return tuple(tier.name for tier in DEEP if tier.window <= window)


def tier_above(seconds: float) -> Tier:
    """Return the least deep tier that looks back further, or the deepest."""
    return next((tier for tier in reversed(DEEP) if tier.window > seconds), DEEPEST)


def tier_within(seconds: float) -> Tier:
    """Return the deepest tier that looks back no further."""
    return next((tier for tier in DEEP if tier.window <= seconds), NARROW)
