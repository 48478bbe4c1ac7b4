"""Rows found by one pass through a listing. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import attrs

from freight_exchange.paging.core.seen_rows import Alike

__all__ = ["CollectedRows"]

T = TypeVar("T")


@attrs.define
class CollectedRows(Generic[T]):
    """Rows and records of one pass so far.

    Attributes:
        rows: The rows, by key.
        records: The records, in order.
        first: The rows of the first page.
        before: The rows of the previous page.
        end: The number after that of the last page with rows.
        moved: Two pages have the same row, which may have moved between them.
    """

    end: int
    rows: Counter[Hashable] = attrs.Factory(Counter)
    records: list[T] = attrs.Factory(list)
    first: list[Hashable] = attrs.Factory(list)
    before: Counter[Hashable] = attrs.Factory(Counter)
    moved: bool = False
    _pages: set[frozenset[tuple[Hashable, int]]] = attrs.Factory(set)

    def holds(self, keys: list[Hashable]) -> bool:
        """Return whether all rows were found before."""
        return all(key in self.rows for key in keys)

    def add(self, number: int, keys: list[Hashable], records: Sequence[T]) -> bool:
        """Add a page; return whether it has no new row."""
        page = Counter(keys)
        content = frozenset(page.items())
        # Rows without an identity may be new even if they look like known ones, unless an equal page came before.
        idle = content in self._pages if isinstance(keys[0], Alike) else self.holds(keys)
        self.moved = self.moved or not self.rows.keys().isdisjoint(keys)
        self._pages.add(content)
        self.first = self.first or keys
        self.before = page
        self.rows.update(keys)
        self.records += records
        self.end = number + 1
        return idle
