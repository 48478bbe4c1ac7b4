"""Short form of `tools/watcher_table.py`: polling loops lose requests in fifteen minutes, and the watcher does not."""

from __future__ import annotations

import itertools
from typing import Literal

import pytest
from tools.watcher_table import ALGORITHMS, COLUMNS, ORDERS, Setting, markdown, run

HOURS = 1 / 4
*NAIVE, WATCHER = ALGORITHMS
LOSERS = {
    "burst": "newest 100 of the last hour",
    "late visibility": "window since the last poll, stop on a short page",
    "page clamp": "+ 60 s overlap",
    "page failures": "window since the last poll, stop on a short page",
}


def settings() -> list[Setting]:
    return [Setting(column, ORDERS[place % len(ORDERS)], 0, HOURS) for place, column in enumerate(COLUMNS)]


@pytest.mark.parametrize(
    ("setting", "backend"),
    list(zip(settings(), itertools.cycle(("asyncio", "trio")))),
    ids=lambda value: value.column if isinstance(value, Setting) else value,
)
def test_the_watcher_misses_nothing_and_reports_nothing_twice(
    setting: Setting, backend: Literal["asyncio", "trio"]
) -> None:
    measurement = run(setting, WATCHER, backend)
    assert measurement.requests > 50
    assert (measurement.missed, measurement.repeated) == (0, 0)


@pytest.mark.parametrize("column", LOSERS)
def test_a_naive_loop_loses_on_the_same_market(column: str) -> None:
    (setting,) = (setting for setting in settings() if setting.column == column)
    assert run(setting, LOSERS[column]).missed > 0


def test_table_has_figures_of_every_algorithm() -> None:
    setting = Setting("calm", "newest", 1, 0.05)
    table = markdown((setting, name, run(setting, name)) for name in ALGORITHMS)
    first, *rest = (part.splitlines() for part in table.split("\n\n"))
    assert first[0] == "| Final states missed | calm |"
    assert first[-1] == f"| {WATCHER} | 0 |"
    assert [part[0].split(" | ")[0] for part in rest] == [
        "| Reported twice",
        "| Requests per event",
        "| Latency p50 / p99, s",
    ]
    assert all(len(part) == 2 + len(ALGORITHMS) for part in (first, *rest))
