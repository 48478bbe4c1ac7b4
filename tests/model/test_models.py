"""Tests of all models: no flaw under many schedules, and a naive program that fails under the same ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from tests.model import bot, offers, watcher
from tests.model.feeds import HIDDEN_BETWEEN
from tests.model.runner import NAIVE_SHARE, Summary, load, summarize
from tests.model.support import LISTING_FAULTS

_SCHEDULES = {
    "watcher": (300, 15),
    "offers": (36, 9),
    "writes": (210, 14),
    "bot": (36, 6),
    "logins": (80, 20),
    "sockets": (4, 1),
}
"""Number of schedules of each part, and of those in one item: workers run items side by side.

The watcher's take a minute of processor time, all other tests of models one together; `python -m tests.model` runs
thousands.
"""
_WITH_NAIVE = {
    "watcher": range(10),
    "offers": range(2, 6),
    "writes": range(20),
    "bot": range(5),
    "logins": range(6),
    "sockets": range(1),
}
"""Seeds for the naive program: it polls through the schedules of days, as those of the first offers, for seconds."""
_SHORT = (1001, 1002, 1005, 1009, 1018, 1019, 1021, 1022, 1023, 1025, 1026, 1029)
"""Seeds of short schedules of the watcher in which all kinds of failures strike."""


def _chunks() -> Iterator[object]:
    for part, (number, size) in _SCHEDULES.items():
        for start in range(0, number, size):
            yield pytest.param(part, range(start, start + size), id=f"{part}-{start}")


@pytest.mark.parametrize(("part", "seeds"), [*_chunks()])
def test_no_promise_is_broken(part: str, seeds: range) -> None:
    summary = summarize(part, seeds, naive=False)
    assert not summary.flaws, summary.report()


@pytest.mark.parametrize("part", _WITH_NAIVE)
def test_naive_program_fails_under_the_same_schedules(part: str) -> None:
    module, seeds = load(part), _WITH_NAIVE[part]
    failed = sum(module.naive(seed) for seed in seeds)
    assert failed >= NAIVE_SHARE * len(seeds)


@pytest.mark.parametrize("module", [watcher, offers], ids=["watcher", "offers"])
def test_every_failure_is_drawn_and_strikes(module: object) -> None:
    """A failure that never happens proves nothing."""
    drawn = {op.what for seed in range(100) for op in module.draw(seed).ops}  # type: ignore[attr-defined]
    assert drawn >= {"fault", "storm", "false_end", "kill", "kill_waits", "kill_pages", "leave", "cancel", "disk_full",
                     "pause", "break", "batches", "suspend", "wall", "lie", "reorder"}  # fmt: skip
    names = {op.name for seed in range(300) for op in module.draw(seed).ops if op.what == "fault"}  # type: ignore[attr-defined]
    assert len(names & {*LISTING_FAULTS}) > 0.9 * len(module._Drawing.faults)  # type: ignore[attr-defined]


def test_what_is_drawn_strikes() -> None:
    counts: Counter[str] = summarize("watcher", _SHORT, naive=False).counts
    expected = {"killed while it waited", "killed between two writes", "wait cancelled", "program ended",
                "raised StoreError", "row garbled", "suspend", "wall", "event"}  # fmt: skip
    assert expected <= counts.keys()
    assert sum(name.startswith("fault ") for name in counts) >= 12


def test_doubts_are_decided_where_the_service_shows_the_outcome() -> None:
    counts = summarize("writes", range(2000, 2025), naive=False).counts
    assert counts["outcome decided"] > 20
    assert counts["outcome undecided"] <= 0.02 * counts["outcome decided"]
    assert sum(name.startswith("strike ") for name in counts) >= 35


def test_bot_meets_its_troubles() -> None:
    counts = summarize("bot", [1, 3, 10, 22], naive=False).counts
    assert {"killed", "crashed", "stopped", "fault taken late", "ended by StoreError", "notices"} <= counts.keys()


def test_bot_is_calm_in_trouble() -> None:
    row = [*bot.ROWS].index("an outage")
    counts = summarize("bot", range(row, row + 4 * len(bot.ROWS), len(bot.ROWS)), naive=False).counts
    assert counts["calls in trouble"] <= 1.2 * counts["calls in health"]


@pytest.mark.parametrize("part", ["watcher", "offers", "writes", "logins"])
def test_seed_repeats_its_run(part: str) -> None:
    first, second = load(part).run(3), load(part).run(3)
    assert first == second


def test_rows_hidden_between_others_are_found() -> None:
    seeds = range(HIDDEN_BETWEEN, HIDDEN_BETWEEN + 10)
    summary: Summary = summarize("watcher", seeds, naive=False)
    assert not summary.flaws, summary.report()
