"""Judge of one run: what a watcher reported, against what was true."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Final

from tests.model.servers.drawing import Schedule
from tests.model.servers.evidence import Evidence, Find
from tests.model.servers.market import Content
from tests.model.servers.replies import begins, first_alike, loudest_hour, proven_updates
from tests.model.servers.run import Log, Reported
from tests.model.servers.server import Served, StrangeServer

__all__ = ["Find", "judge"]

_ALLOWANCE: Final = 60.0
_SLACK: Final = 60.0
_BREAK: Final = 300.0
_TURNS: Final = 4
_SCANS: Final = 2
_MANY: Final = 3
_HOUR: Final = 3600.0
_FIVE_DAYS: Final = 432_000.0


class _Judge(Evidence):
    def judge(self) -> list[Find]:
        for error in self.log.errors:
            # Entering a feed raises what does not look like an outage.
            refused = not self.log.live and any(
                self.server.served[-1].at in t.span for t in self.schedule.quirks.troubles
            )
            self.find("error", None, 0, error, "refused on entry" if refused else "")
        if not self.log.errors:
            self._events()
            self._final_states()
            self._covers()
            self._recoveries()
            self._loud_trouble()
        return self.finds

    def _events(self) -> None:
        schemas: Counter[int] = Counter()
        for event in self.log.reported:
            if event.again:
                continue
            if event.index is None:
                schemas[event.session] += event.kind == "SchemaChanged"
                expected = self.schedule.quirks.releases and schemas[event.session] <= _TURNS + 1
                if event.kind != "SchemaChanged" or not expected:
                    far = event.kind == "Gap" and self._far_jump(event.at)
                    excuse = "a wall clock that is set five days" if far else ""
                    self.find(f"event {event.kind}", None, event.at, event.text, excuse)
                continue
            self._event(event, event.index)
            self.fold[event.index] = event

    def _event(self, event: Reported, index: int) -> None:
        before = self.fold.get(index)
        gone = before is not None and before.kind == "withdrawn"
        versions = [v for v in self.versions(index) if v.content == event.content and v.since <= event.at]
        if not versions:
            self.find("phantom", index, event.at, f"{event.kind}: {event.content}")
            return
        if event.kind == "withdrawn":
            if gone:
                self.find("repeated", index, event.at, "withdrawn twice")
            self._withdrawal(event, index, versions[0].since)
            return
        if event.kind == "new" and before is not None:
            self.find("repeated", index, event.at, f"new after {before.kind}")
        if event.kind == "new" and self.schedule.start == "now" and self._stood_before(index, event.at):
            excuse = "a cache that answers every window alike" if self.schedule.quirks.has_cache_of_pages else ""
            if self._may_have_slept(event.at):
                excuse = "a wall clock that was set: all of a window may be later than the entry"
            elif self.unseen.was_hidden_at_entry(index):
                excuse = "hidden from the first scan"
            elif self.unseen.was_brought_back_by_the_clock(index, event.at):
                excuse = "a service clock that was set back: its windows list what they did not before"
            self.find("stood before", index, event.at, f"{event.content}", excuse)
        if event.returned != gone:
            self.find("returned", index, event.at, f"{event.kind} returned={event.returned} after {before}")
        if before is not None and not gone and before.content == event.content:
            run = self._run_that_found(event)
            self.turns[index, run] += 1
            known = self.schedule.quirks.releases and self.turns[index, run] <= _TURNS
            excuse = "a field that comes and goes, at first" if known and len(event.changed) == 1 else ""
            self.find("repeated", index, event.at, f"{event.kind} {event.changed}: {event.content}", excuse)
        if before is not None and before.content != event.content:
            first = min(v.since for v in self.versions(index) if v.content == before.content)
            if versions[-1].until <= first:
                excuse = "replies that are older than others" if self.schedule.quirks.stale() else ""
                self.find("went back", index, event.at, f"{before.content} -> {event.content}", excuse)

    def _may_have_slept(self, at: float) -> bool:
        """Return whether only by the wall clock the last window began after the entry: the machine may have slept."""
        last = self._listings(at)[-1]
        jumps = (by for when, by in self.schedule.wall_jumps if self.began < when <= last.at)
        least = self.began - _ALLOWANCE - _SLACK
        return begins(last) < least <= begins(last) + max((*jumps, 0.0))

    def _run_that_found(self, event: Reported) -> int:
        """The run of the watcher that found an event: the last one that had read a listing when it was handed out."""
        listings = self._listings(event.at)
        return sum(live <= listings[-1].at for live in self.log.live) if listings else 0

    def _stood_before(self, index: int, at: float) -> bool:
        """Return whether a request was listed when the feed was entered, and was not updated since."""
        stood = self._at_entry(index)
        return stood is not None and stood == self.market.rows(at).get(index)

    def _withdrawal(self, event: Reported, index: int, appeared: float) -> None:
        # A reader who pauses comes to it later than the look-up by which it was found.
        lookups = self._lookups(index, event.at)
        found = min(event.at, lookups[-1].at if lookups else math.inf)
        since = max(found - self.schedule.quirks.stale() - _SLACK, appeared)
        for version in self.versions(index):
            if version.content is None and version.since < event.at and version.until > since:
                return
        excuse = ""
        if self.schedule.quirks.lookups_have_windows and not self._is_shown(index, event.at, lookups):
            excuse = "shown to no question, as if gone"
        elif lookups and lookups[-1].as_of < appeared:
            excuse = "look-ups that are older than the request"
        elif self._is_gone_by_every_reply(index, event.at):
            excuse = "gone by every reply of an interval, as few others"
        self.find("false withdrawal", index, event.at, f"{event.content}", excuse)

    def _is_shown(self, index: int, at: float, lookups: list[Served]) -> bool:
        """Return whether windows reach back to the last update of a request, also by the replica that was asked."""
        answers = [(at, at), *((look.as_of, look.at) for look in lookups[-1:])]
        return all(self.unseen.is_within_reach(self.market.rows(as_of).get(index), when) for as_of, when in answers)

    def _far_jump(self, at: float) -> bool:
        jumps = (*self.schedule.wall_jumps, *self._unreported_times())
        return any(abs(by) >= _FIVE_DAYS and when <= at for when, by in jumps)

    def _unreported_times(self) -> list[tuple[float, float]]:
        """Starts on another machine whose wall clock is behind the last one's: no clock shows how long ago that was."""
        found: list[tuple[float, float]] = []
        for session in self.schedule.sessions[1:]:
            before = max((s.at for s in self._listings(session.start)), default=math.inf)
            after = min((s.at for s in self.server.served if s.call == "listing" and s.at > before), default=before)
            if not session.same_machine and self.schedule.wall(after) < self.schedule.wall(before):
                found.append((session.start, _FIVE_DAYS))
        return found

    def _is_gone_by_every_reply(self, index: int, at: float) -> bool:
        """Return whether, for an interval or longer, each reply hid it that had to list it by truth or earlier replies.

        The listings of the last hour hid few others, and the service answers look-ups of others: nothing shows a client
        that they err.
        """
        listings = self._listings(at)
        lookups = [s for s in self._lookups(index, at) if self.schedule.quirks.hides_some_from_lookups(s.at)]
        last_shown = max((s.at for s in (*listings, *self._lookups(index, at)) if index in s.rows), default=-math.inf)
        proven = proven_updates(listings).get(index, -math.inf)
        scans = [s for s in listings if s.at > last_shown and not s.body["offset"]]
        scans = [s for s in scans if begins(s) <= proven or self._is_within(index, s)]
        if len(scans) < _SCANS or not any(s.at > last_shown for s in lookups):
            return False
        lasted = scans[-1].at - scans[0].at >= 0.8 * self.schedule.interval.total_seconds()
        return lasted and not any(self._hides_many(scan) for scan in scans if scan.at > at - _HOUR)

    def _is_within(self, index: int, listing: Served) -> bool:
        row = self.market.rows(listing.at).get(index)
        return row is not None and self.schedule.quirks.service_clock(begins(listing)) <= row.stamp

    def _hides_many(self, scan: Served) -> bool:
        """Return whether a scan hides at least three requests and a third of all known: to a feed, a failure."""
        events = {t.index: t for t in self.log.reported if t.at < scan.at and t.index is not None}
        gone = {index for index, last in events.items() if last.kind == "withdrawn"}
        before = self._listings(scan.at)
        proven = proven_updates(before)
        least = begins(scan) + _SLACK
        wanted = {i for i in self.market.rows(scan.at).keys() - gone if proven.get(i, -math.inf) >= least}
        listed = set[int]().union(*(s.rows for s in self._listings(math.inf) if abs(s.at - scan.at) <= _SLACK))
        known = listed & set[int]().union(*(s.rows for s in before))
        hidden = len(wanted - listed)
        return hidden >= _MANY and 2 * hidden >= len(known)

    def _final_states(self) -> None:
        for index in sorted(self.market.ever):
            version = self.versions(index)[-1]
            event = self.fold.get(index)
            if version.content is None:
                if event is not None and event.kind != "withdrawn":
                    # Such a request may be older than every window; a field that comes or goes is no update of it.
                    known = self._is_updated_since_entry(event, index, version.since)
                    excuse = "" if known else "there before the feed began, not seen updated"
                    if known and self._may_be_older(self._first_of(event), version.since):
                        excuse = "a wall clock that was set: it may be older than every window"
                    elif known and self._is_gap_beside(version.since):
                        excuse = "a Gap beside it"
                    self.find("missed withdrawal", index, version.since, f"last reported {event}", excuse)
                continue
            if event is None and self.schedule.start != "backfill":
                known_content = version.content if version.since <= self.began else self._baseline(index)
            else:
                known_content = None if event is None or event.kind == "withdrawn" else event.content
            if known_content != version.content:
                visible = max(self.schedule.active, version.since + self.schedule.quirks.stale())
                excuse = "" if self._reached(index, visible) else "never listed"
                if event is not None and event.kind == "withdrawn" and not self._reached(index, self.schedule.end):
                    excuse = "shown to no question, as if gone" if self.schedule.quirks.lookups_have_windows else excuse
                if event is None and self._was_hidden_by_a_cache(index, version.content):
                    excuse = "a cache that answers every window alike"
                if event is None and self._is_in_no_window_since_entry(index, version.since):
                    excuse = "updated during the first scan, and listed by no window that begins after the entry"
                since = version.since if event is None or event.kind != "withdrawn" else max(event.at, version.since)
                if self.unseen.left_while_hidden(index, since, version.content):
                    excuse = "hidden until no hourly scan could list it any more"
                left = self.unseen.left(index)
                if not excuse and left is not None and self._in_trouble(left):
                    excuse = "Degraded when it left the widest window of the service"
                self.find("missed", index, version.since, f"{version.content}; last reported {event}", excuse)

    def _first_of(self, event: Reported) -> Reported:
        """The event that first reported the state of an event: a field that comes or goes is no update."""
        alike = event
        for earlier in reversed([t for t in self.log.reported if t.index == event.index and t.at <= event.at]):
            if earlier.content != event.content or earlier.kind == "withdrawn":
                break
            alike = earlier
        return alike

    def _is_gap_beside(self, gone: float) -> bool:
        """Return whether a gap was reported before scans could prove that a request is gone: it may be older since."""
        gaps = [t.at for t in self.log.reported if t.kind == "Gap" and t.at > gone]
        return any(at - gone < _HOUR or self._in_trouble(at) for at in gaps)

    def _is_updated_since_entry(self, event: Reported, index: int, until: float) -> bool:
        """Return whether replies prove that a request was updated, or published, after the first listing."""
        # A reply that a cache keeps for all windows of a page proves nothing by the window of its request.
        is_kept = self.schedule.quirks.has_cache_of_pages
        listings = [s for s in self._listings(until) if not (is_kept and s.as_of < s.at)]
        if listings and proven_updates(listings).get(index, -math.inf) >= listings[0].at:
            return True
        return event.observed is not None and event.observed[0] is not None and self._at_entry(index) is None

    def _is_in_no_window_since_entry(self, index: int, updated: float) -> bool:
        """Return whether no reply distinguishes an update during the first scan from one before the feed was entered.

        No earlier state was listed, and at no scan since was a window that begins after the entry counted as so wide.
        Of what was updated and updated back unseen, the scans until then decide, unless a late window lists it.
        """
        listings, quirks = self._listings(math.inf), self.schedule.quirks
        if self.log.listed is None or updated <= self.began:
            return False
        first = first_alike([v for v in self.versions(index) if self.began < v.since <= updated], index, listings)
        if first.until < updated and all(index not in s.rows or begins(s) <= self.began + _HOUR for s in listings):
            listings, updated = [s for s in listings if s.at < first.until], first.since
        if updated > self.log.listed or any(index in s.rows for s in listings if s.at < updated):
            return False
        stamp = self.market.rows(updated)[index].stamp
        if self.unseen.was_hidden_when_decided(index, updated):
            return True
        scans = (s.at for s in listings if s.at >= updated)
        least = (quirks.service_clock(at) - self.server.counted_window(int(at - self.began)) for at in scans)
        return all(stamp < since for since in least)

    def _was_hidden_by_a_cache(self, index: int, content: Content) -> bool:
        """Return whether a cache that answers every window alike showed a state to the first scan only, or never."""
        if not self.schedule.quirks.has_cache_of_pages:
            return False
        listed = math.inf if self.log.listed is None else self.log.listed
        return not any(
            s.at > listed for s in self.server.served if s.call == "listing" and s.rows.get(index) == content
        )

    def _may_be_older(self, event: Reported, gone: float) -> bool:
        """Return whether a jump of the watcher's wall clock leaves the absence of a request unproven."""
        # What waits for its reader was found before: no listing is read meanwhile.
        found = self._listings(event.at)[-1].at
        listings = [s for s in self.server.served if s.call == "listing" and not s.failed and not s.body["offset"]]
        for when, by in (*self.schedule.wall_jumps, *self._unreported_times()):
            first = next((s.at for s in listings if s.at >= when), math.inf)
            # The scan after the jump shows what was updated in all the time that has passed by the wall clock.
            if by <= 0 or found > first + _SLACK:
                continue
            proofs = [s for s in listings if s.at > gone and begins(s) < found - by]
            if len(proofs) < _SCANS:
                return True
        return False

    def _covers(self) -> None:
        quirks = self.schedule.quirks
        honest = quirks.windows in ("exact", "minutes up", "hours up", "ignored") and not quirks.empties
        steady = not {"restore", "rights", "flap", "service clock"} & set(self.schedule.names)
        if not honest or not steady or quirks.stale() > _ALLOWANCE:
            return
        lowered = any(later < rows for (_, rows), (_, later) in pairwise(quirks.clamps))
        excuse = "fewer rows in a page than there were" if lowered else ""
        claims = sorted(self.log.claims, key=lambda claim: claim.at)
        for index in sorted(self.market.ever):
            for version in self.versions(index):
                if version.content is None or version.since <= self.began + quirks.stale():
                    continue
                for claim in claims:
                    if claim.since < version.since + quirks.stale() or claim.at > version.until:
                        continue
                    handed_out = self._handed_out(claim.at)
                    if version.until > handed_out and self._known(index, handed_out) != version.content:
                        text = f"covered {claim.since:.0f} at {claim.at:.0f} ({claim.tier}): {version}"
                        self.find("claim", index, claim.at, text, excuse)
                    break

    def _handed_out(self, at: float) -> float:
        """Return the latest time at which a reader has the findings of that time."""
        delay = _SLACK + self.schedule.pauses * 2
        # A reader who pauses again and again has as many of these before he comes to what was found.
        awake = at + _SLACK
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
        return self._baseline(index)

    def _recoveries(self) -> None:
        good = [s.at for s in self.server.served if s.call == "listing" and not s.failed]
        for recovered in self.log.recovered:
            degraded = max((d for d in self.log.degraded if d <= recovered), default=None)
            if degraded is None or not any(degraded - _SLACK <= at <= recovered for at in good):
                self.find("recovered", None, recovered, f"Recovered without a listing since {degraded}")

    def _loud_trouble(self) -> None:
        interval = self.schedule.interval.total_seconds()
        # A token that is no longer valid costs a login, in health as well.
        logins = _HOUR / max(interval, self.schedule.quirks.token_lifetime)
        most = _HOUR / interval + logins + 2
        for trouble in self.schedule.quirks.troubles:
            span = trouble.span
            if trouble.share < 1 or span.end - span.start < _HOUR:
                continue
            if len(self.schedule.sessions) > 1:
                continue
            count = loudest_hour(self.server, span)
            if count > most:
                text = f"{count} requests an hour in {trouble.kind}; in health {_HOUR / interval + logins:.0f}"
                self.finds.append(Find("loud", None, span.start, text))


def judge(schedule: Schedule, log: Log, server: StrangeServer) -> list[Find]:
    """All finds of a run, those excused included."""
    return _Judge(schedule, log, server).judge()
