"""Plan of a bot's kills, drawn from a seed: at each failpoint in turn, and at random times."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import attrs

__all__ = ["FEW", "WINDOW", "Kill", "draw", "without_ledger"]

WINDOW: Final = ("after sending", "before send", "after send", "before confirmed")
"""Failpoints at which an offer may be in flight, and only the exchange knows."""

FEW: Final = (
    *WINDOW,
    "after claim",
    "after intent",
    "before sending",
    "after confirmed",
    "before settle",
    "after unknown",
    "before resolved",
    "after resolved",
)
"""The points at which the most is at stake."""

_ROUTINE: Final = {"deliver", "claim", "intent", "sending", "send", "confirmed", "settle"}
_MOST_VISITS: Final = 3
_A_LIFE: Final = (0.1, 1.5)
_LEDGER_ALONE: Final = {"unknown", "resolved", "withdrawn", "rejected"}


@attrs.frozen
class Kill:
    """One kill: at the n-th visit to a point, or, without one, after so many seconds of life."""

    point: str | None
    visit: int = 1
    seconds: float = 0.0

    @property
    def step(self) -> str:
        """The step that the point is before or after; empty where there is none."""
        return "" if self.point is None else self.point.split()[1]


def draw(random: Random, points: Sequence[str], *, more: int = 0, at_random: int = 0) -> list[Kill]:
    """Each of the points once, some `more` of those where an offer is on its way, and some at any moment."""
    named = [*points, *(random.choice(WINDOW) for _ in range(more))]
    plan = [_at(point, random) for point in named]
    plan += [Kill(None, seconds=random.uniform(*_A_LIFE)) for _ in range(at_random)]
    random.shuffle(plan)
    return plan


def without_ledger(plan: Sequence[Kill], random: Random) -> list[Kill]:
    """The same plan for a bot that comes to some points never: there, it is killed at any moment."""
    return [Kill(None, seconds=random.uniform(*_A_LIFE)) if kill.step in _LEDGER_ALONE else kill for kill in plan]


def _at(point: str, random: Random) -> Kill:
    kill = Kill(point)
    return attrs.evolve(kill, visit=random.randint(1, _MOST_VISITS)) if kill.step in _ROUTINE else kill
