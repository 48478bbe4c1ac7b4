"""Rounds that measure each candidate once, so that all meet the same machine: ratios within a round are less noisy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import attrs

ROOT: Final = Path(__file__).resolve().parent.parent
SDK: Final = "this SDK"

Figures = Mapping[str, float]
"""Figures of one candidate in one round, by column."""

# In a small process, the allocator would map and unmap the receive buffer on every call, which flatters the bigger one.
# Byte code is read as from the second start of a program on.
_ENVIRONMENT: Final = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
    "MALLOC_MMAP_THRESHOLD_": "67108864",
    "MALLOC_TRIM_THRESHOLD_": "67108864",
    "PYTHONHASHSEED": "0",
}


@attrs.frozen
class Scale:
    """Number of rounds, and the share of a full measurement's work that each of them does."""

    rounds: int
    share: float

    def of(self, full: int) -> int:
        return max(1, round(full * self.share))


@attrs.frozen
class Table:
    """Candidates beside each other.

    Attributes:
        name: Name for the aims.
        title: What it shows.
        columns: Titles of the columns. The first one has its ratio to the peer beside it.
        rows: Figures of each candidate, round by round.
        peer: Candidate with which the others are compared.
    """

    name: str
    title: str
    columns: Mapping[str, str]
    rows: Mapping[str, Sequence[Figures]]
    peer: str | None = None

    def values(self, row: str, column: str) -> list[float]:
        return [figures[column] for figures in self.rows[row]]

    def lines(self) -> Iterator[str]:
        """Yield the table in Markdown."""
        first, *others = self.columns
        ratio = ["ratio"] if self.peer else []
        yield f"\n**{self.title}**\n"
        yield grid(["", self.columns[first], *ratio, *(self.columns[other] for other in others)])
        yield "|---" * (1 + len(ratio) + len(self.columns)) + "|"
        for row in self.rows:
            cells = [row, spread(self.values(row, first))]
            if self.peer:
                cells.append(spread(ratios(self.values(row, first), self.values(self.peer, first))))
            yield grid([*cells, *(spread(self.values(row, other)) for other in others)])


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def grid(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def spread(values: Sequence[float]) -> str:
    """Return the median, and the range of the rounds if they differ."""
    low, middle, high = map(number, (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def number(value: float) -> str:
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def interleaved(candidates: Mapping[str, Callable[[], Figures]], rounds: int) -> dict[str, list[Figures]]:
    """Return the figures of each candidate, round by round."""
    rows: dict[str, list[Figures]] = {name: [] for name in candidates}
    for turn in range(1, rounds + 1):
        for name, run in candidates.items():
            print(f"round {turn} of {rounds}: {name}", file=sys.stderr, flush=True)
            rows[name].append(run())
    return rows


def alone(module: str, *arguments: object) -> dict[str, float]:
    """Return the JSON that a module of this package prints, run in a process and on a core of its own."""
    return figures_of("-m", f"benchmarks.{module}", *map(str, arguments))


def figures_of(*arguments: str) -> dict[str, float]:
    """Return the JSON that an interpreter with these arguments prints."""
    command = [*_pinned(1), sys.executable, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=_ENVIRONMENT, cwd=ROOT)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@contextmanager
def serving() -> Iterator[int]:
    """Yield the port of a server in a process and on a core of its own."""
    command = [*_pinned(0), sys.executable, "-m", "benchmarks.server"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_ENVIRONMENT, cwd=ROOT
    ) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def _pinned(core: int) -> list[str]:
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return ["taskset", "-c", str(cores[core])] if len(cores) > core else []
