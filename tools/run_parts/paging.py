"""Listings and reconciliations against random paging servers."""

from __future__ import annotations

import logging

from tests.model.paging import Tally, run
from tools.run_parts import Part

__all__ = ["PART"]


class PagingRuns(Part[Tally]):
    def run_chunk(self, seeds: range, only: str) -> Tally:
        return Tally.of(map(run, seeds))

    def is_clean(self, total: Tally) -> bool:
        print(total.report())
        return not total.wrong and total.decided_share >= 0.99

    def replay(self, seed: int, only: str) -> bool:
        logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
        ran = run(seed)
        print(ran.plan)
        print(f"{ran.outcome} after {ran.pages} pages; {ran.judgement}")
        return ran.judgement.wrong is None


PART = PagingRuns()
