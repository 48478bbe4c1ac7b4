"""Runner of the models: seeded schedules, their flaws, and counters of what struck.

A part is a module with `run(seed) -> Result`, and with `naive(seed) -> bool` if a simple program fails there too:
it returns whether that program fails under the schedule of the seed.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Final

import attrs

__all__ = ["NAIVE_SHARE", "PARTS", "Result", "Summary", "load", "summarize", "summarize_on"]

PARTS: Final[Mapping[str, str]] = {
    "watcher": "tests.model.watcher",
    "offers": "tests.model.offers",
    "paging": "tests.model.paging",
    "writes": "tests.model.writes",
    "sockets": "tests.model.sockets",
    "logins": "tests.model.logins",
    "bot": "tests.model.bot",
}
"""Module of each part, by its name on the command line."""

NAIVE_SHARE: Final = 0.2
"""Least share of the schedules under which the naive program of a part has to fail."""

_CHUNK: Final = 25
_MAX_PRINTED: Final = 20
_MAX_NAMED: Final = 8


@attrs.frozen
class Result:
    """Result of one schedule.

    Attributes:
        flaws: Broken promises, one sentence each.
        counts: Occurrences by kind: faults that struck, kills, events, calls.
    """

    flaws: list[str]
    counts: Counter[str]


@attrs.define
class Summary:
    """Sum of many schedules.

    Attributes:
        flaws: Flaws by seed.
        naive: Number of schedules under which the naive program fails; `None` if the part has none.
        seconds: Processor time of all runs, without those of the naive program.
    """

    schedules: int = 0
    flaws: dict[int, list[str]] = attrs.field(factory=dict)
    counts: Counter[str] = attrs.field(factory=Counter)
    naive: int | None = None
    seconds: float = 0.0

    def add(self, other: Summary) -> None:
        self.schedules += other.schedules
        self.flaws |= other.flaws
        self.counts += other.counts
        self.seconds += other.seconds
        if other.naive is not None:
            self.naive = (self.naive or 0) + other.naive

    @property
    def naive_share(self) -> float:
        """Share of the schedules under which the naive program fails."""
        return (self.naive or 0) / max(1, self.schedules)

    def report(self) -> str:
        """Return a text for a person."""
        lines = [f"{self.schedules} schedules, {len(self.flaws)} flawed, {self._pace():.1f} a second of processor time"]
        if self.naive is not None:
            lines.append(f"the naive program fails under {self.naive} ({self.naive_share:.0%})")
        for seed, flaws in sorted(self.flaws.items())[:_MAX_PRINTED]:
            lines += [f"seed {seed}: {flaw}" for flaw in flaws]
        if len(self.flaws) > _MAX_PRINTED:
            lines.append(f"and {len(self.flaws) - _MAX_PRINTED} more seeds")
        return "\n".join([*lines, *self._strikes()])

    def _strikes(self) -> Iterator[str]:
        """Yield a line for each kind of occurrence, with the names of the kind, most frequent first."""
        kinds: dict[str, Counter[str]] = {}
        for name, count in self.counts.items():
            kind, _, rest = name.partition(": " if ": " in name else " ")
            kinds.setdefault(kind, Counter())[rest] += count
        for kind, names in sorted(kinds.items()):
            shown = ", ".join(f"{rest} {count:,}" for rest, count in names.most_common(_MAX_NAMED) if rest)
            more = f", and {len(names) - _MAX_NAMED} more kinds" if len(names) > _MAX_NAMED else ""
            yield f"{names.total():>9,} {kind}{': ' if shown else ''}{shown}{more}"

    def _pace(self) -> float:
        return self.schedules / self.seconds if self.seconds else 0.0


def load(part: str) -> ModuleType:
    """Import the module of a part."""
    return importlib.import_module(PARTS[part])


def summarize(part: str, seeds: Iterable[int], *, naive: bool = True) -> Summary:
    """Run the schedules of these seeds in this process."""
    module, summary = load(part), Summary()
    naive_of = getattr(module, "naive", None) if naive else None
    summary.naive = None if naive_of is None else 0
    with _quiet():
        for seed in seeds:
            began = time.process_time()
            result: Result = module.run(seed)
            summary.seconds += time.process_time() - began
            summary.schedules += 1
            summary.counts += result.counts
            if result.flaws:
                summary.flaws[seed] = result.flaws
            if naive_of is not None and naive_of(seed):
                summary.naive = (summary.naive or 0) + 1
    return summary


def summarize_on(jobs: int, part: str, seeds: range, *, naive: bool = True) -> Iterator[Summary]:
    """Run the schedules in so many processes, and yield the sum so far from time to time."""
    chunks = [(part, seeds[start : start + _CHUNK], naive) for start in range(0, len(seeds), _CHUNK)]
    total = Summary()
    if jobs == 1:
        for chunk in chunks:
            total.add(_summarize(chunk))
            yield total
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for summary in pool.imap_unordered(_summarize, chunks):
            total.add(summary)
            yield total


def _summarize(chunk: tuple[str, range, bool]) -> Summary:
    part, seeds, naive = chunk
    return summarize(part, seeds, naive=naive)


class _quiet:  # noqa: N801  # used as a function
    """Block without a log: thousands of failing programs would fill a disk."""

    def __enter__(self) -> None:
        self._before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        logging.disable(self._before)
