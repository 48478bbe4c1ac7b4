"""Table of the results of many runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs
from tests.model.fault_runs.checker import Wrong
from tests.model.fault_runs.run import Run

__all__ = ["RunSummary"]

_COLUMNS = ("success", "error", "Applied", "NotApplied", "Conflict", "StillUnknown", "refused", "cancelled")
_MAX_NAMED = 20


@attrs.define
class RunSummary:
    """Counts of many runs. Summaries add up.

    Attributes:
        runs: Number of runs.
        wrong: Seeds of the flawed runs, by flaw.
        undecided: Seeds of the runs that stayed in doubt, although the outcome was visible in time.
        looked: Number of reconciled runs.
        visible: Number of reconciled runs with a visible outcome.
        decided: Number of visible outcomes that were decided.
        hidden: Number of reconciled runs without a visible outcome, by reason.
        naive: Writes of the repeating client that were carried out more than once.
        fired: Number of occurrences, by fault and whether the write was carried out first.
        outcomes: Number of runs, by fault and outcome.
        kinds: Number of runs, by kind of write and outcome.
    """

    runs: int = 0
    wrong: dict[Wrong, list[int]] = attrs.field(factory=dict)
    undecided: list[int] = attrs.field(factory=list)
    looked: int = 0
    visible: int = 0
    decided: int = 0
    naive: int = 0
    hidden: Counter[str] = attrs.field(factory=Counter)
    fired: Counter[tuple[str, bool]] = attrs.field(factory=Counter)
    outcomes: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    kinds: Counter[tuple[str, str]] = attrs.field(factory=Counter)

    @classmethod
    def of(cls, runs: Iterable[Run]) -> RunSummary:
        summary = cls()
        for run in runs:
            summary.count(run)
        return summary

    def count(self, run: Run) -> None:
        plan, result = run.plan, run.result
        outcome = run.outcome.partition(" ")[0]
        self.runs += 1
        self.naive += run.naive > 1
        self.fired.update(run.fired)
        strike = plan.strike("write")
        login = plan.strike("login")
        self.outcomes["any on the login" if login else strike.name if strike else "none", outcome] += 1
        self.kinds[plan.kind, outcome] += 1
        if result.wrong is not None:
            self.wrong.setdefault(result.wrong, []).append(plan.seed)
        if outcome in ("success", "error", "cancelled"):
            return
        self.looked += 1
        if result.hidden is not None:
            self.hidden[result.hidden] += 1
            return
        self.visible += 1
        self.decided += result.decided
        if not result.decided:
            self.undecided.append(plan.seed)

    def add(self, other: RunSummary) -> None:
        for name in ("runs", "looked", "visible", "decided", "naive"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for wrong, seeds in other.wrong.items():
            self.wrong.setdefault(wrong, []).extend(seeds)
        self.undecided.extend(other.undecided)
        self.hidden.update(other.hidden)
        self.fired.update(other.fired)
        self.outcomes.update(other.outcomes)
        self.kinds.update(other.kinds)

    @property
    def decided_share(self) -> float:
        """Return the decided share of the reconciled runs whose outcome was visible within the settle time."""
        return self.decided / self.visible if self.visible else 1.0

    def report(self) -> str:
        names = sorted({name for name, _ in self.outcomes})
        rows = [_row("fault on the write", "before", "after", *_COLUMNS)]
        for name in names:
            struck = [self.fired[name, first] + self.fired[f"{name}.then", first] for first in (False, True)]
            rows.append(_row(name, *struck, *(self.outcomes[name, column] for column in _COLUMNS)))
        rows += ["", _row("write", "", "", *_COLUMNS)]
        for kind in sorted({kind for kind, _ in self.kinds}):
            rows.append(_row(kind, "", "", *(self.kinds[kind, column] for column in _COLUMNS)))
        return "\n".join([*rows, "", self.totals()])

    def totals(self) -> str:
        duplicates = len(self.wrong.get(Wrong.DUPLICATE, ()))
        others = sum(map(len, self.wrong.values())) - duplicates
        lines = [
            f"{self.runs} runs, {self.looked} of them reconciled",
            f"duplicates {duplicates}, other wrong outcomes {others}",
            f"outcome to be seen in time in {self.visible}, decided in {self.decided}: {self.decided_share:.2%}",
            "not to be seen: " + (", ".join(f"{why} {count}" for why, count in self.hidden.most_common()) or "none"),
            f"the client that tries again carried out {self.naive} writes more than once",
        ]
        for wrong, seeds in self.wrong.items():
            lines.append(f"WRONG: {wrong}: {_replays(seeds)}")
        if self.undecided:
            lines.append(f"left in doubt: {_replays(self.undecided)}")
        return "\n".join(lines)


def _row(name: str, *cells: object) -> str:
    return f"{name:<26}" + "".join(f"{cell!s:>13}" for cell in cells)


def _replays(seeds: list[int]) -> str:
    named = ", ".join(map(str, sorted(seeds)[:_MAX_NAMED]))
    more = f" and {len(seeds) - _MAX_NAMED} more" if len(seeds) > _MAX_NAMED else ""
    return f"seeds {named}{more}; replay with: python tools/seeded_runs.py --part writes --replay {min(seeds)}"
