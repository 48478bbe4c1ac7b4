"""Parts of `tools/seeded_runs.py`: one module for each kind of run."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Part"]


class Part(Protocol):
    """Seeded runs of one kind.

    `only` restricts them to one transport, quirk or scenario of `choices()`; it is empty for all.
    """

    CHUNK: int
    """Runs that a process makes at a time."""

    def choices(self) -> tuple[str, ...]:
        """List the values of `only`."""

    def run_chunk(self, seeds: range, only: str) -> Any:
        """Make the runs of these seeds."""

    def merge(self, total: Any, chunk: Any) -> Any:
        """Add a chunk to the total; the first total is `None`."""

    def is_clean(self, total: Any) -> bool:
        """Print the total, and return whether nothing is wrong."""

    def replay(self, seed: int, only: str) -> bool:
        """Make one run, print its details, and return whether nothing is wrong."""
