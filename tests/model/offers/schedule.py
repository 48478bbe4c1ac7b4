"""Schedules: operations before each scan and between its pages, drawn from a seed. Imports nothing of the package."""

from __future__ import annotations

from random import Random
from typing import Literal, NamedTuple

__all__ = ["QUIET", "Op", "Schedule", "draw"]

What = Literal[
    "publish", "offer", "reprice", "terms", "withdraw", "remove", "approve", "decline", "touch",
    "fail", "cut", "blank", "strip", "deny", "stop",
]  # fmt: skip
"""Kinds of operations.

On the market, a request or an offer appears, changes, is answered or goes, or a request moves to the front. On the
service, a page or a look-up fails, or a listing lacks rows, is empty, or lacks a request's offers. The program stops,
and starts again.
"""

_MARKET: tuple[What, ...] = (
    "offer", "offer", "offer", "offer", "offer", "reprice", "reprice", "reprice", "reprice", "terms", "terms",
    "withdraw", "withdraw", "remove", "approve", "decline", "publish", "touch", "touch",
)  # fmt: skip
_FAILURES: tuple[What, ...] = ("fail", "fail", "cut", "cut", "blank", "strip", "deny", "stop", "stop")

QUIET = 8
"""Quiet scans at the end."""


class Op(NamedTuple):
    """Operation before page `page` of scan `scan`; `which` picks its subject."""

    scan: int
    page: int
    what: What
    which: int


class Schedule(NamedTuple):
    """Schedule of one run.

    Attributes:
        clamp: Maximum rows in a page.
        requests: Requests at the start, each with an offer.
        scans: Number of scans, the quiet ones included.
        ops: Operations in order.
    """

    clamp: int
    requests: int
    scans: int
    ops: tuple[Op, ...]


def draw(seed: int) -> Schedule:
    """Draw a schedule."""
    random = Random(seed)
    scans = random.randint(5, 14)
    ops = []
    for scan in range(1, scans):
        for _ in range(random.choice((0, 1, 1, 2, 3))):
            ops.append(Op(scan, random.choice((0, 0, 0, 1, 2)), random.choice(_MARKET), random.randrange(1 << 20)))
        if random.random() < 0.4:
            ops.append(Op(scan, random.choice((0, 0, 1)), random.choice(_FAILURES), random.randrange(1 << 20)))
    ops.sort(key=lambda op: (op.scan, op.page))
    return Schedule(random.choice((2, 3, 5, 1000, 1000)), random.randint(1, 7), scans + QUIET, tuple(ops))
