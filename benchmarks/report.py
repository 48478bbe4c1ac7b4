"""The report: a summary and the figures, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.aims import aims
from benchmarks.rounds import Table, spread

__all__ = ["markdown", "summary"]

_SUMMARY: Final = """\
# What things cost

`make bench` measures this SDK beside what people would otherwise use, and writes this page.
[The figures](benchmark-figures.md) show every measurement, how it is made, and where the time goes;
[the raw data](data/bench.json) has every round.
"""

_HEAD: Final = """\
# Benchmark figures

Written by `make bench`, with its drawings and [the raw data](data/bench.json). [What things cost](benchmarks.md) is
the summary. Every round measures each candidate once, so that all of them meet the same machine. A cell is the median
of the rounds; the brackets hold the lowest and the highest. **Read the ratios**: they are taken round by round, and
hold where the machine's own speed changes. Client and server run in processes and on cores of their own, and every
candidate in a process of its own.
"""


class Section(NamedTuple):
    """A part of the report.

    Attributes:
        key: How the names of its tables begin.
        plot: Its drawing, and what it shows.
    """

    key: str
    title: str
    prose: str
    plot: tuple[str, str] | None = None


_SECTIONS: Final = (
    Section(
        "calls",
        "A call",
        "The same POST of the same server, its reply far from the server's ceiling. The libraries' own clients give"
        " dicts; this SDK gives typed records, with the deadline, the retries, the token's renewal, the limiter and a"
        " task that no cancellation can cut in two. The vendors' SDKs make the generic call that their methods make,"
        " into models of their own base class. The ratio is to the own client of the HTTP library that each is made on:"
        " httpx2 for both vendors.",
        ("calls", "CPU of a call, by how many callers there are at a time"),
    ),
    Section(
        "decoding",
        "Decoding",
        "Bytes to objects with renamed fields, exact decimals, date-times and enumerations, as each library's own"
        " documentation sets it up; plain JSON has none of that. With the extra `speedups` msgspec"
        " parses long replies, to the same values. Only this converter also takes what the wire really carries:"
        " [the table below](#what-each-decoder-takes) says what becomes of a page in which one record is odd. The ratio"
        " is to json + cattrs.",
        ("decoding", "CPU of a record, by decoder"),
    ),
    Section(
        "reading",
        "A long listing",
        "The limit is what no reader can beat: that many pages wait together, and the processor's work, the reader's"
        " own, is done one after another: max((latency + CPU) / in flight, CPU). By hand is a loop, or several, over"
        " httpx, and the ratio is to that with as many in flight. This SDK asks for the first page alone, so that a"
        " listing of one page costs one request in any window: of 8 in flight, a thirteenth of the time.",
        ("reading", "Seconds for 10,000 records; the black line is the limit"),
    ),
    Section(
        "watching",
        "Watching",
        "Polls every 30 s in virtual time, a state every 30 s, and 240 within 20 s in the middle; the exchange lists"
        " the newest first, 1,000 rows at the most. A usual poll is the median one: the watcher's deeper looks, by"
        " which it finds what came late, are in the bytes of an event. Each round has another seed. What each"
        " algorithm misses where the exchange is slow to show, cuts pages or fails is measured in"
        " [How the watcher misses nothing](watcher.md). All of it is fetched by this SDK: the difference is the"
        " algorithm's. Of 100,000 open requests, everything is read for a tenth of the time only.",
        ("watching", "Bytes of a usual poll, by how many requests are open"),
    ),
    Section(
        "writes",
        "Store and bot",
        "What a scan commits: a row of what is known and one event for each request. SQLite writes the same rows to"
        " the same tables by two statements in a loop, and the least that it can do is one table without an index; the"
        " ratio of each is to the line above. All with a write-ahead log and `synchronous=FULL`. The rate is that of"
        " the median commit. Where the disk takes long, it decides; without it (memory) the code does.",
        ("writes", "Events a second on a disk that takes no time, by how many share a commit"),
    ),
    Section("deliveries", "Deliveries", "The work around a handler that does nothing: claimed, settled, and durable."),
    Section(
        "imports",
        "Importing",
        "A fresh process each, read from byte code, as from a program's second start on, and without click, for which"
        " httpx would import a command line of its own.",
        ("imports", "CPU of an import"),
    ),
)


_PROFILES: Final = (
    "Shares of the processor's time under a profiler, which makes calls of Python functions look dearer than they are:"
    " they say where to look, and no more. Over httpx2 the SDK sends through the"
    " caller's own client, whose event hooks, mounts and instrumentation must go on working: it pays for that client as"
    " everybody does, and beside it for the task that no cancellation can cut in two and for one look-up of the clock"
    " and one cancel scope for each of the deadline, the task and the reply's end. Its own connections, on httpx, are"
    " sent through directly. A record costs what plain JSON takes, which only the extra `speedups` shortens, and about"
    " as much again for nineteen fields that are looked up, checked and set, exact decimals and dates among them."
    " An import's own time is spread over seventy modules; the largest part of it is what attrs writes for the classes"
    " in them."
)

Grid = Sequence[Sequence[str]]
"""The cells of a table, its heading first."""


def markdown(kept: Mapping[str, Any]) -> str:
    """Return the page of all figures, from `data/bench.json`.

    Args:
        kept: `machine`, what was measured where; `tables`, as `attrs.asdict` gives them, by name; `oddities`, what each
            decoder takes; `profiles`, where the time goes, by title.
    """
    tables = {name: Table.restored(table) for name, table in kept["tables"].items()}
    return "\n".join(_lines(tables, kept["machine"], kept["oddities"], kept["profiles"])) + "\n"


def summary(kept: Mapping[str, Any]) -> str:
    """Return the page of one screen: the first aim of each section, and how many of its aims hold."""
    tables = {name: Table.restored(table) for name, table in kept["tables"].items()}
    return "\n".join(_summary_lines(tables, kept["machine"])) + "\n"


def _summary_lines(tables: Mapping[str, Table], machine: Mapping[str, Any]) -> Iterator[str]:
    yield _SUMMARY
    yield f"{machine['said']}\n"
    yield from ("| | First aim | Limit | Result | Aims that hold |", "|---|---|---|---|---|")
    for section in _SECTIONS:
        judged = [*aims({name: table for name, table in tables.items() if name.split(" ")[0] == section.key})]
        if not judged:
            continue
        first, held = judged[0], sum(aim.held for aim in judged)
        link = f"[{section.title}](benchmark-figures.md#{section.title.lower().replace(' ', '-')})"
        yield f"| {link} | {first.what} | {first.aim} | {first.measured} | {held} of {len(judged)} |"
    drawings = [section.plot for section in _SECTIONS[:1] if section.plot is not None]
    yield from (f"\n![{title}](img/bench-{name}.svg)" for name, title in drawings)
    yield "\nThe [table of aims](benchmark-figures.md#aims) names each aim that is missed, and by how much."


def _lines(
    tables: Mapping[str, Table], machine: Mapping[str, Any], oddities: Grid, profiles: Mapping[str, Grid]
) -> Iterator[str]:
    yield _HEAD
    yield f"{machine['said']}\n"
    yield from ("## Aims", "", "| What | Aim | Measured | |", "|---|---|---|---|")
    for aim in aims(tables):
        yield f"| {aim.what} | {aim.aim} | {aim.measured} | {'holds' if aim.held else '**missed**'} |"
    for section in _SECTIONS:
        of_it = [table for name, table in tables.items() if name.split(" ")[0] == section.key]
        if not of_it:
            continue
        yield from ("", f"## {section.title}", "", section.prose)
        if section.plot is not None:
            yield from ("", f"![{section.plot[1]}](img/bench-{section.plot[0]}.svg)")
        for table in of_it:
            rounds = len(next(iter(table.rows.values())))
            yield from ("", f"**{table.title}**, {rounds} rounds", "", *_rows(table))
        if section.key == "decoding" and oddities:
            yield from ("", "### What each decoder takes", "", *_grid(oddities))
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
