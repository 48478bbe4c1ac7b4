"""Requests that replies lack: whether a client could distinguish a failure from a withdrawal."""

from __future__ import annotations

import math
from typing import Final

from tests.model.servers.clocks import Clocks
from tests.model.servers.drawing import Schedule
from tests.model.servers.history import History
from tests.model.servers.replies import (
    ALLOWANCE,
    APART,
    SCANS,
    SLACK,
    TURN,
    are_apart,
    begins,
    inferred_update,
    proven_updates,
)
from tests.model.servers.run import Log, Reported
from tests.model.servers.server import Served, StrangeServer

__all__ = ["Absence"]

_HOUR: Final = 3600.0
_SIX_HOURS: Final = 21_600.0
_FIVE_DAYS: Final = 432_000.0
_MANY: Final = 3


class Absence(History):
    """Proof, by the replies of a run, about requests that they lack."""

    def __init__(self, schedule: Schedule, log: Log, server: StrangeServer) -> None:
        super().__init__(schedule, log, server)
        self.clocks = Clocks(schedule, log, server)

    def is_true_withdrawal(self, index: int, at: float) -> bool:
        """Return whether a look-up or the last scan lacked a withdrawn request, and no newer reply had shown it.

        If the request is still gone, any scan since a reply last showed it proves the same, since older replies may
        come later.
        """
        # A reader who pauses comes to an event later than to the look-ups after it.
        lookups, scans = self.lookups(index, at), self._lacking(index, at)
        for reply in (*(lookups if self.schedule.pauses else lookups[-1:]), *scans):
            if reply in scans[:-1] and not self.is_true(index, None, at):
                continue
            newer = any(s.as_of >= reply.as_of for s in self._showing(index, reply.at))
            if index not in reply.rows and not newer and self.is_true(index, None, reply.as_of):
                return True
        return False

    def excuse_for_false(self, index: int, at: float) -> str:
        """Return why replies lacked a request that was not withdrawn, or nothing."""
        if not self.is_gone_by_replies(index, at):
            return ""
        look = self.lookups(index, at)[-1]
        quirks = self.schedule.quirks
        if self.is_hidden_from_all(index, look.at, look.as_of):
            return "hidden from all listings and look-ups"
        if look.at - look.as_of > ALLOWANCE and self.is_true(index, None, look.as_of):
            return "look-ups that are older than the request"
        if any(look.at in e.span and e.lookups and e.hides(index) for e in quirks.empties):
            if not any(self._hides_many(s) for s in self._lacking(index, at) if s.at > at - _HOUR):
                return "absent from every reply of an interval, with few others"
            if self.is_degraded(at):
                return "Degraded beside it"
        return ""

    def is_hidden_from_all(self, index: int, at: float, as_of: float) -> bool:
        """Return whether a request's last update is older than every window, and look-ups have windows as well."""
        row = self.market.visible(as_of).get(index)
        return self.schedule.quirks.lookups_have_windows and row is not None and not self.is_within_reach(row, at)

    def excuse_for_missed(self, event: Reported, index: int, gone: float) -> str:
        """Return why no replies prove that a request was withdrawn, or nothing.

        Args:
            event: The last report of it.
            index: The request.
            gone: Time of its withdrawal.
        """
        if not self.is_provable(index, gone):
            return "listed before the feed began, and never seen updated"
        if self.clocks.may_be_older(index, self._found(event), gone):
            return "a wall clock that was set: it may be older than every window"
        if self._is_gap_beside(gone):
            return "a Gap beside it"
        return ""

    def is_provable(self, index: int, gone: float) -> bool:
        """Return whether six hours of scans, or two other complete ones, contain the last update of one that is gone.

        Their windows must contain it up to the last page. Replies prove the earliest possible time of the update. A
        page that a cache keeps for all windows proves nothing by the window of its request.
        """
        is_kept = self.schedule.quirks.has_cache_of_pages
        proven = proven_updates(s for s in self.listings(gone) if not (is_kept and s.as_of < s.at))
        since = proven.get(index, -math.inf)
        stale = gone + self.schedule.quirks.stale()
        if since >= stale + SCANS * (_HOUR + TURN * self.interval) - _SIX_HOURS:
            return True
        whole = [first for first, last in self.whole_scans() if first.at > stale and begins(last) <= since]
        return are_apart(whole, self.interval)

    def _found(self, event: Reported) -> float:
        """Return when the state of an event was first listed.

        A field that comes or goes is neither an update nor a return.
        """
        alike = event
        for earlier in reversed([t for t in self.log.reported if t.index == event.index and t.at <= event.at]):
            if earlier.content != event.content:
                break
            alike = alike if earlier.kind == "withdrawn" else earlier
        return self.found_at(alike.at)

    def _is_gap_beside(self, gone: float) -> bool:
        """Return whether a gap was reported before scans could prove a withdrawal, which may precede the gap."""
        gaps = [t.at for t in self.log.reported if t.kind == "Gap" and t.at > gone]
        return any(at - gone < _HOUR or self.is_degraded(at) for at in gaps)

    def is_gone_by_replies(self, index: int, at: float) -> bool:
        """Return whether all replies of an interval or longer lack a request, and a look-up as well.

        At least two scans have windows that contain its last update. One of these windows reaches back as far as
        replies prove, or as far as the service looks back.
        """
        scans = self._lacking(index, at)
        if not are_apart(scans, APART * self.interval):
            return False
        is_looked_up = any(s.at > scans[0].at for s in self.lookups(index, at))
        deepest = min(scans, key=begins)
        is_widest = float(deepest.body["secondsSinceUpdate"]) >= _FIVE_DAYS
        return is_looked_up and (is_widest or begins(deepest) <= self._proven(index, at))

    def _showing(self, index: int, at: float) -> list[Served]:
        return [s for s in (*self.listings(at), *self.lookups(index, at)) if index in s.rows]

    def _lacking(self, index: int, at: float) -> list[Served]:
        """Return the scans since a reply last showed a request whose windows contain its last update.

        A window contains the update by proof, by inference from scans that lacked the request before it was listed, or
        in truth.
        """
        last_shown = max((s.at for s in self._showing(index, at)), default=-math.inf)
        known = max(self._proven(index, at), inferred_update(index, self.listings(at)))
        scans = [s for s in self.scans(at) if s.at > last_shown]
        return [s for s in scans if begins(s) <= known or self._is_within(index, s)]

    def _proven(self, index: int, at: float) -> float:
        return proven_updates(self.listings(at)).get(index, -math.inf)

    def _is_within(self, index: int, scan: Served) -> bool:
        row = self.market.rows(scan.at).get(index)
        return row is not None and self.schedule.quirks.service_clock(begins(scan)) <= row.stamp

    def _hides_many(self, scan: Served) -> bool:
        """Return whether a scan hides three requests and a third of all known ones, which a feed calls a failure.

        Requests that may be older than the window because a clock was set forward are not expected.
        """
        if self._is_cut_off(scan):
            return False
        events = {t.index: t for t in self.log.reported if t.at < scan.at and t.index is not None}
        gone = {index for index, last in events.items() if last.kind == "withdrawn"}
        before = self.listings(scan.at)
        proven = proven_updates(before)
        least = begins(scan) + SLACK
        known_since = {i: proven.get(i, -math.inf) for i in self.market.rows(scan.at).keys() - gone}
        wanted = {i for i, since in known_since.items() if since - self.clocks.set_forward(since, scan.at) >= least}
        listed = set[int]().union(*(s.rows for s in self.listings() if abs(s.at - scan.at) <= SLACK))
        known = listed & set[int]().union(*(s.rows for s in before))
        hidden = len(wanted - listed)
        return hidden >= _MANY and 2 * hidden >= len(known)

    def _is_cut_off(self, scan: Served) -> bool:
        """Return whether a run of the watcher ended before a scan did."""
        start = next((live for live in self.log.live if live > scan.at), math.inf)
        has_gone_on = any(scan.at + SLACK < s.at < start for s in self.listings())
        return start < math.inf and not has_gone_on and not any(scan.at <= c.at < start for c in self.log.claims)
