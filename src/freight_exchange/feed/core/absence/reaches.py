"""Reaches of the scans that lack requests, and of those that list them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from freight_exchange.store.protocol import TrackedRequest

__all__ = ["Reaches"]


@attrs.frozen
class _Reach:
    """Begins of the windows of the deepest scan that lacked a request, and of the shallowest that lists it.

    They are times on the feed's clock. An update between them explains both.
    """

    lacking: float
    listing: float | None = None


class Reaches:
    """Reaches of the scans that lacked requests, and of those that have listed them since.

    A request that shallow scans lack and deeper ones list was updated earlier than its date says: a service that is
    restored from a backup lists old content with the old date. Such a request does not come and go.
    """

    def __init__(self) -> None:
        self._reaches: dict[int, _Reach] = {}

    def record_absent(self, rows: Iterable[TrackedRequest], begin: float) -> None:
        """Record what a complete scan lacked, whose window began then."""
        for row in rows:
            known = self._reaches.get(row.index)
            if known is None or (known.listing is not None and begin <= known.listing):
                self._reaches[row.index] = _Reach(begin)
            else:
                self._reaches[row.index] = attrs.evolve(known, lacking=min(known.lacking, begin))

    def record_listed(self, index: int, begin: float) -> None:
        """Record that a page lists a request, by a window that began then."""
        known = self._reaches.get(index)
        if known is not None and begin < known.lacking:
            listing = begin if known.listing is None else max(begin, known.listing)
            self._reaches[index] = attrs.evolve(known, listing=listing)
        else:
            self._reaches.pop(index, None)

    def without_older(self, absent: Iterable[TrackedRequest], begin: float) -> list[TrackedRequest]:
        """Return what a complete scan lacked, whose window began then, without what deeper ones list."""
        return [row for row in absent if not self._is_older(row.index, begin)]

    def prune(self, before: float) -> None:
        """Remove requests that scans have not reached since that time."""
        self._reaches = {index: reach for index, reach in self._reaches.items() if reach.lacking >= before}

    def _is_older(self, index: int, begin: float) -> bool:
        known = self._reaches.get(index)
        return known is not None and known.listing is not None and known.listing < begin
