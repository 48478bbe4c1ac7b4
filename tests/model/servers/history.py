"""History of one run: the true states, the replies to the watcher, and its reports."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from tests.model.servers.drawing import Schedule
from tests.model.servers.market import Content, Market, Row, Version
from tests.model.servers.run import Claim, Log
from tests.model.servers.server import Served, StrangeServer

__all__ = ["History"]

_HOUR: Final = 3600.0
_FIVE_DAYS: Final = 432_000.0
_TIERS: Final = {"half an hour": 1800.0, "six hours": 21_600.0, "five days": _FIVE_DAYS}
"""Minimum windows of deep scans, by the names in hooks."""


def _end(begun: dict[float, tuple[Served, Served]], claim: Claim, found: list[tuple[Served, Served]]) -> None:
    """Move the scan that a claim ends to `found`: the last one that is as deep as its tier."""
    deep = [window for window in begun if window >= _TIERS.get(claim.tier, 0.0)]
    if deep:
        found.append(begun.pop(max(deep, key=lambda window: begun[window][1].at)))


class History:
    """Schedule of a run, its log, and the replies of its server."""

    def __init__(self, schedule: Schedule, log: Log, server: StrangeServer) -> None:
        self.schedule = schedule
        self.log = log
        self.server = server
        self.began = log.live[0] if log.live else schedule.end
        self._versions: dict[int, list[Version]] = {}

    @property
    def market(self) -> Market:
        return self.schedule.market

    @property
    def interval(self) -> float:
        return self.schedule.interval.total_seconds()

    def versions(self, index: int) -> list[Version]:
        if index not in self._versions:
            self._versions[index] = self.market.versions(index)
        return self._versions[index]

    def listings(self, until: float = math.inf) -> list[Served]:
        return [s for s in self.server.served if s.call == "listing" and not s.failed and s.at < until]

    def found_at(self, reported: float) -> float:
        """Return when a reported event was found: the feed reads no listing while its reader pauses."""
        return max((s.at for s in self.listings(reported)), default=reported)

    def scans(self, until: float = math.inf) -> list[Served]:
        """Return the first page of each scan."""
        return [s for s in self.listings(until) if not s.body["offset"]]

    def whole_scans(self) -> list[tuple[Served, Served]]:
        """Return the first and the last page of each scan that the feed called complete.

        Pages of one window belong to one scan until it is complete, or pauses for half an hour.
        """
        found: list[tuple[Served, Served]] = []
        begun: dict[float, tuple[Served, Served]] = {}
        claims = deque(sorted(self.log.claims, key=lambda claim: claim.at))
        for page in self.listings():
            while claims and claims[0].at < page.at:
                _end(begun, claims.popleft(), found)
            window = float(page.body["secondsSinceUpdate"])
            first, last = begun.get(window, (page, page))
            begun[window] = page if page.at - last.at > _HOUR / 2 else first, page
        for claim in claims:
            _end(begun, claim, found)
        return found

    def lookups(self, index: int, until: float) -> list[Served]:
        lookups = (s for s in self.server.served if s.call == "look-up" and not s.failed and s.at <= until)
        return [s for s in lookups if int(s.body["index"]) == index]

    def is_listed(self, index: int, content: Content | None, since: float) -> bool:
        """Return whether a listing since a time shows a request in a state."""
        return any(s.at >= since and s.rows.get(index) == content for s in self.listings())

    def first_listing(self, index: int) -> Served | None:
        return next((s for s in self.listings() if index in s.rows), None)

    def is_true(self, index: int, content: Content | None, at: float) -> bool:
        """Return whether the account could see a request in a state at a time; the state `None` means withdrawn."""
        row = self.market.visible(at).get(index)
        return (None if row is None else row.content) == content

    def is_degraded(self, at: float, *, grace: float = _HOUR) -> bool:
        """Return whether a failure was reported before a time, and had not ended long before it."""
        began = [degraded for degraded in self.log.degraded if degraded <= at]
        if not began:
            return False
        return not any(began[-1] < recovered < at - grace for recovered in self.log.recovered)

    def reach(self) -> float:
        """Return the seconds of the service's widest window."""
        quirks = self.schedule.quirks
        return {"an hour": _HOUR, "capped": float(quirks.cap)}.get(quirks.windows, _FIVE_DAYS)

    def is_within_reach(self, row: Row | None, at: float) -> bool:
        """Return whether the widest window reaches back to the last update of a request."""
        return row is None or self.schedule.quirks.service_clock(at) - row.stamp <= self.reach()

    def reaches(self, listing: Served, row: Row) -> bool:
        """Return whether the window of a listing, as the service counts it, contains the last update of a request."""
        window = self.server.counted_window(int(listing.body["secondsSinceUpdate"]))
        return row.stamp >= self.schedule.quirks.service_clock(listing.at) - window
