"""Measure what things cost, and write the report: `make bench`, or `make bench ARGS=--quick` for a first look."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks import calls, decoding, imports, odd_records, profiling, reading, storing, watching
from benchmarks.aims import aims
from benchmarks.report import markdown
from benchmarks.rounds import ROOT, Scale, Table

_SECTIONS: Final[Mapping[str, Callable[[Scale, Callable[[str], None]], list[Table]]]] = {
    "calls": calls.tables,
    "decoding": decoding.tables,
    "reading": reading.tables,
    "watching": watching.tables,
    "storing": storing.tables,
    "imports": imports.tables,
}
RESULTS: Final = ROOT / "benchmarks" / "results.md"
_FULL: Final = Scale(rounds=5, share=1.0)
_QUICK: Final = Scale(rounds=2, share=0.1)
_PEERS: Final = ("httpx", "httpx2", "openai", "anthropic", "pydantic", "msgspec", "cattrs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(_SECTIONS)}; default all")
    parser.add_argument("--quick", action="store_true", help="few rounds of little work; writes only to --out")
    parser.add_argument("--rounds", type=int, help="how often everything is repeated")
    parser.add_argument("--out", type=Path, help="the report's file; default benchmarks/results.md")
    options = parser.parse_args()
    if unknown := set(options.sections) - _SECTIONS.keys():
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    scale = _QUICK if options.quick else _FULL
    scale = attrs.evolve(scale, rounds=options.rounds or scale.rounds)
    out: Path | None = options.out or (None if options.quick or options.sections else RESULTS)

    began, busy = time.perf_counter(), _busy()
    tables = {
        table.name: table
        for name, measure in _SECTIONS.items()
        if name in (options.sections or _SECTIONS)
        for table in measure(scale, _noting(name))
    }
    odd = odd_records.table() if "decoding" in (options.sections or _SECTIONS) else []
    profiles = profiling.tables() if "calls" in (options.sections or _SECTIONS) else {}
    seconds = time.perf_counter() - began
    kept = {
        "machine": _machine(seconds, busy),
        "tables": {name: attrs.asdict(table) for name, table in tables.items()},
        "odd_records": odd,
        "profiles": profiles,
    }
    if out is None:
        print(markdown(kept))
    else:
        out.write_text(markdown(kept))
    print(f"{seconds:.0f} s", file=sys.stderr)
    return int(not all(aim.held for aim in aims(tables)))


def _noting(section: str) -> Callable[[str], None]:
    def note(what: str) -> None:
        print(f"{section}: {what}", file=sys.stderr, flush=True)

    return note


def _machine(seconds: float, busy: float) -> dict[str, Any]:
    peers = {name: version(name) for name in _PEERS}
    cores, when = os.cpu_count() or 1, datetime.now(UTC).date().isoformat()
    load = (_busy() + busy) / 2
    description = (
        f"{when}, Python {platform.python_version()} on {platform.system()} {platform.machine()}, {cores} cores,"
        f" {seconds / 60:.0f} minutes;"
        f" {', '.join(f'{name} {number}' for name, number in peers.items())}."
    )
    if load > cores:
        description += (
            f" **The machine was busy with other work** (a load of {load:.1f} on {cores} cores): the wall's times are"
            " longer than they would be, and the processor's by what shared caches cost."
        )
    return {
        "description": description,
        "python": platform.python_version(),
        "cores": cores,
        "load": load,
        "peers": peers,
    }


def _busy() -> float:
    """Return how many processes wanted the processor over the last quarter of an hour."""
    return os.getloadavg()[2] if hasattr(os, "getloadavg") else 0.0


if __name__ == "__main__":
    sys.exit(main())
