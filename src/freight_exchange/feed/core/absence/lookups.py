"""Queue of missing requests to look up by their index, with retries. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final

import attrs

from freight_exchange.store.protocol import TrackedRequest

__all__ = ["SCANS_THAT_MISS", "Denials", "Lookups"]

SCANS_THAT_MISS: Final = 2
"""Complete scans in a row that lack a request before it is looked up."""

_LOOKUPS_A_SCAN: Final = 10
_TRIES: Final = 5
_REMEMBERED: Final = 7200.0
"""Seconds for which a miss is remembered: the time of two hourly scans."""
_DENIALS: Final = 3
"""Bare 404s in a row that deny a request: one may come from a gateway."""


@attrs.frozen
class _Misses:
    """Times of the first and the last scan that lacked a request, on the feed's clock."""

    first: float
    last: float


class Denials:
    """Bare 404s in a row, by request."""

    def __init__(self) -> None:
        self._counts = Counter[int]()

    def record(self, index: int) -> bool:
        """Record a bare 404; return whether the request is denied."""
        self._counts[index] += 1
        return self._counts[index] >= _DENIALS

    def forget(self, index: int) -> None:
        """Record another answer."""
        self._counts.pop(index, None)

    def keep(self, indexes: AbstractSet[int]) -> None:
        """Forget all but these requests."""
        for index in self._counts.keys() - indexes:
            del self._counts[index]


class Lookups:
    """Requests that two complete scans have lacked, until they are looked up.

    There must be some time between the two scans, as a short failure may hide a request from both. After each scan,
    some of the requests are looked up, if they were last seen long enough ago. A service with one lagging server may
    show a request once, and then hide it until that server catches up. A failed look-up moves to the end of the queue
    until after the next scan. After a few failures the request is dropped, until a scan lacks it again.

    Args:
        apart: Minimum seconds from the first scan that lacked a request to the last one.
    """

    def __init__(self, apart: float) -> None:
        self._apart = apart
        self._open: dict[int, TrackedRequest] = {}
        self._misses: dict[int, _Misses] = {}
        self._failures = Counter[int]()
        self._refusals = Counter[int]()
        self._denials = Denials()
        self._turn: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._turn)

    def __contains__(self, index: int) -> bool:
        return index in self._open

    def close_listed(self, listed: AbstractSet[int]) -> None:
        """Remove the requests that a scan has listed."""
        for index in (self._open.keys() | self._misses.keys()) & listed:
            self.close(index)

    def update(self, missing: Sequence[TrackedRequest], *, began: float, before: float, long_ago: float) -> bool:
        """Record the requests that a complete scan lacked; return whether some need a second scan to confirm that.

        Args:
            missing: The lacking requests.
            began: When the scan began, on the feed's clock.
            before: When the scan before it began: the first miss of requests that an earlier run has missed.
            long_ago: A request is looked up only if it was last seen at this time or earlier.
        """
        for row in missing:
            is_known = row.missed_scans >= SCANS_THAT_MISS
            known = self._misses.get(row.index, _Misses(before if is_known else began, began))
            self._misses[row.index] = attrs.evolve(known, last=began)
            if is_known:
                self._open[row.index] = row
        self._misses = {i: m for i, m in self._misses.items() if i in self._open or m.last > began - _REMEMBERED}
        self._refusals = Counter({i: count for i, count in self._refusals.items() if i in self._misses})
        ready = (index for index, row in self._open.items() if row.last_seen <= long_ago and self._are_apart(index))
        self._turn = list(islice(ready, _LOOKUPS_A_SCAN))
        return any(row.index not in self._open or not self._are_apart(row.index) for row in missing)

    def _are_apart(self, index: int) -> bool:
        misses = self._misses[index]
        return misses.last - misses.first >= self._apart

    def next_row(self) -> TrackedRequest:
        """Return the request to look up now."""
        return self._open[self._turn[0]]

    def close(self, index: int) -> None:
        """Remove a request whose result is committed, or that is listed again."""
        self._misses.pop(index, None)
        self._refusals.pop(index, None)
        self._drop(index)

    def record_failure(self, index: int, *, is_refusal: bool) -> bool:
        """Record a failed look-up; return whether the service has refused to look up the request often enough.

        An outage proves nothing about that: after a few failures the request only makes room for others.
        """
        self._failures[index] += 1
        self._refusals[index] += is_refusal
        if self._refusals[index] >= _TRIES:
            self.close(index)
            return True
        if self._failures[index] >= _TRIES:
            self._drop(index)
            return False
        self._denials.forget(index)
        self._move_back(index)
        return False

    def record_denial(self, index: int) -> bool:
        """Record a bare 404 to a look-up; return whether there were enough in a row to deny the request.

        Each one comes after another complete scan.
        """
        if self._denials.record(index):
            return True
        self._move_back(index)
        return False

    def pause(self) -> None:
        """Stop look-ups until after the next scan."""
        self._turn = []

    def _drop(self, index: int) -> None:
        self._open.pop(index, None)
        self._failures.pop(index, None)
        self._denials.forget(index)
        self._turn = [other for other in self._turn if other != index]

    def _move_back(self, index: int) -> None:
        """Move a request to the end of the queue, until after the next scan."""
        self._open[index] = self._open.pop(index)
        self._turn = [other for other in self._turn if other != index]
