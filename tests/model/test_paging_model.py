"""Listings and reconciliations against random paging servers: no row is lost, and no verdict is wrong."""

from __future__ import annotations

import multiprocessing
import os

import pytest
from tests.model.paging import Tally, run


def _judge(tally: Tally) -> None:
    print(tally.report())  # noqa: T201  # figures for -s
    assert not tally.wrong, tally.report()
    assert tally.decided_share >= 0.8, tally.report()
    assert tally.completed_share >= 0.9, tally.report()


def test_no_row_is_lost_and_no_verdict_is_wrong() -> None:
    _judge(Tally.of(map(run, range(60))))


def _tally(seeds: range) -> Tally:
    return Tally.of(map(run, seeds))


@pytest.mark.long
def test_a_hundred_thousand_servers() -> None:
    chunks = [range(start, start + 250) for start in range(0, 100_000, 250)]
    total = Tally()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for tally in pool.imap_unordered(_tally, chunks):
            total.add(tally)
    _judge(total)


def test_a_run_is_repeated_by_its_seed() -> None:
    for seed in range(3, 8):
        first, second = run(seed), run(seed)
        assert (first.outcome, first.judgement, first.pages) == (second.outcome, second.judgement, second.pages)
