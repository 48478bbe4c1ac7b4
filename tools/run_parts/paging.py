"""Listings and reconciliations against random paging servers."""

from __future__ import annotations

import logging

from tests.model.paging import Tally, run

__all__ = ["CHUNK", "choices", "is_clean", "merge", "replay", "run_chunk"]

CHUNK = 250


def choices() -> tuple[str, ...]:
    return ()


def run_chunk(seeds: range, _: str) -> Tally:
    return Tally.of(map(run, seeds))


def merge(total: Tally | None, chunk: Tally) -> Tally:
    if total is None:
        return chunk
    total.add(chunk)
    return total


def is_clean(total: Tally) -> bool:
    print(total.report())
    return not total.wrong and total.decided_share >= 0.99


def replay(seed: int, _: str) -> bool:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    ran = run(seed)
    print(ran.plan)
    print(f"{ran.outcome} after {ran.pages} pages; {ran.judgement}")
    return ran.judgement.wrong is None
