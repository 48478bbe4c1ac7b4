"""Rounds that interleave the candidates, and their report: machines are noisy, ratios in a round less so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import attrs

__all__ = ["ROOT", "Figures", "Metric", "Scale", "Table", "alone", "interleaved", "probed", "serving", "spread"]

ROOT: Final = Path(__file__).resolve().parent.parent

Figures = Mapping[str, float]
"""Figures of one candidate in one round, by metric."""

# The allocator would otherwise map and unmap the receive buffer on every call in a small process, which flatters the
# bigger one. And what is imported is read from byte code, as it is from a program's second start on.
_ENVIRONMENT: Final = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
    "MALLOC_MMAP_THRESHOLD_": "67108864",
    "MALLOC_TRIM_THRESHOLD_": "67108864",
    "PYTHONHASHSEED": "0",
}


@attrs.frozen
class Scale:
    """Scale of the measurements.

    Attributes:
        rounds: How often everything is repeated.
        share: Of the work of a full measurement, how much is done in a round.
    """

    rounds: int
    share: float

    def of(self, full: int, least: int = 1) -> int:
        """That many in a full measurement, and fewer in a small one."""
        return max(least, round(full * self.share))


@attrs.frozen
class Metric:
    """One thing that is measured.

    Attributes:
        key: Its name in the figures.
        title: What a reader sees, the unit included.
        digits: Digits after the point.
        ratio: Whether the ratio to the peer is reported as well.
    """

    key: str
    title: str
    digits: int = 0
    ratio: bool = False


@attrs.frozen(kw_only=True)
class Table:
    """Candidates beside each other.

    Attributes:
        name: By which the report's prose, plots and aims refer to it.
        title: What it shows.
        metrics: Its columns.
        rows: Of each candidate, what each round gave.
        peers: With which of the others a candidate is compared, round by round.
    """

    name: str
    title: str
    metrics: Sequence[Metric]
    rows: Mapping[str, Sequence[Figures]]
    peers: Mapping[str, str] = attrs.Factory(dict)

    @classmethod
    def restored(cls, kept: Mapping[str, Any]) -> Table:
        """The table that was kept as `attrs.asdict` gives it."""
        return cls(**{**kept, "metrics": [Metric(**metric) for metric in kept["metrics"]]})

    def median(self, row: str, metric: str) -> float:
        return median(figures[metric] for figures in self.rows[row])

    def ratios(self, row: str, metric: str, peer: str | None = None) -> list[float]:
        """Of one candidate to its peer, in each round."""
        pairs = zip(self.rows[row], self.rows[peer or self.peers[row]], strict=True)
        return [ours[metric] / theirs[metric] for ours, theirs in pairs]


def interleaved(
    candidates: Mapping[str, Callable[[], Figures]], rounds: int, note: Callable[[str], None]
) -> dict[str, list[Figures]]:
    """Return the figures of each candidate, round by round: all of them once, and then all of them again."""
    rows: dict[str, list[Figures]] = {name: [] for name in candidates}
    for number in range(rounds):
        for name, run in candidates.items():
            note(f"round {number + 1} of {rounds}: {name}")
            rows[name].append(run())
    return rows


def alone(module: str, *arguments: object, core: int = 1) -> dict[str, float]:
    """Return the JSON that a module of this package prints, run in a process and on a core of its own."""
    return _figures([*_pinned(core), sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)])


def probed(code: str) -> dict[str, float]:
    """Return the JSON that a piece of code prints, run in an interpreter that has imported nothing."""
    return _figures([*_pinned(1), sys.executable, "-c", code])


def _figures(command: Sequence[str]) -> dict[str, float]:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=_ENVIRONMENT, cwd=ROOT)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@contextmanager
def serving() -> Iterator[int]:
    """The port of a server in a process and on a core of its own."""
    command = [*_pinned(0), sys.executable, "-m", "benchmarks.server"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_ENVIRONMENT, cwd=ROOT
    ) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median, and between what the rounds lay."""
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def _pinned(core: int) -> list[str]:
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return ["taskset", "-c", str(cores[core])] if len(cores) > core else []
