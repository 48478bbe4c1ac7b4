"""The report's drawings, from its own figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt

from benchmarks.calls import CALLERS
from benchmarks.clients import CLIENTS
from benchmarks.decoding import SIZES
from benchmarks.reading import WINDOWS
from benchmarks.rounds import Table
from benchmarks.storing import BATCHES
from benchmarks.watching import ALGORITHMS, OPEN

__all__ = ["PLOTS", "draw"]

# The same picture from the same figures, byte by byte.
mpl.rcParams |= {"svg.hashsalt": "freight-exchange", "svg.fonttype": "none", "font.size": 10, "axes.grid": True}
mpl.rcParams |= {"axes.spines.top": False, "axes.spines.right": False, "grid.alpha": 0.3, "axes.axisbelow": True}

_OURS: Final = "#0b6e99"
_OTHERS: Final = ("#8a8a8a", "#c08a3e", "#7a5195", "#bc5090", "#5a9367", "#b0b0b0")
_MARKS: Final = "osP^Dvx"

Tables = Mapping[str, Table]


def draw(tables: Tables, folder: Path) -> None:
    """Draw every plot whose tables are there."""
    for name, plot in PLOTS.items():
        if name.split("-")[0] not in {title.split(" ")[0] for title in tables}:
            continue
        figure, axes = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
        plot(tables, axes)
        figure.savefig(folder / f"bench-{name}.svg", metadata={"Date": None})
        plt.close(figure)


def _calls(tables: Tables, axes: Any) -> None:
    _lines(axes, CLIENTS, CALLERS, lambda name, callers: tables[f"calls {callers}"].median(name, "cpu") / 1e3)
    axes.set(xscale="log", yscale="log", xlabel="callers at a time", ylabel="CPU ms a call", title="What a call costs")
    axes.set_xticks(CALLERS, [str(callers) for callers in CALLERS])
    axes.legend(fontsize=8)


def _decoding(tables: Tables, axes: Any) -> None:
    table = tables[f"decoding {SIZES[-1]}"]
    _bars(axes, table, "cpu")
    axes.set(xlabel="CPU us a record", title="Decoding pages of 1,000 records")


def _reading(tables: Tables, axes: Any) -> None:
    table = tables["reading"]
    _bars(axes, table, "wall")
    rows = [*table.rows][::-1]
    for place, row in enumerate(rows):
        limit = table.median(row, "limit")
        axes.plot([limit, limit], [place - 0.45, place + 0.45], color="black", label="limit" if not place else None)
    axes.set(xlabel="seconds", title=f"10,000 records at {', '.join(map(str, WINDOWS))} pages in flight")
    axes.legend(loc="lower right")


def _watching(tables: Tables, axes: Any) -> None:
    _lines(axes, [*ALGORITHMS], OPEN, lambda name, crowd: tables[f"watching {crowd}"].median(name, "quiet") / 1e3)
    axes.set(xscale="log", yscale="log", xlabel="open requests", ylabel="kB of a usual poll", title="What a poll costs")
    axes.legend(fontsize=8)


def _writes(tables: Tables, axes: Any) -> None:
    names = [*tables[f"writes {BATCHES[0]}"].rows]
    _lines(axes, names, BATCHES, lambda name, batch: tables[f"writes {batch}"].median(name, "quick"))
    axes.set(xscale="log", yscale="log", xlabel="events in a commit", ylabel="events a second", title="Store writes")
    axes.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
    axes.legend(fontsize=8)


def _imports(tables: Tables, axes: Any) -> None:
    _bars(axes, tables["imports"], "cpu")
    axes.set(xlabel="CPU ms", title="One import in a fresh process")


PLOTS: Final[Mapping[str, Callable[[Tables, Any], None]]] = {
    "calls": _calls,
    "decoding": _decoding,
    "reading": _reading,
    "watching": _watching,
    "writes": _writes,
    "imports": _imports,
}


def _ours(name: str) -> bool:
    return "this SDK" in name or "watch()" in name


def _lines(axes: Any, names: Sequence[str], places: Sequence[int], value: Callable[[str, int], float]) -> None:
    colours = iter(_OTHERS)
    for name, mark in zip(names, _MARKS, strict=False):
        ours = _ours(name)
        axes.plot(
            places,
            [value(name, place) for place in places],
            marker=mark,
            color=_OURS if ours else next(colours),
            linestyle={"httpx2": "--", "`speedups`": ":"}.get(name.split()[-1], "-") if ours else "-",
            linewidth=2.4 if ours else 1.4,
            label=name.replace("`", ""),
        )


def _bars(axes: Any, table: Table, metric: str) -> None:
    rows = [*table.rows][::-1]
    values = [table.median(row, metric) for row in rows]
    least, most = zip(*((_least(table, row, metric), _most(table, row, metric)) for row in rows), strict=True)
    errors = [
        [value - low for value, low in zip(values, least, strict=True)],
        [high - value for value, high in zip(values, most, strict=True)],
    ]
    axes.barh(rows, values, color=[_OURS if _ours(row) else _OTHERS[0] for row in rows], xerr=errors, ecolor="black")
    axes.grid(visible=False, axis="y")


def _least(table: Table, row: str, metric: str) -> float:
    return min(figures[metric] for figures in table.rows[row])


def _most(table: Table, row: str, metric: str) -> float:
    return max(figures[metric] for figures in table.rows[row])
