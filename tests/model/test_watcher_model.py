"""Tests of the watcher under random failures in virtual time: no event is missed or repeated, no claim is false."""

from __future__ import annotations

import ast
import logging
import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.model.watcher import RunSummary, draw, run
from tests.model.watcher.schedule import FAULTY

_RUNS = 20
_KILLED_AT_A_STATEMENT = (430, 915, 933)
"""Seeds of schedules that kill the process between two SQL statements, about one in a hundred."""
_FOLDER = Path(__file__).parent / "watcher"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Disable the log: a hundred thousand failing watchers would fill a disk."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _check(summary: RunSummary) -> None:
    print(summary.report())  # noqa: T201  # figures, shown with -s
    assert not summary.failed, summary.report()
    # The same schedules lose requests to a loop that is less careful, or the test proves nothing.
    assert summary.naive_share >= 0.2, summary.report()


def test_nothing_is_missed_repeated_or_claimed_in_vain() -> None:
    _check(RunSummary.of(range(_RUNS)))


def test_a_kill_between_two_statements_is_lived_through_and_was_one() -> None:
    total = RunSummary.of(_KILLED_AT_A_STATEMENT)
    assert not total.failed, total.report()
    assert total.happened["died statement"] >= len(_KILLED_AT_A_STATEMENT)


def _summarize(seeds: range) -> RunSummary:
    logging.disable(logging.CRITICAL)
    return RunSummary.of(seeds)


@pytest.mark.long
def test_a_hundred_thousand_schedules() -> None:
    chunks = [range(start, start + 250) for start in range(0, 100_000, 250)]
    total = RunSummary()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for summary in pool.imap_unordered(_summarize, chunks):
            total.add(summary)
    _check(total)
    # A failure that never happens proves nothing.
    expected = {
        *(f"fault {name}" for name in FAULTY),
        "died statement",
        "killed by the store",
        "killed while it waited",
    }
    assert expected <= {name for name, count in total.happened.items() if count}, total.report()


def test_a_run_is_made_again_by_its_seed() -> None:
    for seed in range(7, 11):
        first, second = run(draw(seed)), run(draw(seed))
        assert first.plan == second.plan
        assert first.history.deliveries == second.history.deliveries
        assert first.history.notes == second.history.notes
        assert first.happened == second.happened


def test_both_backends_and_both_stores_are_drawn() -> None:
    plans = [draw(seed) for seed in range(_RUNS)]
    assert {(plan.backend, plan.sqlite) for plan in plans} == {
        (backend, sqlite) for backend in ("asyncio", "trio") for sqlite in (False, True)
    }


def _imported(path: Path) -> Iterator[str]:
    """Yield the modules that a file of the model imports, directly and through other files of the model."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            yield name
            inner = _FOLDER / f"{name.removeprefix('tests.model.watcher.').partition('.')[0]}.py"
            if name.startswith("tests.model.watcher.") and inner.exists():
                yield from _imported(inner)


def test_checker_does_not_depend_on_the_feed() -> None:
    names = set(_imported(_FOLDER / "checker.py"))
    assert "tests.model.watcher.history.History" in names
    foreign = {name for name in names if name.startswith("freight_exchange")}
    assert all(name.startswith("freight_sandbox") for name in foreign), foreign
    everything = set(_imported(_FOLDER / "program.py"))
    # The same check does find imports in a file that has some.
    assert any(name.startswith("freight_exchange.feed") for name in everything)
