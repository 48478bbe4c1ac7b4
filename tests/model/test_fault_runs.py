"""Tests of many writes, each under a fault: none is carried out twice, and each result is true."""

from __future__ import annotations

import multiprocessing
import os

import pytest
from tests.model.fault_runs import RunSummary, run

_SEED = 0


def _check(summary: RunSummary) -> None:
    print(summary.report())  # noqa: T201  # figures, shown with -s
    assert not summary.wrong, summary.totals()
    assert summary.decided_share >= 0.99, summary.totals()
    # The same writes under the same faults can be carried out twice, or the test proves nothing.
    assert summary.naive > 0, summary.totals()


# The naive client's library leaves the body's generator to the collector when a send fails: trio complains.
@pytest.mark.filterwarnings("ignore:Async generator 'httpx:ResourceWarning")
def test_no_write_is_carried_out_twice_and_no_verdict_is_wrong() -> None:
    _check(RunSummary.of(map(run, range(_SEED, _SEED + 110))))


def _summarize(seeds: range) -> RunSummary:
    return RunSummary.of(map(run, seeds))


@pytest.mark.long
def test_a_hundred_thousand_writes() -> None:
    chunks = [range(start, start + 250) for start in range(_SEED, _SEED + 100_000, 250)]
    total = RunSummary()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for summary in pool.imap_unordered(_summarize, chunks):
            total.add(summary)
    _check(total)


def test_a_run_is_made_again_by_its_seed() -> None:
    for seed in range(7, 10):
        first, second = run(seed), run(seed)
        assert (first.outcome, first.fired, first.naive) == (second.outcome, second.fired, second.naive)
