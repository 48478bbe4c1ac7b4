"""Listings and reconciliations against random paging servers."""

from __future__ import annotations

import logging

from tests.model.paging import RunSummary, run
from tools.run_parts import Part

__all__ = ["PART"]


class PagingRuns(Part[RunSummary]):
    def run_chunk(self, seeds: range, only: str) -> RunSummary:
        return RunSummary.of(map(run, seeds))

    def is_clean(self, total: RunSummary) -> bool:
        print(total.report())
        return not total.wrong and total.decided_share >= 0.99

    def replay(self, seed: int, only: str) -> bool:
        logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
        ran = run(seed)
        print(ran.plan)
        print(f"{ran.outcome} after {ran.pages} pages; {ran.result}")
        return ran.result.wrong is None


PART = PagingRuns()
