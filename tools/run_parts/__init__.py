"""Parts of `tools/seeded_runs.py`: one module for each kind of run, with its `PART`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

__all__ = ["Part"]


TotalT = TypeVar("TotalT")


class Part(ABC, Generic[TotalT]):
    """Seeded runs of one kind.

    `only` restricts them to one transport, quirk or scenario of `choices`; it is empty for all.
    """

    chunk = 250
    """Runs that a process makes in one chunk."""
    choices: Sequence[str] = ()
    """Values of `only`."""

    @abstractmethod
    def run_chunk(self, seeds: range, only: str) -> TotalT:
        """Make the runs of these seeds."""

    def merge(self, total: TotalT | None, chunk: TotalT) -> TotalT:
        """Add a chunk to the total; the first total is `None`."""
        if total is None:
            return chunk
        self.add(total, chunk)
        return total

    def add(self, total: Any, chunk: Any) -> None:
        """Add a chunk to a total, which changes."""
        total.add(chunk)

    @abstractmethod
    def is_clean(self, total: TotalT) -> bool:
        """Print the total, and return whether nothing is wrong."""

    @abstractmethod
    def replay(self, seed: int, only: str) -> bool:
        """Make one run, print its details, and return whether nothing is wrong."""
