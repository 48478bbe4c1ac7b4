"""Finding of the checker in a run."""

from __future__ import annotations

import attrs

__all__ = ["Finding"]


@attrs.frozen
class Finding:
    """Action that a watcher should have taken and did not, or the other way round.

    Attributes:
        excuse: Why it could not be known from outside, or which note goes with it; empty for a broken promise.
    """

    kind: str
    index: int | None
    at: float
    text: str
    excuse: str = ""
