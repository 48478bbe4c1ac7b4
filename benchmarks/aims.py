"""Aims of the figures, judged from the tables, so that the report cannot flatter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Final

import attrs

from benchmarks.imports import BOT, DEPENDENCIES, OURS
from benchmarks.reading import WINDOWS
from benchmarks.rounds import Table
from benchmarks.storing import BATCHES, SAME_ROWS, STORE
from benchmarks.watching import OPEN, WATCH

__all__ = ["Aim", "aims"]

Tables = Mapping[str, Table]

_WAYS: Final = {
    "1": "one after another",
    "10": "10 callers",
    "100": "100 callers",
    "500": "500 callers",
    "page": "100 records a reply",
}
_CALL: Final = 1.0
_CROWD: Final = 1.25
_PAGE_SIZES: Final = (100, 1000)
_DECODING: Final = 2.6 / 5.4
_READING: Final = 1.1
_FLAT: Final = 1.1
_STORE: Final = 0.7
_IMPORT: Final = 30.0


@attrs.frozen
class Aim:
    """One aim.

    Attributes:
        what: What is measured.
        aim: Target.
        measured: Measured value.
        held: Whether the target is met.
    """

    what: str
    aim: str
    measured: str
    held: bool


def aims(tables: Tables) -> Iterator[Aim]:
    """Every aim whose tables are there."""
    for section, judge in _JUDGES.items():
        if any(name.split(" ")[0] == section for name in tables):
            yield from judge(tables)


def _calls(tables: Tables) -> Iterator[Aim]:
    for ours in ("this SDK", "this SDK on httpx2"):
        for name, how in _WAYS.items():
            table = tables[f"calls {name}"]
            ratio = median(table.ratios(ours, "cpu"))
            what = f"CPU of a typed call, {how}, {ours}, over {table.peers[ours]}'s own client"
            yield Aim(what, f"at most {_CALL:.1f}", f"{ratio:.2f}", ratio <= _CALL)
        few, many = (tables[f"calls {callers}"].rows[ours] for callers in (10, 500))
        growth = median(last["cpu"] / first["cpu"] for first, last in zip(few, many, strict=True))
        what = f"CPU of a call of 500 callers over that of 10, {ours}"
        yield Aim(what, f"at most {_CROWD}", f"{growth:.2f}", growth <= _CROWD)


def _decoding(tables: Tables) -> Iterator[Aim]:
    for size in _PAGE_SIZES:
        table = tables[f"decoding {size}"]
        ratio = median(table.ratios("this SDK", "cpu"))
        measured = f"{ratio:.2f} ({table.median('this SDK', 'cpu'):.2f} us)"
        what = f"Decoding a record of a page of {size:,}, over json + cattrs"
        yield Aim(what, f"at most {_DECODING:.2f}", measured, ratio <= _DECODING)


def _reading(tables: Tables) -> Iterator[Aim]:
    table = tables["reading"]
    for window in WINDOWS:
        over = table.median(f"this SDK, typed, {window} in flight", "over")
        what = f"10,000 records, {window} in flight, over the limit of latency and CPU"
        yield Aim(what, f"at most {_READING}", f"{over:.2f}", over <= _READING)


def _watching(tables: Tables) -> Iterator[Aim]:
    few, many = tables[f"watching {OPEN[0]}"], tables[f"watching {OPEN[-1]}"]
    for metric, what in (("quiet", "Bytes of a usual poll"), ("cpu", "CPU of a poll")):
        growth = many.median(WATCH, metric) / few.median(WATCH, metric)
        whose = f"{what}, {OPEN[-1]:,} open requests over {OPEN[0]}"
        yield Aim(whose, f"at most {_FLAT}", f"{growth:.2f}", growth <= _FLAT)
    lost = max(tables[f"watching {crowd}"].median(WATCH, "missed") for crowd in OPEN)
    yield Aim("Final states that the watcher missed", "0", f"{lost:.0f}", lost == 0)


def _writes(tables: Tables) -> Iterator[Aim]:
    for batch in BATCHES:
        table = tables[f"writes {batch}"]
        for metric, where in (("rate", "on disk"), ("quick", "on a disk that takes no time")):
            ratio = median(table.ratios(STORE, metric, SAME_ROWS))
            what = f"Events through the store, {batch} a commit, {where}, over SQLite's own rate"
            yield Aim(what, f"at least {_STORE}", f"{ratio:.2f}", ratio >= _STORE)


def _imports(tables: Tables) -> Iterator[Aim]:
    table = tables["imports"]
    pairs = zip(table.rows[OURS], table.rows[DEPENDENCIES], strict=True)
    more = median(ours["cpu"] - theirs["cpu"] for ours, theirs in pairs)
    what = "CPU of an import, beyond that of the dependencies"
    yield Aim(what, f"at most {_IMPORT:.0f} ms", f"{more:.0f} ms", more <= _IMPORT)
    for ours in (OURS, BOT):
        memory = table.median(ours, "memory")
        what = f"Memory after it, Python's own included, {ours}"
        yield Aim(what, f"at most {_IMPORT:.0f} MB", f"{memory:.1f} MB", memory <= _IMPORT)


_JUDGES: Final[Mapping[str, Callable[[Tables], Iterator[Aim]]]] = {
    "calls": _calls,
    "decoding": _decoding,
    "reading": _reading,
    "watching": _watching,
    "writes": _writes,
    "imports": _imports,
}
