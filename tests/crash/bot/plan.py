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
"""Failpoints at which a crash can do the most damage."""

_ROUTINE: Final = {"deliver", "claim", "intent", "sending", "send", "confirmed", "settle"}
_MOST_VISITS: Final = 3
_A_LIFE: Final = (0.1, 1.5)
_LEDGER_ALONE: Final = {"unknown", "resolved", "withdrawn", "rejected"}


@attrs.frozen
class Kill:
    """Kill at the n-th visit to a failpoint or, without a failpoint, after some seconds."""

    point: str | None
    visit: int = 1
    seconds: float = 0.0

    @property
    def step(self) -> str:
        """Return the step that the failpoint precedes or follows; empty without a failpoint."""
        return "" if self.point is None else self.point.split()[1]


def draw(random: Random, points: Sequence[str], *, more: int = 0, at_random: int = 0) -> list[Kill]:
    """Draw kills: each failpoint once, `more` of them while an offer is in flight, and some at random times."""
    named = [*points, *(random.choice(WINDOW) for _ in range(more))]
    plan = [_at(point, random) for point in named]
    plan += [Kill(None, seconds=random.uniform(*_A_LIFE)) for _ in range(at_random)]
    random.shuffle(plan)
    return plan


def without_ledger(plan: Sequence[Kill], random: Random) -> list[Kill]:
    """Return the plan for a bot without a ledger: kills at failpoints that it never reaches become random kills."""
    return [Kill(None, seconds=random.uniform(*_A_LIFE)) if kill.step in _LEDGER_ALONE else kill for kill in plan]


def _at(point: str, random: Random) -> Kill:
    kill = Kill(point)
    return attrs.evolve(kill, visit=random.randint(1, _MOST_VISITS)) if kill.step in _ROUTINE else kill
