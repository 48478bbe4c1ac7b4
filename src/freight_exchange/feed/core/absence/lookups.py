"""Requests to look up by their index, and their turns after failures. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from freight_exchange.store.protocol import TrackedRequest

__all__ = ["SCANS_THAT_MISS", "Denials", "Lookups"]

SCANS_THAT_MISS: Final = 2
"""Complete scans in a row that lack a request before it is looked up."""

_LOOKUPS_A_SCAN: Final = 10
_TRIES: Final = 5
_DENIALS: Final = 3
"""Bare 404s in a row that deny a request: one may come from a gateway."""


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

    After each scan, some of those that were last seen long enough ago are looked up: a service with a lagging machine
    may show a request once, and then hide it for as long as that lags. A failed look-up is repeated after the next
    scan, behind the others; after a few failures it is left to later deep scans.
    """

    def __init__(self) -> None:
        self._open: dict[int, TrackedRequest] = {}
        self._failures: dict[int, int] = {}
        self._denials = Denials()
        self._turn: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._turn)

    def __contains__(self, index: int) -> bool:
        return index in self._open

    def close_listed(self, listed: AbstractSet[int]) -> None:
        """Remove what a scan has listed."""
        for index in self._open.keys() & listed:
            self.close(index)

    def update(self, missing: Iterable[TrackedRequest], *, long_ago: float) -> None:
        """Record what a complete scan lacked; what was last seen `long_ago` or earlier is looked up."""
        self._open.update({row.index: row for row in missing if row.missed_scans >= SCANS_THAT_MISS})
        self._turn = [index for index, row in self._open.items() if row.last_seen <= long_ago][:_LOOKUPS_A_SCAN]

    def next_row(self) -> TrackedRequest:
        """Return the request to look up now."""
        return self._open[self._turn[0]]

    def close(self, index: int) -> None:
        """Remove a request whose fate is committed."""
        self._open.pop(index, None)
        self._failures.pop(index, None)
        self._denials.forget(index)
        self._turn = [other for other in self._turn if other != index]

    def record_failure(self, index: int) -> bool:
        """Record that a look-up failed; return whether that has happened often enough to give up."""
        self._failures[index] = self._failures.get(index, 0) + 1
        if self._failures[index] >= _TRIES:
            self.close(index)
            return True
        self._denials.forget(index)
        self._move_back(index)
        return False

    def record_denial(self, index: int) -> bool:
        """Record a bare 404 to a look-up; return whether there were enough of them.

        Each time must come after another complete scan.
        """
        if self._denials.record(index):
            return True
        self._move_back(index)
        return False

    def pause(self) -> None:
        """Look up no more until after the next scan."""
        self._turn = []

    def _move_back(self, index: int) -> None:
        """Move a request behind the others, to a turn after the next scan."""
        self._open[index] = self._open.pop(index)
        self._turn = [other for other in self._turn if other != index]
