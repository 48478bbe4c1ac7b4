"""Counts of many runs, and their report."""

from __future__ import annotations

from collections import Counter, defaultdict

import attrs
from tests.model.socket_runs.checker import WRONG_RESULTS, Wrong
from tests.model.socket_runs.plan import WRITES, Transport
from tests.model.socket_runs.run import Run

__all__ = ["RunSummary"]

_MAX_NAMED = 12


@attrs.define
class RunSummary:
    """Counts of many runs. Summaries add up.

    Attributes:
        wrong: Seeds of the flawed runs, by flaw and subject.
        outcomes: Number of calls, by call and outcome.
        verdicts: Number of results of `reconcile()`, by result.
        fired: Number of occurrences, by fault and whether a write was committed first.
        logged: Lines of the SDK's log that show a secret.
        latest: Seconds by which a call outlived its deadline, at most.
    """

    transport: Transport
    runs: int = 0
    calls: int = 0
    wrong: defaultdict[tuple[Wrong, str], list[int]] = attrs.field(factory=lambda: defaultdict(list))
    outcomes: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    verdicts: Counter[str] = attrs.field(factory=Counter)
    fired: Counter[tuple[str, bool]] = attrs.field(factory=Counter)
    logged: int = 0
    latest: float = 0.0

    def count(self, run: Run) -> None:
        self.runs += 1
        self.calls += len(run.endings)
        for ended in run.endings:
            kind = "write" if ended.step.kind in WRITES else "read"
            self.outcomes[kind, ended.outcome] += 1
            self.latest = max(self.latest, ended.late)
            if ended.verdict:
                self.verdicts[ended.verdict] += 1
        for flaw in run.flaws:
            strikes = ", ".join(strike.name for strike in flaw.ended.step.strikes)
            self.wrong[flaw.wrong, f"{flaw.ended.step.kind}: {strikes}"].append(run.plan.seed)
        self.fired.update(run.fired)

    def add(self, other: RunSummary) -> None:
        self.runs += other.runs
        self.calls += other.calls
        self.logged += other.logged
        self.latest = max(self.latest, other.latest)
        for wrong, seeds in other.wrong.items():
            self.wrong[wrong] += seeds
        for name in ("outcomes", "verdicts", "fired"):
            getattr(self, name).update(getattr(other, name))

    def number(self, *kinds: Wrong) -> int:
        return sum(len(seeds) for (wrong, _), seeds in self.wrong.items() if wrong in kinds)

    @property
    def is_clean(self) -> bool:
        return not self.wrong and not self.logged

    def summary(self) -> str:
        verdicts = self.number(*WRONG_RESULTS - {Wrong.DUPLICATE})
        lines = [
            f"{self.transport}: {self.runs} runs, {self.calls} calls: duplicates {self.number(Wrong.DUPLICATE)},"
            f" wrong verdicts {verdicts}, foreign errors {self.number(Wrong.FOREIGN)},"
            f" hangs {self.number(Wrong.HANG)}, secrets {self.number(Wrong.SECRET) + self.logged};"
            f" at most {self.latest:.2f} s beyond a deadline"
        ]
        for (wrong, where), seeds in sorted(self.wrong.items()):
            lines.append(f"  WRONG {len(seeds)}: {wrong}: {where}: --replay {sorted(seeds)[:_MAX_NAMED]}")
        return "\n".join(lines)

    def report(self) -> str:
        """Return the totals and their details."""
        lines = [self.summary()]
        lines += [f"  {kind} {outcome}: {count}" for (kind, outcome), count in sorted(self.outcomes.items())]
        lines += [f"  reconciled, {verdict}: {count}" for verdict, count in sorted(self.verdicts.items())]
        names = sorted({name for name, _ in self.fired})
        struck = [f"{name} {self.fired[name, False]}/{self.fired[name, True]}" for name in names]
        lines += ["  struck, before and after a commit:"]
        lines += [f"    {'; '.join(struck[start : start + 4])}" for start in range(0, len(struck), 4)]
        return "\n".join(lines)
