"""Tiers of scans: most scans are narrow; deep ones, at longer intervals, find late updates. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import attrs

from freight_exchange.feed.core.watermark import WIDEST

__all__ = [
    "DEEP",
    "DEEPEST",
    "MEASURING_TIERS",
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
        window: Minimum seconds that a scan looks back.
        every: Seconds from one scan of the tier to the next.
    """

    name: str
    window: int
    every: float


NARROW: Final = Tier("narrow", 0, 0.0)
DEEPEST: Final = Tier("five days", WIDEST, _DAY)
DEEP: Final = (DEEPEST, Tier("six hours", 6 * 3600, _HOUR), Tier("half an hour", 30 * 60, 5 * _MINUTE))
"""The deep scans, the deepest first. Each takes the place of a narrow one."""

MEASURING_TIERS: Final = DEEP[:2]
"""Deep tiers that measure anew how many rows a page holds. They are rare, so one more page costs little."""


def due_tier(last: Mapping[str, float], now: float, resting: AbstractSet[str] = frozenset()) -> Tier:
    """Return the deepest tier that is due and not resting.

    Args:
        last: Time at which each tier was last completed, by name.
        now: Present time on the same clock.
        resting: Names of tiers that pause after failures.
    """
    tiers = (tier for tier in DEEP if tier.name not in resting)
    return next((tier for tier in tiers if now - last.get(tier.name, -tier.every) >= tier.every), NARROW)


def completed_tiers(window: int) -> tuple[str, ...]:
    """Return the names of the tiers that a complete scan with this window completes: all that look back no further."""
    return tuple(tier.name for tier in DEEP if tier.window <= window)


def tier_above(seconds: float) -> Tier:
    """Return the shallowest tier that looks back further than this, or the deepest tier."""
    return next((tier for tier in reversed(DEEP) if tier.window > seconds), DEEPEST)


def tier_within(seconds: float) -> Tier:
    """Return the deepest tier that looks back no further than this."""
    return next((tier for tier in DEEP if tier.window <= seconds), NARROW)
