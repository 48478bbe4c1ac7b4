"""First scan of a feed: older requests, and updates that no reply distinguishes from them."""

from __future__ import annotations

import math
from typing import Final

from tests.model.servers.clocks import Clocks
from tests.model.servers.drawing import Schedule
from tests.model.servers.history import History
from tests.model.servers.market import Content, Row
from tests.model.servers.replies import ALLOWANCE, SLACK, begins, first_alike
from tests.model.servers.run import EPOCH, Log, Reported
from tests.model.servers.server import Served, StrangeServer
from tests.model.servers.unseen import Unseen

__all__ = ["Entry"]

_SCAN: Final = 60.0
_SLOW: Final = 2.0
"""Seconds for a reply of a slow service."""


class Entry(History):
    """Requests of a run at the entry of its feed."""

    def __init__(self, schedule: Schedule, log: Log, server: StrangeServer) -> None:
        super().__init__(schedule, log, server)
        self.unseen = Unseen(schedule, log, server)
        self.clocks = Clocks(schedule, log, server)

    def row(self, index: int) -> Row | None:
        """Return a request as it was when the feed was entered.

        A reply that is older than a request neither shows it nor proves when it was published, so the oldest reply
        before the entry decides. The service's clock may have been set back, and does not decide.
        """
        data_times = [s.as_of for s in self.listings(self.began)]
        return self.market.rows(min(data_times)).get(index) if data_times else None

    def baseline(self, index: int) -> Content | None:
        """Return the content of a request at the entry of the feed, as far as the first scan listed it."""
        until = self.began if self.log.listed is None else self.log.listed
        replies = [s for s in self.server.served if s.at <= until and index in s.rows]
        stood = next(v.content for v in self.versions(index) if v.since <= self.began < v.until)
        if any(s.rows[index] == stood for s in replies):
            return stood
        early = [s.rows[index] for s in replies if s.at <= self.began]
        return early[-1] if early else None

    def stood_before(self, index: int, at: float) -> bool:
        """Return whether a request was listed when the feed was entered, and no reply since showed an update of it.

        A request that was gone by the last reply before the entry has returned after it. A backup may have undone an
        update that a reply has shown.
        """
        stood = self.row(index)
        latest = max((s.as_of for s in self.listings(self.began)), default=self.began)
        shown = [s.as_of for s in self.server.served if self.began < s.at <= at and index in s.rows]
        is_unchanged = all(self.market.rows(time).get(index) == stood for time in (at, *shown))
        return stood is not None and is_unchanged and index in self.market.rows(latest)

    def excuse_for_new(self, index: int, event: Reported) -> str:
        """Return why replies show an older request as if it was published later, or nothing."""
        if self.was_kept_for_a_later_window(index) or self.was_kept_from_a_later_window(index):
            return "a cache that answers every window alike"
        if self.clocks.may_have_slept(index, event.at):
            return "a wall clock that was set: all of a window may be later than the entry"
        if self.was_hidden(index):
            return "hidden from the first scan"
        if self.clocks.brought_back(index, event.at):
            return "a service clock that was set back: its windows list what they did not before"
        if self.may_be_older_as_the_event_says(index, event):
            return "slow replies: the window begins before the entry, as the event says"
        return ""

    def may_be_older_as_the_event_says(self, index: int, event: Reported) -> bool:
        """Return whether slow replies make windows long, and an event says how old its request may be."""
        row = self.market.rows(event.at).get(index)
        if row is None or event.observed is None or self.schedule.quirks.latency < _SLOW:
            return False
        since, _ = event.observed
        return since is not None and since.timestamp() - EPOCH <= row.stamp

    def was_kept_for_a_later_window(self, index: int) -> bool:
        """Return whether the first listing of a request was cached for another window, and is later than the entry."""
        first = self.first_listing(index)
        if first is None or not self.schedule.quirks.has_cache_of_pages:
            return False
        return first.as_of < first.at and begins(first) >= self.began - SLACK

    def was_kept_from_a_later_window(self, index: int) -> bool:
        """Return whether the first scan lacked a request because of a cached page for a window without the request.

        The page may be empty or short, and so end the scan before the pages that list the request.
        """
        row = self.row(index)
        pages = self.listings(self.began if self.log.listed is None else self.log.listed)
        if not self.schedule.quirks.has_cache_of_pages or row is None or any(index in s.rows for s in pages):
            return False
        return any(
            kept.as_of == page.as_of < page.at
            and kept.body == page.body | {"secondsSinceUpdate": kept.body["secondsSinceUpdate"]}
            and self.reaches(page, row)
            and not self.reaches(kept, row)
            for page in pages
            for kept in pages
        )

    def was_hidden(self, index: int) -> bool:
        """Return whether a failure, or a cache of shuffled pages, hid a request from the whole first scan."""
        quirks = self.schedule.quirks
        first = self.listings(self.began if self.log.listed is None else self.log.listed)
        is_shuffled = quirks.shuffled and quirks.cache is not None and quirks.cache.listings
        return not any(index in s.rows for s in first) and all(
            is_shuffled or self.unseen.is_hidden(index, s.at) for s in first
        )

    def excuse_for_missed(self, index: int, updated: float, content: Content) -> str:
        """Return why no reply distinguishes an update since the entry from the state before, or nothing."""
        if self.schedule.start == "backfill" and self.first_listing(index) is not None:
            return ""
        if self._is_in_no_window_since(index, updated):
            return "updated during the first scan, and listed by no window that begins after the entry"
        if self._was_listed_by_a_cache_alone(index, updated, content):
            return "a cache that answers every window alike"
        if self._was_all_hidden_when_decided(index, updated):
            return "an empty list by a failure, from the scan that decides what is new"
        return ""

    def _was_all_hidden_when_decided(self, index: int, updated: float) -> bool:
        """Return whether a failure emptied the scan that decides, and a request was published during the first one.

        That is the second scan, or one beside the first. This is a documented limit: the next windows are narrower, and
        a later wide one may show an update that changed nothing.
        """
        listed = self.log.listed
        if listed is None or not self.began < updated <= listed:
            return False
        is_new = not any(v.content is not None and v.since < updated for v in self.versions(index))
        since_entry = [
            s for s in self.listings() if s.at >= updated and self.began - ALLOWANCE - SLACK <= begins(s) <= updated
        ]
        return is_new and any(
            scan and all(not s.rows and self.unseen.is_hidden(index, s.as_of) for s in scan)
            for scan in (self._deciding_scan(), since_entry)
        )

    def _was_listed_by_a_cache_alone(self, index: int, updated: float, content: Content) -> bool:
        """Return whether a cache that ignores windows showed a state only to the first scan, or never."""
        since = updated if self.log.listed is None else self.log.listed
        if not self.schedule.quirks.has_cache_of_pages or self.is_listed(index, content, since):
            return False
        first = self.first_listing(index)
        return not self.is_listed(index, content, updated) or (first is not None and first.at >= updated)

    def _is_in_no_window_since(self, index: int, updated: float) -> bool:
        """Return whether no reply distinguishes an update during the first scan from one before the feed was entered.

        No earlier state was listed, and no later scan had a window that contains the update and begins after the entry.
        If an update was undone unseen, the scans before the undoing decide: a later window proves an update that
        changed nothing.
        """
        listings, quirks = self.listings(), self.schedule.quirks
        if self.log.listed is None or updated <= self.began:
            return False
        first = first_alike([v for v in self.versions(index) if self.began < v.since <= updated], index, listings)
        is_undone = first.until < updated
        if is_undone:
            listings, updated = [s for s in listings if s.at < first.until], first.since
        if updated > self.log.listed or any(index in s.rows for s in listings if s.at < updated):
            return False
        stamp = self.market.rows(updated)[index].stamp
        if any(begins(s) > self.began and self._lists(s, index, stamp) for s in listings):
            return False
        if self.was_hidden_when_decided(index, updated) or (is_undone and self._was_gone_when_decided(index)):
            return True
        scans = (s.at for s in listings if s.at >= updated)
        least = (quirks.service_clock(at) - self.server.counted_window(int(at - self.began)) for at in scans)
        return all(stamp < since for since in least)

    def _was_gone_when_decided(self, index: int) -> bool:
        """Return whether a request that the first scan listed was missing from the second one.

        The second scan looks back to the entry. Since it lacks the request, the request may be older.
        """
        first = self._deciding_scan()
        return bool(first) and all(self.is_true(index, None, s.as_of) and index not in s.rows for s in first)

    def _deciding_scan(self) -> list[Served]:
        """Return the pages of the first scan after the entry was complete that looks back to the entry."""
        listed = math.inf if self.log.listed is None else self.log.listed
        after = [s for s in self.listings() if s.at > listed and begins(s) <= self.began]
        return [s for s in after if s.at < after[0].at + _SCAN]

    def was_hidden_when_decided(self, index: int, updated: float) -> bool:
        """Return whether a failure hid an update during the first scan from the second scan.

        The second scan looks back to the entry. Without it, nothing distinguishes the update from older states.
        """
        listed = self.log.listed
        if listed is None or not self.began < updated <= listed:
            return False
        first = self._deciding_scan()
        stamp = self.market.rows(updated)[index].stamp
        later = (s for s in self.listings() if s.at > listed and begins(s) > self.began)
        is_hidden = bool(first) and all(self.unseen.is_hidden(index, s.at) for s in first)
        return is_hidden and not any(self._lists(s, index, stamp) for s in later)

    def _lists(self, listing: Served, index: int, stamp: float) -> bool:
        """Return whether a listing shows a request with this last update.

        A later update proves nothing about an earlier one.
        """
        row = self.market.rows(listing.as_of).get(index)
        return index in listing.rows and row is not None and row.stamp == stamp
