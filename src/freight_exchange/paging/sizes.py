"""What a server makes of the page sizes that it is asked for."""

from __future__ import annotations

__all__ = ["DEFAULT_PAGE_SIZE", "PageSizes"]

DEFAULT_PAGE_SIZE = 100
"""Rows asked for in a page unless told."""


class PageSizes:
    """What the server makes of page sizes, per operation; shared by all listings of a client."""

    def __init__(self) -> None:
        self._longest: dict[str, int] = {}
        self._repeating: set[str] = set()
        self._clamp: dict[str, int] = {}
        self._refused: dict[str, int] = {}

    def longest(self, operation: str) -> int:
        """The most rows that one page ever held: the server is known to give that many."""
        return self._longest.get(operation, 0)

    def to_ask(self, operation: str, wanted: int, *, start: int = 0) -> int:
        """The page size to ask for when page `start` is the first.

        A listing's first page begins with the first row in any size: it is asked for as large as is wanted, so that
        what was learned is learned anew, and a mistake mends. Later pages begin where those of the size that the
        server gives would.
        """
        known = self._clamp if start else self._refused
        return min(wanted, known.get(operation, wanted))

    def saw(self, operation: str, rows: int) -> None:
        self._longest[operation] = max(rows, self.longest(operation))
        if rows > self._clamp.get(operation, rows):
            del self._clamp[operation]

    def clamp(self, operation: str) -> int | None:
        """The most rows in a page that the server gives, where that is known."""
        return self._clamp.get(operation)

    def clamped(self, operation: str, rows: int) -> None:
        """A page was cut to `rows`, and another as long followed."""
        self._clamp[operation] = rows

    def refused(self, operation: str, wanted: int) -> None:
        """A page of more rows than `wanted` was refused, and one of as many was not."""
        self._clamp[operation] = self._refused[operation] = wanted

    def afresh(self) -> PageSizes:
        """Nothing but what was refused: the server may give less than it did, and hardly takes more."""
        fresh = PageSizes()
        for operation, wanted in self._refused.items():
            fresh.refused(operation, wanted)
        return fresh

    def first_repeat(self, operation: str) -> bool:
        """Whether this is the first time that the operation gave its first page twice: it is told once."""
        told = operation in self._repeating
        self._repeating.add(operation)
        return not told
