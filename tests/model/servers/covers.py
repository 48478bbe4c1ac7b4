"""Claims of a feed that nothing before a time is missing, compared with its reports."""

from __future__ import annotations

from itertools import pairwise, zip_longest
from typing import Final

from tests.model.servers.drawing import Schedule
from tests.model.servers.entry import Entry
from tests.model.servers.finding import Finding
from tests.model.servers.history import History
from tests.model.servers.market import Content, Version
from tests.model.servers.replies import ALLOWANCE, SLACK, TURN, begins
from tests.model.servers.run import Claim, Log
from tests.model.servers.server import StrangeServer

__all__ = ["Covers"]

_BREAK: Final = 300.0
_HOUR: Final = 3600.0


class Covers(History):
    """Claims of a run on a server with complete replies that are no older than the allowance."""

    def __init__(self, schedule: Schedule, log: Log, server: StrangeServer) -> None:
        super().__init__(schedule, log, server)
        self.entry = Entry(schedule, log, server)

    def findings(self) -> list[Finding]:
        return (
            []
            if not self._is_honest()
            else [finding for index in sorted(self.market.ever) for finding in self._of(index)]
        )

    def _is_honest(self) -> bool:
        quirks = self.schedule.quirks
        complete = quirks.windows in ("exact", "minutes up", "hours up", "ignored") and not quirks.empties
        steady = not {"restore", "rights", "flap", "service clock"} & set(self.schedule.names)
        return complete and steady and quirks.stale() <= ALLOWANCE

    def _of(self, index: int) -> list[Finding]:
        """Return claims made before a state that they cover was reported, the first one for each state."""
        found: list[Finding] = []
        stale = self.schedule.quirks.stale()
        claims = sorted(self.log.claims, key=lambda claim: claim.at)
        for version in self.versions(index):
            if version.content is None or version.since <= self.began + stale:
                continue
            claim = next((c for c in claims if c.since >= version.since + stale and c.at <= version.until), None)
            if claim is None:
                continue
            handed_out = self._handed_out(claim.at)
            if version.until > handed_out and self._known(index, handed_out) != version.content:
                text = f"covered {claim.since:.0f} at {claim.at:.0f} ({claim.tier}): {version}"
                excuse = self._excuse(index, version, claim)
                found.append(Finding("claim", index, claim.at, text, excuse))
        return found

    def _excuse(self, index: int, version: Version, claim: Claim) -> str:
        if self._is_cut(index, version.since, claim):
            return "fewer rows in a page than there were"
        if self._is_kept_in_another_order(index, version, claim):
            return "a cache of pages in different orders"
        return ""

    def _is_kept_in_another_order(self, index: int, version: Version, claim: Claim) -> bool:
        """Return whether no listing up to a claim shows a state because its pages were cached in different orders.

        Each round through such pages reads the same replies. They may contain a row twice and lack another one, as on a
        service that lists a row twice.
        """
        if not self.schedule.quirks.shuffled:
            return False
        listings = [s for s in self.listings(claim.at) if s.at >= version.since]
        if any(s.rows.get(index) == version.content for s in listings):
            return False
        scan = [s for s in listings if s.at >= claim.at - SLACK and begins(s) <= version.since]
        is_kept = any(s.body == t.body and s.as_of == t.as_of < s.at for t in scan for s in scan)
        has_twice = any(
            s.body["offset"] != t.body["offset"] and s.rows.keys() & t.rows.keys() for t in scan for s in scan
        )
        return is_kept and has_twice

    def _is_cut(self, index: int, since: float, claim: Claim) -> bool:
        """Return whether a listing ended without a request at a page as long as the recent pages of the server.

        Earlier pages had more rows, so this one looks like the last one, until the hourly scan, which relies on no
        size.
        """
        quirks = self.schedule.quirks
        lowered = [at for (_, before), (at, after) in pairwise(quirks.clamps) if after < before]
        noticed = [next((s.at for s in self.listings() if s.at >= at), at) for at in lowered]
        lately = _HOUR + TURN * self.interval + SLACK
        listings = [s for s in self.listings(claim.at) if s.at >= since]
        return any(
            len(page.rows) == quirks.clamp(page.at) < max((len(s.rows) for s in self.listings(page.at)), default=0)
            and index not in page.rows
            and (later is None or later.body["offset"] != page.body["offset"] + 1)
            and any(at <= page.at <= at + lately for at in noticed)
            for page, later in zip_longest(listings, listings[1:])
            if page is not None
        )

    def _handed_out(self, at: float) -> float:
        """Return the latest time at which a reader receives the findings of a time."""
        delay = SLACK + self.schedule.pauses * 2
        # A reader who pauses again and again has as many of these before he comes to what was found.
        awake = at + SLACK
        for pause in self.log.slept:
            if pause.start <= awake and pause.end > at:
                awake += pause.end - max(pause.start, at)
        latest = max(at + delay, awake)
        for session, later in zip(self.schedule.sessions, self.log.live[1:], strict=False):
            if session.end - _BREAK <= latest and at < later:
                latest = max(latest, later + delay)
        return latest

    def _known(self, index: int, at: float) -> Content | None:
        """Return the state of a request that a reader knows at a time."""
        events = [t for t in self.log.reported if t.index == index and t.at <= at]
        if events:
            return None if events[-1].kind == "withdrawn" else events[-1].content
        return self.entry.baseline(index)
