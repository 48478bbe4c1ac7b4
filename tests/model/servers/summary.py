"""Summary of many runs, by quirk."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import attrs
from tests.model.servers.checker import check
from tests.model.servers.drawing import draw
from tests.model.servers.finding import Finding
from tests.model.servers.quirks import Span
from tests.model.servers.replies import loudest_hour
from tests.model.servers.run import Log, watch
from tests.model.servers.unseen import DAILY

__all__ = ["Ran", "RunSummary", "confirmed", "run"]

_LONGER = 54 * 3600.0


@attrs.frozen
class Ran:
    """Schedule and its findings."""

    seed: int
    names: tuple[str, ...]
    findings: tuple[Finding, ...]
    requests: int
    events: int
    loudness: float


def run(seed: int, only: tuple[str, ...] = ()) -> Ran:
    schedule = draw(seed, only)
    log, server = watch(schedule)
    findings = tuple(check(schedule, log, server))
    if any(finding.excuse == DAILY for finding in findings):
        findings = _confirmed(seed, only, findings)
    loudness = loudest_hour(server, Span(0, schedule.end)) / (3600 / schedule.interval.total_seconds())
    return Ran(seed, schedule.names, findings, len(server.served), len(log.reported), loudness)


def _confirmed(seed: int, only: tuple[str, ...], findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    schedule = draw(seed, only, longer=_LONGER)
    log, server = watch(schedule)
    return confirmed(findings, check(schedule, log, server), log, draw(seed, only).end)


def confirmed(findings: Iterable[Finding], longer: Iterable[Finding], log: Log, end: float) -> tuple[Finding, ...]:
    """Confirm the excuse of the daily scan only for states that a longer run reports.

    Args:
        findings: Findings of a run.
        longer: Findings of a longer one. What it reports, it may miss later for another reason.
        log: Log of the longer run.
        end: End of the first run.
    """
    reported = {event.index for event in log.reported if event.at > end and event.kind != "withdrawn"}
    still = {finding.index for finding in longer if finding.kind == "missed"} - reported
    return tuple(
        attrs.evolve(finding, excuse="") if finding.excuse == DAILY and finding.index in still else finding
        for finding in findings
    )


@attrs.define
class RunSummary:
    """Counts of many runs. Summaries add up."""

    runs: Counter[str] = attrs.field(factory=Counter)
    findings: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    excused: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    by_quirk: defaultdict[str, Counter[str]] = attrs.field(factory=lambda: defaultdict(Counter))
    seeds: defaultdict[str, list[tuple[int, int, tuple[str, ...]]]] = attrs.field(factory=lambda: defaultdict(list))
    loudest: list[tuple[float, int, tuple[str, ...]]] = attrs.field(factory=list)
    requests: int = 0
    events: int = 0

    def add(self, rans: Iterable[Ran]) -> None:
        for ran in rans:
            self.requests += ran.requests
            self.events += ran.events
            self.runs["all"] += 1
            self.runs.update(ran.names)
            self.loudest = sorted([*self.loudest, (ran.loudness, ran.seed, ran.names)], reverse=True)[:10]
            kinds = {finding.kind for finding in ran.findings if not finding.excuse}
            for finding in ran.findings:
                (self.excused if finding.excuse else self.findings)[finding.kind, finding.excuse] += 1
            for kind in kinds:
                self.seeds[kind].append((len(ran.names), ran.seed, ran.names))
            for name in ran.names:
                self.by_quirk[name].update(kinds)

    def merge(self, other: RunSummary) -> None:
        self.runs += other.runs
        self.findings += other.findings
        self.excused += other.excused
        self.requests += other.requests
        self.events += other.events
        self.loudest = sorted([*self.loudest, *other.loudest], reverse=True)[:10]
        for quirk, counts in other.by_quirk.items():
            self.by_quirk[quirk].update(counts)
        for kind, seeds in other.seeds.items():
            self.seeds[kind] += seeds

    @property
    def broken(self) -> int:
        return sum(self.findings.values())

    def report(self) -> str:
        lines = [
            f"{self.runs['all']} schedules, {self.requests} requests, {self.events} events",
            "",
            "broken promises:",
        ]
        for (kind, _), count in self.findings.most_common():
            seeds = sorted(self.seeds[kind])[:6]
            lines.append(f"  {kind}: {count} in {len(self.seeds[kind])} schedules; {seeds}")
        lines += ["  none"] if not self.findings else []
        lines += ["", "excused:"]
        lines += [f"  {kind}, {excuse}: {count}" for (kind, excuse), count in self.excused.most_common()]
        lines += ["", "by quirk (schedules; those with a broken promise, by kind):"]
        for quirk in sorted(self.runs):
            lines.append(f"  {quirk}: {self.runs[quirk]}; {dict(self.by_quirk[quirk])}")
        lines += ["", "most requests an hour, in those of an idle feed:"]
        lines += [f"  {loudness:.1f} seed {seed} {names}" for loudness, seed, names in self.loudest]
        return "\n".join(lines)
