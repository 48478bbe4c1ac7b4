"""Test of the model of paging: a sample of its servers, and seeds that once struck."""

from __future__ import annotations

from tests.model.paging import KINDS, naive, run, run_server


def test_no_walk_is_endless_or_falsely_complete() -> None:
    assert [(seed, flaws) for seed in range(1200) if (flaws := run(seed).flaws)] == []
    # Two passes over a listing in another order at each call lack the same row by chance.
    assert run_server(13875, "wild").flaws == []


def test_a_naive_loop_loses_rows() -> None:
    assert sum(map(naive, range(40 * len(KINDS)))) > 0.2 * 40 * len(KINDS)
