"""Rows that a read has returned so far, so that none is returned twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar, cast

import attrs

from freight_exchange import wire
from freight_exchange.paging.page import RawPage

__all__ = ["Alike", "SeenRows", "keys_of"]

T = TypeVar("T")
Identity = Callable[[T], Hashable] | None


@attrs.frozen(cache_hash=True)
class Alike:
    """Key of a row without an identity: its whole content, which other rows may have too."""

    row: Hashable


def keys_of(rows: RawPage[T], identity: Identity[T]) -> list[Hashable]:
    """Return the keys of a page's rows, the unreadable ones last."""
    records = (Alike(cast("Hashable", row)) if identity is None else identity(row) for row in rows.records)
    return [*records, *map(_unreadable, rows.broken)]


class SeenRows(Generic[T]):
    """Rows that a read has returned, over all its passes.

    Two equal rows within one pass count as two rows. In the next pass they count as the same two rows.
    """

    def __init__(self, identity: Identity[T]) -> None:
        self._identity = identity
        self._known: set[Hashable] = set()
        self._twins: Counter[Hashable] = Counter()

    def begin_pass(self) -> None:
        """Restart the counts of equal rows."""
        self._twins.clear()

    def keys(self, rows: RawPage[T]) -> list[Hashable]:
        return keys_of(rows, self._identity)

    def add(self, rows: RawPage[T], keys: list[Hashable]) -> tuple[T, ...]:
        """Add a page; return its records that no earlier page had."""
        numbered = [*self._number(keys)]
        fresh = {key: record for key, record in zip(numbered, rows.records, strict=False) if key not in self._known}
        self._known.update(numbered)
        return tuple(fresh.values())

    def __len__(self) -> int:
        return len(self._known)

    def _number(self, keys: Iterable[Hashable]) -> Iterator[Hashable]:
        for key in keys:
            if isinstance(key, Alike):
                self._twins[key] += 1
                yield key, self._twins[key]
            else:
                yield key


def _unreadable(error: Exception) -> Alike:
    # The index identifies the row. The place in the error changes when rows move, and the content may change too, for
    # example a number of views.
    raw = getattr(error, "raw", error)
    index = wire.index_of_raw(raw)
    return Alike(repr(raw) if index is None else ("unreadable", index))
