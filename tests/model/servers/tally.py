"""Sum of many runs, by quirk."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import attrs
from tests.model.servers.drawing import draw
from tests.model.servers.find import Find
from tests.model.servers.judge import judge
from tests.model.servers.quirks import Span
from tests.model.servers.replies import loudest_hour
from tests.model.servers.run import Log, watch
from tests.model.servers.unseen import DAILY

__all__ = ["Ran", "Tally", "confirmed", "run"]

_LONGER = 54 * 3600.0


@attrs.frozen
class Ran:
    """One schedule and its finds."""

    seed: int
    names: tuple[str, ...]
    finds: tuple[Find, ...]
    requests: int
    events: int
    loudness: float


def run(seed: int, only: tuple[str, ...] = ()) -> Ran:
    schedule = draw(seed, only)
    log, server = watch(schedule)
    finds = tuple(judge(schedule, log, server))
    if any(find.excuse == DAILY for find in finds):
        finds = _confirmed(seed, only, finds)
    loudness = loudest_hour(server, Span(0, schedule.end)) / (3600 / schedule.interval.total_seconds())
    return Ran(seed, schedule.names, finds, len(server.served), len(log.reported), loudness)


def _confirmed(seed: int, only: tuple[str, ...], finds: tuple[Find, ...]) -> tuple[Find, ...]:
    schedule = draw(seed, only, longer=_LONGER)
    log, server = watch(schedule)
    return confirmed(finds, judge(schedule, log, server), log, draw(seed, only).end)


def confirmed(finds: Iterable[Find], longer: Iterable[Find], log: Log, end: float) -> tuple[Find, ...]:
    """Excuse what the daily scan alone lists only if a longer run reports it.

    Args:
        finds: Finds of a run.
        longer: Finds of a longer one. What it reports, it may miss later for another reason.
        log: Log of the longer run.
        end: When the first one ended.
    """
    reported = {event.index for event in log.reported if event.at > end and event.kind != "withdrawn"}
    still = {find.index for find in longer if find.kind == "missed"} - reported
    return tuple(
        attrs.evolve(find, excuse="") if find.excuse == DAILY and find.index in still else find for find in finds
    )


@attrs.define
class Tally:
    """Counts over runs."""

    runs: Counter[str] = attrs.field(factory=Counter)
    finds: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    excused: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    by_habit: defaultdict[str, Counter[str]] = attrs.field(factory=lambda: defaultdict(Counter))
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
            kinds = {find.kind for find in ran.finds if not find.excuse}
            for find in ran.finds:
                (self.excused if find.excuse else self.finds)[find.kind, find.excuse] += 1
            for kind in kinds:
                self.seeds[kind].append((len(ran.names), ran.seed, ran.names))
            for name in ran.names:
                self.by_habit[name].update(kinds)

    def merge(self, other: Tally) -> None:
        self.runs += other.runs
        self.finds += other.finds
        self.excused += other.excused
        self.requests += other.requests
        self.events += other.events
        self.loudest = sorted([*self.loudest, *other.loudest], reverse=True)[:10]
        for quirk, counts in other.by_habit.items():
            self.by_habit[quirk].update(counts)
        for kind, seeds in other.seeds.items():
            self.seeds[kind] += seeds

    @property
    def broken(self) -> int:
        return sum(self.finds.values())

    def report(self) -> str:
        lines = [
            f"{self.runs['all']} schedules, {self.requests} requests, {self.events} events",
            "",
            "broken promises:",
        ]
        for (kind, _), count in self.finds.most_common():
            seeds = sorted(self.seeds[kind])[:6]
            lines.append(f"  {kind}: {count} in {len(self.seeds[kind])} schedules; {seeds}")
        lines += ["  none"] if not self.finds else []
        lines += ["", "excused:"]
        lines += [f"  {kind}, {excuse}: {count}" for (kind, excuse), count in self.excused.most_common()]
        lines += ["", "by quirk (schedules; those with a broken promise, by kind):"]
        for quirk in sorted(self.runs):
            lines.append(f"  {quirk}: {self.runs[quirk]}; {dict(self.by_habit[quirk])}")
        lines += ["", "most requests an hour, in those of an idle feed:"]
        lines += [f"  {loudness:.1f} seed {seed} {names}" for loudness, seed, names in self.loudest]
        return "\n".join(lines)
