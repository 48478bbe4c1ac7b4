"""Which requests are to be looked up by their index, and when again after that failed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from freight_exchange.store.protocol import TrackedRequest

__all__ = ["SCANS_THAT_MISS", "Lookups"]

SCANS_THAT_MISS: Final = 2
"""Complete scans in a row that lack a request before it is looked up."""

_LOOKUPS_A_SCAN: Final = 10
_TRIES: Final = 5
_DENIALS: Final = 3


class Lookups:
    """What two complete scans have lacked, until it is looked up.

    After each scan it is the turn of some of those that were last seen long enough ago: a service of several machines,
    of which some show updates late, may show a request once and then not for as long as they lag. A look-up that fails
    comes again after the next scan, behind the others, and is left to the deep scans to come after a few.
    """

    def __init__(self) -> None:
        self._open: dict[int, TrackedRequest] = {}
        self._failures: dict[int, int] = {}
        self._denials: dict[int, int] = {}
        self._turn: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._turn)

    def saw(self, missing: Iterable[TrackedRequest], listed: AbstractSet[int], *, long_ago: float) -> None:
        """A complete scan lacked these, and listed those. Looked up is what was last seen `long_ago` or earlier."""
        for index in self._open.keys() & listed:
            self.done(index)
        self._open.update({row.index: row for row in missing if row.missed_scans >= SCANS_THAT_MISS})
        self._turn = [index for index, row in self._open.items() if row.last_seen <= long_ago][:_LOOKUPS_A_SCAN]

    def next(self) -> TrackedRequest:
        """The one to look up now."""
        return self._open[self._turn[0]]

    def done(self, index: int) -> None:
        """What became of it is written down."""
        self._open.pop(index, None)
        self._failures.pop(index, None)
        self._denials.pop(index, None)
        self._turn = [other for other in self._turn if other != index]

    def failed(self, index: int) -> bool:
        """The service did not say what became of it, and may do so later, unless that has been so often enough."""
        row, failures = self._open[index], self._failures.get(index, 0) + 1
        self.done(index)
        if failures < _TRIES:
            self._open[index], self._failures[index] = row, failures
        return failures >= _TRIES

    def denied(self, index: int) -> bool:
        """There is nothing there, says an answer that does not say of what; whether it has been said often enough, each
        time after another complete scan."""
        row, failures, denials = self._open[index], self._failures.get(index, 0), self._denials.get(index, 0) + 1
        if denials >= _DENIALS:
            return True
        self.done(index)
        self._open[index], self._failures[index], self._denials[index] = row, failures, denials
        return False

    def rest(self) -> None:
        """No more until after the next scan."""
        self._turn = []
