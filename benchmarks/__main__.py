"""Measure what things cost, and write benchmarks/results.md: `make bench`, or `make bench ARGS=--quick` to print."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks import calls, decoding, feeds, fleet, imports
from benchmarks.rounds import ROOT, SDK, Scale, Table, grid, number, ratios

SECTIONS: Final = {"calls": calls, "decoding": decoding, "feeds": feeds, "fleet": fleet, "imports": imports}
RESULTS: Final = ROOT / "benchmarks" / "results.md"
_PEERS: Final = ("httpx", "cattrs")
_HEAD: Final = """\
# What things cost

Written by `make bench`. Every round measures each candidate once. A cell is the median of the rounds; the brackets hold
the lowest and the highest. **Read the ratios**: they are taken round by round, so they hold when the machine's own
speed changes. Each candidate runs in a process of its own, the server in another.

httpx's own client returns dicts. This SDK returns typed records, and includes the deadline, retries, token renewal and
the limiter. The limit of a listing is what no reader can beat: so many pages wait at once, and one processor works.
json + cattrs is set up as its documentation does, with renamed fields, exact decimals, date-times and enumerations.
"""


class Aim(NamedTuple):
    """Figure of a row that must be at most `most`: itself, or over its `peer` (a ratio, or a difference)."""

    what: str
    table: str
    row: str
    column: str
    most: float
    peer: str | None = None
    is_difference: bool = False

    def measured(self, table: Table) -> float:
        ours = table.values(self.row, self.column)
        if self.peer is None:
            return median(ours)
        theirs = table.values(self.peer, self.column)
        if self.is_difference:
            return median(one - other for one, other in zip(ours, theirs, strict=True))
        return median(ratios(ours, theirs))


_LIMITS: Final = {1: 1.1, 4: 1.3, 8: 1.5}
_FEW, _MANY = (f"{crowd:,} open requests" for crowd in feeds.OPEN)
AIMS: Final = (
    Aim("CPU of a call over httpx's own client, 1 caller", "calls 1", SDK, "cpu", 0.9, calls.PEER),
    Aim("CPU of a call over httpx's own client, 10 callers", "calls 10", SDK, "cpu", 0.7, calls.PEER),
    Aim("CPU of a call over httpx's own client, 100 callers", "calls 100", SDK, "cpu", 0.4, calls.PEER),
    Aim("CPU of a call over httpx's own client, 500 callers", "calls 500", SDK, "cpu", 0.4, calls.PEER),
    Aim("CPU of a page of 100 typed records over an untyped one", "calls page", SDK, "cpu", 1.5, calls.PEER),
    Aim("CPU of decoding over json + cattrs, page of 100", "decoding 100", SDK, "cpu", 0.8, decoding.PEER),
    *(
        Aim(f"10,000 records, {window} pages in flight, over the limit", f"listing {window}", SDK, "over", most)
        for window, most in _LIMITS.items()
    ),
    Aim(f"CPU of a poll, {_MANY} over {_FEW.split()[0]}", "polls", _MANY, "cpu", 1.1, _FEW),
    Aim(f"Bytes of a poll, {_MANY} over {_FEW.split()[0]}", "polls", _MANY, "bytes", 1.1, _FEW),
    Aim("Time of a delivery over procrastinate's, 1 process", "fleet 1", SDK, "time", 0.77, fleet.PEER),
    Aim("Time of a delivery over procrastinate's, 3 processes", "fleet 3", SDK, "time", 0.77, fleet.PEER),
    Aim("CPU ms of an import beyond its dependencies", "imports", SDK, "cpu", 20, imports.PEER, True),
    Aim("MB of memory after it, beyond them", "imports", SDK, "memory", 4, imports.PEER, True),
)


def report(tables: Mapping[str, Table], machine: str) -> Iterator[str]:
    """Yield the lines of the report."""
    yield from (_HEAD, machine, "\n## Aims\n", "| What | At most | Measured | |", "|---|---|---|---|")
    for aim in AIMS:
        if aim.table in tables:
            measured = aim.measured(tables[aim.table])
            verdict = "holds" if measured <= aim.most else "**missed**"
            yield grid([aim.what, f"{aim.most:g}", number(measured), verdict])
    yield "\n## Figures"
    for table in tables.values():
        yield from table.lines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; default all")
    parser.add_argument("--quick", action="store_true", help="two rounds of a tenth of the work, printed")
    parser.add_argument("--rounds", type=int, help="number of rounds (default 5)")
    parser.add_argument("--out", type=Path, help="file of the report (default benchmarks/results.md)")
    options = parser.parse_args()
    if unknown := {*options.sections} - SECTIONS.keys():
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    scale = Scale(options.rounds or (2 if options.quick else 5), 0.1 if options.quick else 1)
    began = time.perf_counter()
    chosen = [module for name, module in SECTIONS.items() if name in (options.sections or SECTIONS)]
    tables = {table.name: table for module in chosen for table in module.tables(scale)}
    text = "\n".join(report(tables, _machine(time.perf_counter() - began))) + "\n"
    out = options.out or (None if options.quick or options.sections else RESULTS)
    if out is None:
        print(text)
    else:
        out.write_text(text)
    return int("**missed**" in text)


def _machine(seconds: float) -> str:
    peers = ", ".join(f"{name} {version(name)}" for name in _PEERS)
    system = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    load = os.getloadavg()[2]
    return f"{datetime.now(UTC):%Y-%m-%d}, {system}, load {load:.1f}, {seconds / 60:.0f} minutes; {peers}."


if __name__ == "__main__":
    sys.exit(main())
