"""Checker of one run: compares the reports of a watcher with the true history."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from tests.model.servers.absence import Absence
from tests.model.servers.clocks import Clocks
from tests.model.servers.covers import Covers
from tests.model.servers.drawing import Schedule
from tests.model.servers.entry import Entry
from tests.model.servers.finding import Finding
from tests.model.servers.history import History
from tests.model.servers.market import Version
from tests.model.servers.replies import SLACK, loudest_hour
from tests.model.servers.run import EPOCH, Log, Reported
from tests.model.servers.server import StrangeServer
from tests.model.servers.unseen import Unseen

__all__ = ["check"]

_TURNS: Final = 4
_GROWTH: Final = 600.0
"""Seconds after which a gap without a complete scan is reported again, with its new end."""
_HOUR: Final = 3600.0
_RELEASE: Final = "carbonFootprint"
_NO_OUTAGES: Final = ("400", "html", "token")


class _Checker(History):
    def __init__(self, schedule: Schedule, log: Log, server: StrangeServer) -> None:
        super().__init__(schedule, log, server)
        self.findings: list[Finding] = []
        self.fold: dict[int, Reported] = {}
        self.turns: Counter[tuple[int, int]] = Counter()
        self.absence = Absence(schedule, log, server)
        self.clocks = Clocks(schedule, log, server)
        self.entry = Entry(schedule, log, server)
        self.unseen = Unseen(schedule, log, server)

    def check(self) -> list[Finding]:
        for error in self.log.errors:
            self._find("error", None, 0, error, "refused on entry" if self._is_refused(error) else "")
        if not self.log.errors:
            self._events()
            self._final_states()
            self.findings += Covers(self.schedule, self.log, self.server).findings()
            self._recoveries()
            self._loud_failure()
        return self.findings

    def _find(self, kind: str, index: int | None, at: float, text: str, excuse: str = "") -> None:
        self.findings.append(Finding(kind, index, at, text, excuse))

    def _is_refused(self, error: str) -> bool:
        """Return whether a feed was not entered because of a reply that does not look like an outage."""
        last = self.server.served[-1]
        return not self.log.live and last.failed and last.note in _NO_OUTAGES and "StormError" not in error

    def _events(self) -> None:
        seen: Counter[tuple[str, int]] = Counter()
        for event in self.log.reported:
            if event.again:
                continue
            if event.index is not None:
                self._event(event, event.index)
                self.fold[event.index] = event
                continue
            if event.kind == "Gap" and self._is_growth(event):
                continue
            seen[event.kind, event.session] += 1
            if event.kind == "SchemaChanged":
                if not self.schedule.quirks.releases or seen[event.kind, event.session] > _TURNS + 1:
                    self._find("event SchemaChanged", None, event.at, event.text)
                continue
            gaps = sum(count for (kind, _), count in seen.items() if kind == "Gap")
            far = event.kind == "Gap" and gaps <= self.clocks.gaps(event.at)
            self._find(
                f"event {event.kind}", None, event.at, event.text, "a wall clock that is set five days" if far else ""
            )

    def _is_growth(self, event: Reported) -> bool:
        """Return whether a gap continues the previous one: no scan was complete since, and more time was lost.

        Time lost by the wall clock counts as well. The scan that finds a gap may be complete before the gap is
        delivered. Gaps that are delivered together were found by different pages of the scan.
        """
        gaps = [t for t in self.log.reported if t.kind == "Gap"]
        earlier = [t.at for t in gaps[: gaps.index(event)]]
        if not earlier:
            return False
        before = max(earlier)
        if before == event.at:
            complete = max((claim.at for claim in self.log.claims if claim.at < before), default=-math.inf)
            walls = [self.schedule.wall(page.at) for page in self.listings(before) if page.at > complete]
            return len(walls) > 1 and walls[-1] - walls[0] >= _GROWTH - SLACK
        found, found_before = self.found_at(event.at), self.found_at(before)
        has_scan = any(before < claim.at < found for claim in self.log.claims)
        lost = max(event.at - before, self.schedule.wall(found) - self.schedule.wall(found_before))
        return not has_scan and lost >= _GROWTH - SLACK

    def _event(self, event: Reported, index: int) -> None:
        before = self.fold.get(index)
        gone = before is not None and before.kind == "withdrawn"
        versions = [v for v in self.versions(index) if v.content == event.content and v.since <= event.at]
        if not versions:
            self._find("phantom", index, event.at, f"{event.kind}: {event.content}")
            return
        if event.kind == "withdrawn":
            if gone:
                self._find("repeated", index, event.at, "withdrawn twice")
            if not self.absence.is_true_withdrawal(index, event.at):
                excuse = self.absence.excuse_for_false(index, event.at)
                self._find("false withdrawal", index, event.at, f"{event.content}", excuse)
            return
        if event.kind == "new" and before is not None:
            self._find("repeated", index, event.at, f"new after {before.kind}")
        is_old = any(version.since <= self.entry.began for version in versions)
        if event.kind == "new" and self.schedule.start == "now" and is_old and self.entry.stood_before(index, event.at):
            excuse = self.entry.excuse_for_new(index, event)
            self._find("stood before", index, event.at, f"{event.content}", excuse)
        if event.returned != gone:
            self._find("returned", index, event.at, f"{event.kind} returned={event.returned} after {before}")
        if self._is_repeated(event, before):
            excuse = "a field that comes and goes, at first" if self._is_turn(event, index, before) else ""
            self._find("repeated", index, event.at, f"{event.kind} {event.changed}: {event.content}", excuse)
        elif before is not None and before.content != event.content:
            self._went_back(event, before, versions[-1], index)

    def _is_repeated(self, event: Reported, before: Reported | None) -> bool:
        if event.kind == "updated" and not event.returned and not set(event.changed) - {_RELEASE}:
            return True
        return before is not None and before.kind != "withdrawn" and before.content == event.content

    def _is_turn(self, event: Reported, index: int, before: Reported | None) -> bool:
        """Return whether a field came or went in a request since its last event, as one of the first times in a run."""
        if not self.schedule.quirks.releases or event.changed != (_RELEASE,):
            return False
        run = self._run_that_found(event)
        self.turns[index, run] += 1
        return self.turns[index, run] <= _TURNS and (before is None or self._has_turned(event, before))

    def _has_turned(self, event: Reported, before: Reported) -> bool:
        """Return whether a field came or went in a request between two events.

        The events or a reply between them show it. A change that is part of a schema change, or of an unsteady field,
        is not an event of the request, but the change back may be one. Events that are delivered together were found
        one after another, by the wall clock.
        """
        found = math.inf if before.observed is None else before.observed[1].timestamp() - EPOCH
        replies = (s for s in self.server.served if s.at < event.at and not s.failed)
        later = (s for s in replies if s.at > before.at or self.schedule.wall(s.at) > found)
        is_turned = any(event.index in s.rows and s.newer != (_RELEASE in before.fields) for s in later)
        return event.fields != before.fields or is_turned

    def _run_that_found(self, event: Reported) -> int:
        """Return the run of the watcher that found an event: the last one to read a listing before the delivery."""
        listings = self.listings(event.at)
        return sum(live <= listings[-1].at for live in self.log.live) if listings else 0

    def _went_back(self, event: Reported, before: Reported, version: Version, index: int) -> None:
        first = min(v.since for v in self.versions(index) if v.content == before.content)
        if version.until > first:
            return
        # The reply that showed the older state came after one with the newer state, and is older than it.
        shown = [s for s in self.server.served if s.at <= event.at and s.rows.get(index) == event.content]
        newer = [s for s in self.server.served if s.at <= event.at and s.rows.get(index) == before.content]
        stale = any(s.at > t.at and s.as_of < t.as_of for s in shown[-1:] for t in newer)
        excuse = "replies that are older than others" if stale else ""
        self._find("went back", index, event.at, f"{before.content} -> {event.content}", excuse)

    def _final_states(self) -> None:
        for index in sorted(self.market.ever):
            version = self.versions(index)[-1]
            event = self.fold.get(index)
            if version.content is None:
                if event is not None and event.kind != "withdrawn":
                    excuse = self.absence.excuse_for_missed(event, index, version.since)
                    self._find("missed withdrawal", index, version.since, f"last reported {event}", excuse)
                continue
            if event is None and self.schedule.start != "backfill":
                known = version.content if version.since <= self.began else self.entry.baseline(index)
            else:
                known = None if event is None or event.kind == "withdrawn" else event.content
            if known != version.content:
                text = f"{version.content}; last reported {event}"
                self._find("missed", index, version.since, text, self._excuse_for_missed(index, version, event))

    def _excuse_for_missed(self, index: int, version: Version, event: Reported | None) -> str:
        if version.content is None:
            return ""
        since = version.since
        if event is None:
            excuse = self.entry.excuse_for_missed(index, since, version.content)
            if excuse:
                return excuse
        elif event.kind == "withdrawn" and since <= event.at:
            # A reader who pauses comes to it later than the look-up by which it was found.
            lookups = self.lookups(index, event.at)
            since = max(since, lookups[-1].at) if lookups else event.at
            is_unshown = self.absence.is_hidden_from_all(index, since, since)
            if is_unshown and not self.is_listed(index, version.content, since):
                return "hidden from all listings and look-ups"
        return self.unseen.excuse(index, since, version.content)

    def _recoveries(self) -> None:
        good = [s.at for s in self.server.served if s.call == "listing" and not s.failed]
        for recovered in self.log.recovered:
            degraded = max((d for d in self.log.degraded if d <= recovered), default=None)
            if degraded is None or not any(degraded - SLACK <= at <= recovered for at in good):
                self._find("recovered", None, recovered, f"Recovered without a listing since {degraded}")

    def _loud_failure(self) -> None:
        # A token that is no longer valid costs a login, in health as well.
        logins = _HOUR / max(self.interval, self.schedule.quirks.token_lifetime)
        most = _HOUR / self.interval + logins + 2
        for failure in self.schedule.quirks.failures:
            span = failure.span
            if failure.share < 1 or span.end - span.start < _HOUR:
                continue
            if len(self.schedule.sessions) > 1:
                continue
            count = loudest_hour(self.server, span)
            if count > most:
                text = f"{count} requests an hour in {failure.kind}; in health {_HOUR / self.interval + logins:.0f}"
                self._find("loud", None, span.start, text)


def check(schedule: Schedule, log: Log, server: StrangeServer) -> list[Finding]:
    """Return all findings of a run, including the excused ones."""
    return _Checker(schedule, log, server).check()
