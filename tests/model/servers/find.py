"""Finding of the judge in a run."""

from __future__ import annotations

import attrs

__all__ = ["Find"]


@attrs.frozen
class Find:
    """Action that a watcher should have taken and did not, or the other way round.

    Attributes:
        excuse: Why it could not be known from outside, or which note goes with it; empty for a broken promise.
    """

    kind: str
    index: int | None
    at: float
    text: str
    excuse: str = ""
