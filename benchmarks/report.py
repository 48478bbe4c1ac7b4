"""The report in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.aims import aims
from benchmarks.rounds import Table, spread

__all__ = ["markdown"]

_HEAD: Final = """\
# What things cost

Written by `make bench`. Every round measures each candidate once, so that all of them meet the same machine. A cell is
the median of the rounds; the brackets hold the lowest and the highest. **Read the ratios**: they are taken round by
round, and hold where the machine's own speed changes. Client and server run in processes and on cores of their own, and
every candidate in a process of its own.
"""


class Section(NamedTuple):
    """A part of the report.

    Attributes:
        key: How the names of its tables begin.
    """

    key: str
    title: str
    prose: str


_SECTIONS: Final = (
    Section(
        "calls",
        "A call",
        "One POST to one server, far below the server's limit. The clients of httpx and httpx2 return dicts. This "
        "SDK returns typed records, and includes the deadline, retries, token refresh, the limiter and a task "
        "that completes a write after a cancellation. The vendors' SDKs make their generic call, into models of "
        "their own base class. The ratio is to the client of the underlying HTTP library: httpx2 for both "
        "vendors.",
    ),
    Section(
        "decoding",
        "Decoding",
        "From bytes to objects with renamed fields, exact decimals, date-times and enumerations, set up as each "
        "library's documentation does; plain JSON has none of these. Only this converter also "
        "accepts the irregular records of the wire: [the table below](#what-each-decoder-takes) shows the result of "
        "a page with one odd record. The ratio is to json + cattrs.",
    ),
    Section(
        "reading",
        "A long listing",
        "No reader can beat the limit: that many pages wait at once, and the reader's CPU work is serial: "
        "max((latency + CPU) / in flight, CPU). By hand is a loop, or several, over httpx; the ratio is to that "
        "with as many in flight. This SDK asks for the first page alone, so that a listing of one page costs one "
        "request with any window. With 8 in flight, this is a thirteenth of the time.",
    ),
    Section(
        "watching",
        "Watching",
        "Polls every 30 s in virtual time, with a new state every 30 s and 240 within 20 s in the middle. The "
        "exchange lists the newest first, 1,000 rows at most. A usual poll is the median one; the bytes of an "
        "event include the deep scans, which find late updates. Each round has another seed. This SDK "
        "fetches for all of them, so the difference is the algorithm's. Reading all of 100,000 "
        "open requests is measured for a tenth of the time only.",
    ),
    Section(
        "writes",
        "Store and bot",
        "A scan commits one known row and one event for each request. SQLite writes the same rows to the same "
        "tables with two statements in a loop; its least is one table without an index. The ratio of each is to "
        "the line above. All use a write-ahead log and `synchronous=FULL`. The rate is that of the median commit. "
        "On a slow disk the disk decides; in memory the code does.",
    ),
    Section("deliveries", "Deliveries", "The work around an empty handler: claim and settle, durably."),
    Section(
        "imports",
        "Importing",
        "Each in a fresh process, from byte code, as from the second start of a program on. click is absent, "
        "since httpx would import a command line with it.",
    ),
)


_PROFILES: Final = (
    "Shares of CPU time under a profiler, which exaggerates calls of Python functions: use them to find where to "
    "look. Over httpx2 the SDK sends through the caller's client, with its event hooks, mounts and "
    "instrumentation, and pays for that client. Beside it, the SDK pays for the task that completes a write after "
    "a cancellation, and for one clock reading and one cancel scope each for the deadline, the task and the end "
    "of the reply. Its own connections, on httpx, send directly. A record costs as much as plain JSON, "
    "and about as much again for nineteen fields with exact decimals and dates. "
    "The time of an import is spread over seventy modules; most of it goes into the classes that attrs generates."
)

Grid = Sequence[Sequence[str]]
"""The cells of a table, its heading first."""


def markdown(kept: Mapping[str, Any]) -> str:
    """Return the page of all figures.

    Args:
        kept: `machine`, what was measured where; `tables`, as `attrs.asdict` gives them, by name; `odd_records`, what
            each decoder takes; `profiles`, where the time goes, by title.
    """
    tables = {name: Table.restored(table) for name, table in kept["tables"].items()}
    return "\n".join(_lines(tables, kept["machine"], kept["odd_records"], kept["profiles"])) + "\n"


def _lines(
    tables: Mapping[str, Table], machine: Mapping[str, Any], odd_records: Grid, profiles: Mapping[str, Grid]
) -> Iterator[str]:
    yield _HEAD
    yield f"{machine['description']}\n"
    yield from ("## Aims", "", "| What | Aim | Measured | |", "|---|---|---|---|")
    for aim in aims(tables):
        yield f"| {aim.what} | {aim.aim} | {aim.measured} | {'holds' if aim.held else '**missed**'} |"
    for section in _SECTIONS:
        of_it = [table for name, table in tables.items() if name.split(" ")[0] == section.key]
        if not of_it:
            continue
        yield from ("", f"## {section.title}", "", section.prose)
        for table in of_it:
            rounds = len(next(iter(table.rows.values())))
            yield from ("", f"**{table.title}**, {rounds} rounds", "", *_rows(table))
        if section.key == "decoding" and odd_records:
            yield from ("", "### What each decoder takes", "", *_grid(odd_records))
    if profiles:
        yield from ("", "## Where the time goes", "", _PROFILES)
    for title, grid in profiles.items():
        yield from ("", f"**{title}**", "", *_grid(grid))


def _rows(table: Table) -> Iterator[str]:
    heads = [head for metric in table.metrics for head in ([metric.title, "ratio"] if metric.ratio else [metric.title])]
    cells = [["", *heads]]
    for row, rounds in table.rows.items():
        line = [row]
        for metric in table.metrics:
            line.append(spread([figures[metric.key] for figures in rounds], metric.digits))
            if metric.ratio:
                line.append(spread(table.ratios(row, metric.key)) if row in table.peers else "1")
        cells.append(line)
    yield from _grid(cells)


def _grid(cells: Grid) -> Iterator[str]:
    head, *rows = cells
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
