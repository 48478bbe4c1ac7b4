"""Window depths at which scans lack or list a request, to detect requests older than their date. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from freight_exchange.store.protocol import TrackedRequest

__all__ = ["Reaches"]


@attrs.frozen
class _Reach:
    """Two window begins, on the feed's clock: an update between them explains why some scans lack the request.

    Attributes:
        lacking: Begin of the deepest window that lacked the request.
        listing: Begin of the shallowest window that listed it since.
    """

    lacking: float
    listing: float | None = None


class Reaches:
    """Reaches of scans, by request: how far back scans looked that lacked it, and that have listed it since.

    If shallow scans lack a request and deeper ones list it, its last update is older than recorded. A service that was
    restored from a backup lists old content with the old date. Such a request does not come and go.
    """

    def __init__(self) -> None:
        self._reaches: dict[int, _Reach] = {}

    def record_absent(self, rows: Iterable[TrackedRequest], begin: float) -> None:
        """Record the requests that a complete scan lacked, with the begin of its window."""
        for row in rows:
            known = self._reaches.get(row.index)
            if known is None or (known.listing is not None and begin <= known.listing):
                self._reaches[row.index] = _Reach(begin)
            else:
                self._reaches[row.index] = attrs.evolve(known, lacking=min(known.lacking, begin))

    def record_listed(self, index: int, begin: float) -> None:
        """Record that a page lists a request, with the begin of the narrowest window that does."""
        known = self._reaches.get(index)
        if known is not None and begin < known.lacking:
            listing = begin if known.listing is None else max(begin, known.listing)
            self._reaches[index] = attrs.evolve(known, listing=listing)
        else:
            self._reaches.pop(index, None)

    def without_older(self, absent: Iterable[TrackedRequest], begin: float) -> list[TrackedRequest]:
        """Return the absent requests of a scan whose window began at `begin`, without those that deeper scans list."""
        return [row for row in absent if not self._is_older(row.index, begin)]

    def prune(self, before: float) -> None:
        """Remove requests whose deepest lacking window began before this time."""
        self._reaches = {index: reach for index, reach in self._reaches.items() if reach.lacking >= before}

    def _is_older(self, index: int, begin: float) -> bool:
        known = self._reaches.get(index)
        return known is not None and known.listing is not None and known.listing < begin
