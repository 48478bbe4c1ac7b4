"""Summary of many runs, and its report."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable

import attrs
from tests.model.watcher.naive import NAIVE
from tests.model.watcher.run import naive_run, run
from tests.model.watcher.schedule import draw

__all__ = ["FLAWS", "RunSummary"]

FLAWS = ("missed", "duplicate", "order", "withdrawn", "unreported", "lost", "watermark", "gap", "schema")

_STEPS = 50


@attrs.define
class RunSummary:
    """Counts of many runs. Summaries add up.

    Attributes:
        schedules, events, calls: Number of each.
        naive: For each naive loop, the number of its schedules, of those with a loss, and of the requests that it
            missed. Each schedule is run with one of the loops, in turn.
        flaws: Number of flaws, by kind.
        happened: Number of occurrences, by kind of event.
        failed: The seeds of the runs with a flaw, and the first of each.
    """

    schedules: int = 0
    events: int = 0
    calls: int = 0
    naive: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    flaws: Counter[str] = attrs.field(factory=Counter)
    happened: Counter[str] = attrs.field(factory=Counter)
    failed: dict[int, str] = attrs.field(factory=dict)

    @classmethod
    def of(cls, seeds: Iterable[int]) -> RunSummary:
        """Make the runs of these seeds."""
        summary = cls()
        # A run leaves cycles behind, and looking for them all the time takes a tenth of it.
        gc.disable()
        try:
            for count, seed in enumerate(seeds):
                summary.run(seed)
                if count % _STEPS == 0:
                    gc.collect()
        finally:
            gc.enable()
        return summary

    def run(self, seed: int) -> None:
        ran = run(draw(seed))
        self.schedules += 1
        self.events += len(ran.history.deliveries)
        self.calls += ran.calls
        self.happened.update(ran.happened)
        self.flaws.update(flaw.kind for flaw in ran.flaws)
        if ran.flaws:
            self.failed[seed] = f"{ran.flaws[0].kind}: {ran.flaws[0].what}"
        name = [*NAIVE][seed % len(NAIVE)]
        missed = naive_run(ran.plan, name)
        self.naive.update({(name, "schedules"): 1, (name, "lost"): int(missed > 0), (name, "missed"): missed})

    def add(self, other: RunSummary) -> None:
        self.schedules += other.schedules
        self.events += other.events
        self.calls += other.calls
        self.naive += other.naive
        self.flaws += other.flaws
        self.happened += other.happened
        self.failed |= other.failed

    @property
    def naive_share(self) -> float:
        """Return the share of schedules on which the naive loop lost requests."""
        lost = sum(count for (_, what), count in self.naive.items() if what == "lost")
        return lost / max(1, self.schedules)

    def report(self) -> str:
        lines = [
            f"{self.schedules} schedules, {self.events} events handed out, {self.calls} requests sent",
            "",
            "| What is wrong | Times |",
            "|---|---|",
            *(f"| {kind} | {self.flaws[kind]} |" for kind in FLAWS),
            "",
            "| Naive loop | Schedules | Lost on | Share | Requests missed |",
            "|---|---|---|---|---|",
        ]
        for name in NAIVE:
            runs, lost, missed = (self.naive[name, what] for what in ("schedules", "lost", "missed"))
            lines.append(f"| {name} | {runs} | {lost} | {lost / max(1, runs):.1%} | {missed} |")
        lines += ["", "| What happened | Times |", "|---|---|"]
        lines += [f"| {name} | {count} |" for name, count in sorted(self.happened.items())]
        lines += [f"seed {seed}: {flaw}" for seed, flaw in sorted(self.failed.items())]
        return "\n".join(lines)
