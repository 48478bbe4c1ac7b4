"""Listings that end at a page shorter than the longest one so far, as those of many clients do.

A service that lowers its page size, or that hides rows after it has cut a page, hides bids from such a client.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

from freight_exchange.paging import Paginator
from freight_exchange.walk import Pass

__all__ = ["trust_short_pages"]


class _ShortPageEnds(Pass):
    longest_ever: ClassVar[int] = 0

    def take(self, keys: Sequence[Hashable]) -> list[Hashable]:
        added = super().take(keys)
        self.ended = self.ended or len(keys) < _ShortPageEnds.longest_ever
        _ShortPageEnds.longest_ever = max(len(keys), _ShortPageEnds.longest_ever)
        return added


def trust_short_pages() -> None:
    """Have every listing of this process, sweeps included, end at a short page."""

    def walk(self: Paginator[Any], start: int, *, sweep: bool) -> Any:
        return _ShortPageEnds(self.page_size, start=start)

    Paginator._walk = walk  # type: ignore[method-assign]  # for the whole process, which is killed
