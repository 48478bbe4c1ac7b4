"""Mutations of the source, one module for each part: the rules that the tests protect.

`tools/mutations.py` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Mutation", "one"]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One rule removed from the source.

    Attributes:
        name: The broken behaviour.
        edits: Path below `src/freight_exchange`, old text and new text; the old text occurs once in the file.
        tests: Tests that must fail; empty for the default tests of the part.
    """

    name: str
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...] = ()


def one(name: str, file: str, old: str, new: str, *tests: str) -> Mutation:
    """Make a mutation with a single edit."""
    return Mutation(name, ((file, old, new),), tests)
