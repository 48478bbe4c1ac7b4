"""Random writes under random faults, in process and in virtual time, against the sandbox."""

from __future__ import annotations

import logging

from tests.model.fault_runs import RunSummary, run
from tools.run_parts import Part

__all__ = ["PART"]


class WriteRuns(Part[RunSummary]):
    def run_chunk(self, seeds: range, only: str) -> RunSummary:
        return RunSummary.of(map(run, seeds))

    def is_clean(self, total: RunSummary) -> bool:
        print(total.report())
        return not total.wrong and total.decided_share >= 0.99 and total.naive > 0

    def replay(self, seed: int, only: str) -> bool:
        logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
        ran = run(seed)
        print(ran.plan)
        print(f"fired on the write (name, carried out first): {ran.fired}")
        print(f"{ran.outcome}; {ran.result}")
        return ran.result.wrong is None


PART = WriteRuns()
