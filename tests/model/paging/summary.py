"""Summary of many runs, and its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs
from tests.model.paging.checker import Wrong
from tests.model.paging.run import Run

__all__ = ["RunSummary"]

_MAX_NAMED = 20
_VERDICTS = ("Applied", "NotApplied", "Conflict")


@attrs.define
class RunSummary:
    """Counts of many runs. Summaries add up.

    Attributes:
        runs, pages: Number of runs, and of their page requests.
        wrong: Seeds of the flawed runs, by flaw.
        lost: Rows lost without an excuse.
        outcomes: Number of runs, by reading and outcome.
        excused: Number of runs, by reading and excuse.
        visible, decided: Writes whose outcome the server shows, and those of them that got a verdict.
        undecided: Seeds of the others.
    """

    runs: int = 0
    pages: int = 0
    lost: int = 0
    visible: int = 0
    decided: int = 0
    wrong: dict[Wrong, list[int]] = attrs.field(factory=dict)
    undecided: list[int] = attrs.field(factory=list)
    outcomes: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    excused: Counter[tuple[str, str]] = attrs.field(factory=Counter)

    @classmethod
    def of(cls, runs: Iterable[Run]) -> RunSummary:
        summary = cls()
        for run in runs:
            summary.count(run)
        return summary

    def count(self, run: Run) -> None:
        plan, result = run.plan, run.result
        self.runs += 1
        self.pages += run.pages
        self.outcomes[plan.reading, run.outcome] += 1
        if result.wrong is not None:
            self.wrong.setdefault(result.wrong, []).append(plan.seed)
            self.lost += result.lost
        if result.excused is not None:
            self.excused[plan.reading, result.excused] += 1
        elif plan.reading == "write":
            self.visible += 1
            self.decided += run.outcome in _VERDICTS
            if run.outcome not in _VERDICTS:
                self.undecided.append(plan.seed)

    def add(self, other: RunSummary) -> None:
        for name in ("runs", "pages", "lost", "visible", "decided"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for wrong, seeds in other.wrong.items():
            self.wrong.setdefault(wrong, []).extend(seeds)
        self.undecided.extend(other.undecided)
        self.outcomes.update(other.outcomes)
        self.excused.update(other.excused)

    @property
    def decided_share(self) -> float:
        return self.decided / self.visible if self.visible else 1.0

    @property
    def completed_share(self) -> float:
        """Return the share of listings that were read to the end without an error."""
        readings = {key: count for key, count in self.outcomes.items() if key[0] != "write"}
        complete = sum(count for (_, outcome), count in readings.items() if outcome in ("complete", "unproven"))
        return complete / sum(readings.values()) if readings else 1.0

    def report(self) -> str:
        lines = [
            f"{self.runs} servers, {self.pages} pages; rows lost {self.lost};"
            f" listings read to the end {self.completed_share:.2%};"
            f" verdicts decided {self.decided} of {self.visible} ({self.decided_share:.2%})"
        ]
        lines += [
            f"WRONG {len(seeds)}: {wrong}: seeds {sorted(seeds)[:_MAX_NAMED]}" for wrong, seeds in self.wrong.items()
        ]
        lines += [f"undecided: seeds {sorted(self.undecided)[:_MAX_NAMED]}"] if self.undecided else []
        lines += [f"{reading}: {outcome}: {count}" for (reading, outcome), count in sorted(self.outcomes.items())]
        lines += [f"excused, {reading}: {why}: {count}" for (reading, why), count in sorted(self.excused.items())]
        return "\n".join(lines)
