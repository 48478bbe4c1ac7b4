"""Finding of the checker in a run."""

from __future__ import annotations

import attrs

__all__ = ["Finding"]


@attrs.frozen
class Finding:
    """Missing or wrong report of a watcher.

    Attributes:
        excuse: Reason why no client could know it, or the note that accompanies it; empty for a broken promise.
    """

    kind: str
    index: int | None
    at: float
    text: str
    excuse: str = ""
