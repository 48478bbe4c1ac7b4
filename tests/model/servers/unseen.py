"""Requests that no reply of a server contains, for reasons outside the watcher."""

from __future__ import annotations

import math
from typing import Final

import attrs
from tests.model.servers.drawing import Schedule
from tests.model.servers.market import Content, Market, Row
from tests.model.servers.replies import begins
from tests.model.servers.run import Log
from tests.model.servers.server import Served, StrangeServer

__all__ = ["Unseen"]

_HOUR: Final = 3600.0
_FIVE_DAYS: Final = 432_000.0
_SCAN: Final = 60.0
_TURN: Final = 1.2
"""Intervals from one scan to the next, at most."""


@attrs.frozen
class Unseen:
    """The replies to one watcher, compared with the truth."""

    schedule: Schedule
    log: Log
    server: StrangeServer

    @property
    def market(self) -> Market:
        return self.schedule.market

    def listings(self, until: float = math.inf) -> list[Served]:
        return [s for s in self.server.served if s.call == "listing" and not s.failed and s.at < until]

    def is_hidden(self, index: int, at: float) -> bool:
        """Return whether a query that fails hides a request from listings."""
        return any(at in e.span and e.listings and e.hides(index) for e in self.schedule.quirks.empties)

    def reach(self) -> float:
        """Seconds of the widest window that the service knows."""
        quirks = self.schedule.quirks
        return {"an hour": _HOUR, "capped": float(quirks.cap)}.get(quirks.windows, _FIVE_DAYS)

    def is_within_reach(self, row: Row | None, at: float) -> bool:
        """Return whether that window reaches back to the last update of a request."""
        return row is None or self.schedule.quirks.service_clock(at) - row.stamp <= self.reach()

    def was_hidden_at_entry(self, index: int) -> bool:
        """Return whether a failure, or a cache of shuffled pages, hid a request from the whole first scan."""
        quirks = self.schedule.quirks
        listed = self.listings(self.log.live[0] if self.log.listed is None else self.log.listed)
        is_shuffled = quirks.shuffled and quirks.cache is not None and quirks.cache.listings
        return not any(index in s.rows for s in listed) and all(
            is_shuffled or self.is_hidden(index, s.at) for s in listed
        )

    def was_hidden_when_decided(self, index: int, updated: float) -> bool:
        """Return whether a failure hid an update during the first scan from the scan after it.

        That one looks back to the entry: without it, nothing distinguishes the update from what was there before.
        """
        entered, listed = self.log.live[0], self.log.listed
        if listed is None or not entered < updated <= listed:
            return False
        after = [s for s in self.listings() if s.at > listed and begins(s) <= entered]
        first = [s for s in after if s.at < after[0].at + _SCAN]
        later = (s for s in self.listings() if s.at > listed and begins(s) > entered)
        return all(self.is_hidden(index, s.at) for s in first) and not any(index in s.rows for s in later)

    def was_brought_back_by_the_clock(self, index: int, at: float) -> bool:
        """Return whether no listing showed a request until the service's clock was set back, and windows with it."""
        entered = self.log.live[0]
        return any(
            by < 0 and entered < when <= at and not any(index in s.rows for s in self.listings(when))
            for when, by in self.schedule.quirks.jumps
        )

    def left_while_hidden(self, index: int, since: float, content: Content) -> bool:
        """Return whether a failure hid a state until no hourly scan could list it any more.

        Args:
            index: The request.
            since: When it was updated, or reported as withdrawn.
            content: Its state, which no listing shows from then on.
        """
        interval = self.schedule.interval.total_seconds()
        if any(s.at > since and s.rows.get(index) == content for s in self.listings()):
            return False
        hidden = since
        spans = [e.span for e in self.schedule.quirks.empties if e.listings and e.hides(index)]
        for span in sorted(spans, key=lambda span: span.start):
            if span.start <= hidden + (_TURN * interval if hidden == since else 0.0):
                hidden = max(hidden, span.end)
        row = self.market.rows(hidden).get(index)
        return hidden > since and not self.is_within_reach(row, hidden + _HOUR + _TURN * interval)

    def left(self, index: int) -> float | None:
        """Return the time at which the last update of a request left the widest window, or `None`."""
        row = self.market.rows(self.schedule.end).get(index)
        if row is None or self.is_within_reach(row, self.schedule.end):
            return None
        return next(s.at for s in self.server.served if s.at >= row.stamp and not self.is_within_reach(row, s.at))
