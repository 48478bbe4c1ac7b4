"""States of requests that no reply of a server contains, for reasons outside the watcher."""

from __future__ import annotations

import math
from typing import Final

from tests.model.servers.history import History
from tests.model.servers.market import Content
from tests.model.servers.replies import TURN
from tests.model.servers.server import Served

__all__ = ["DAILY", "Unseen"]

DAILY: Final = "listed by the daily scan alone"
"""Excuse that a longer run must confirm."""

_HOUR: Final = 3600.0
_FIVE_MINUTES: Final = 300.0
_HALF_AN_HOUR: Final = 1800.0
_SIX_HOURS: Final = 21_600.0
_DAY: Final = 86_400.0


def _original(page: Served) -> tuple[object, ...]:
    """Return the parts of a page that a cached copy shares with its original."""
    return page.as_of, page.body["offset"], page.body.get("rowsperpage")


class Unseen(History):
    """Replies to one watcher, compared with the true states."""

    def excuse(self, index: int, since: float, content: Content) -> str:
        """Return why no listing after a time shows a state, or nothing if one does or should.

        Args:
            index: The request.
            since: Time of its update, or of the report of its withdrawal.
            content: Its state.
        """
        if self.is_listed(index, content, since):
            return ""
        if self.is_beyond_reach(index, since):
            return "never listed"
        if self.left_while_hidden(index, since):
            return "hidden until no hourly scan could list it any more"
        if self.left_while_the_reader_paused(index, since):
            return "left the widest window while the reader paused"
        if self.is_lacked_by_kept_pages_alone(index, since):
            return "a cache that answers every window alike"
        if self.is_older_than_hourly_scans(index, since):
            return "left the widest window before the daily scan" if self.left_within_a_day(index, since) else DAILY
        if self.left_before_the_hourly_scan(index, self._visible(since)):
            return "left the widest window before the hourly scan"
        left = self.left(index, since)
        if left is not None and self.is_degraded(left, grace=0.0):
            return "Degraded when it left the widest window of the service"
        return ""

    def is_hidden(self, index: int, at: float) -> bool:
        """Return whether a failing query hides a request from listings."""
        return any(at in e.span and e.listings and e.hides(index) for e in self.schedule.quirks.empties)

    def is_beyond_reach(self, index: int, since: float) -> bool:
        """Return whether a request's last update is older than every window by the time replies show a state."""
        visible = self._visible(since)
        return not self.is_within_reach(self.market.rows(visible).get(index), visible)

    def is_older_than_hourly_scans(self, index: int, since: float) -> bool:
        """Return whether the last update of a request is too old for the next scan of six hours."""
        visible = self._visible(since)
        row = self.market.rows(visible).get(index)
        latest = visible + _HOUR + TURN * self.interval
        return row is not None and self.schedule.quirks.service_clock(latest) - row.stamp > _SIX_HOURS

    def is_lacked_by_kept_pages_alone(self, index: int, since: float) -> bool:
        """Return whether each complete scan since a time contains a page cached for a window without a request.

        Older pages prove nothing either, nor do pages of a failing query that hid the request.
        """
        row = self.market.rows(since).get(index)
        if row is None or not self.schedule.quirks.has_cache_of_pages:
            return False
        originals: dict[tuple[object, ...], Served] = {}
        for page in self.listings():
            originals.setdefault(_original(page), page)

        def proves(page: Served) -> bool:
            is_new = page.as_of >= since and not self.is_hidden(index, page.as_of)
            return is_new and self.reaches(originals[_original(page)], row)

        return not any(all(map(proves, self._pages(*ends))) for ends in self.whole_scans())

    def _pages(self, first: Served, last: Served) -> list[Served]:
        window = first.body["secondsSinceUpdate"]
        pages = (s for s in self.listings() if s.body["secondsSinceUpdate"] == window)
        return [s for s in pages if first.at <= s.at <= last.at]

    def left_within_a_day(self, index: int, since: float) -> bool:
        """Return whether a request leaves the widest window before a daily scan is due, once replies show a state."""
        visible = self._visible(since)
        row = self.market.rows(visible).get(index)
        return row is not None and not self.is_within_reach(row, visible + _DAY + TURN * self.interval)

    def left_while_hidden(self, index: int, since: float) -> bool:
        """Return whether a failure hid a request until neither hourly nor half-hourly scans could list it any more.

        Before and after, requests may fail without a reply.
        """
        quirks = self.schedule.quirks
        hidden, ended = since, -math.inf
        failures = [(e.span, True) for e in quirks.empties if e.listings and e.hides(index)]
        failures += [(t.span, False) for t in quirks.failures if t.share == 1]
        for span, is_hiding in sorted(failures, key=lambda failure: failure[0].start):
            if span.start <= hidden + (TURN * self.interval if hidden == since else 0.0):
                hidden = max(hidden, span.end)
                ended = max(ended, span.end) if is_hiding else ended
        return ended > since and self.left_before_the_hourly_scan(index, hidden)

    def left_before_the_hourly_scan(self, index: int, at: float) -> bool:
        """Return whether a request leaves the widest window before the next hourly and half-hourly scans.

        Half-hourly windows are scanned every five minutes, or every interval.
        """
        row = self.market.rows(at).get(index)
        if row is None:
            return False
        age = self.schedule.quirks.service_clock(at) - row.stamp
        is_too_old = age + TURN * max(_FIVE_MINUTES, self.interval) > _HALF_AN_HOUR
        return is_too_old and not self.is_within_reach(row, at + _HOUR + TURN * self.interval)

    def left_while_the_reader_paused(self, index: int, since: float) -> bool:
        """Return whether a request left the widest window while the reader paused, and the feed read no listing.

        Between pauses the reader receives the earlier findings. Within an interval after that, the feed reads a
        listing.
        """
        visible = self._visible(since)
        row = self.market.rows(visible).get(index)
        if row is None:
            return False
        left = visible + self.reach() - (self.schedule.quirks.service_clock(visible) - row.stamp)
        paused = sum(max(0.0, min(p.end, left) - max(p.start, visible)) for p in self.log.slept)
        is_read = any(visible <= s.at <= left for s in self.listings())
        return paused > 0 and left - visible - paused <= TURN * self.interval and not is_read

    def _visible(self, since: float) -> float:
        """Return the first time at which replies show the state of a time."""
        first = min((s.at for s in self.listings()), default=self.began)
        return max(since + self.schedule.quirks.stale(), first)

    def left(self, index: int, since: float) -> float | None:
        """Return the first request after a time whose widest window no longer reaches back to a request's update.

        A service that is restored from a backup continues with an older update.
        """
        later = (s.at for s in self.server.served if s.at >= since)
        return next((at for at in later if not self.is_within_reach(self.market.rows(at).get(index), at)), None)
