"""Tests of listings and reconciliations against random paging servers: no row is lost, and no outcome is wrong."""

from __future__ import annotations

import multiprocessing
import os

import pytest
from tests.model.paging import RunSummary, run


def _check(summary: RunSummary) -> None:
    print(summary.report())  # noqa: T201  # figures for -s
    assert not summary.wrong, summary.report()
    assert summary.decided_share >= 0.8, summary.report()
    assert summary.completed_share >= 0.9, summary.report()


def test_no_row_is_lost_and_no_verdict_is_wrong() -> None:
    _check(RunSummary.of(map(run, range(60))))


def _summarize(seeds: range) -> RunSummary:
    return RunSummary.of(map(run, seeds))


@pytest.mark.long
def test_a_hundred_thousand_servers() -> None:
    chunks = [range(start, start + 250) for start in range(0, 100_000, 250)]
    total = RunSummary()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for summary in pool.imap_unordered(_summarize, chunks):
            total.add(summary)
    _check(total)


def test_a_run_is_repeated_by_its_seed() -> None:
    for seed in range(3, 8):
        first, second = run(seed), run(seed)
        assert (first.outcome, first.result, first.pages) == (second.outcome, second.result, second.pages)
