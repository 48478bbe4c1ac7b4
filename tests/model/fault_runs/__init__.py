"""Seeded runs of one write each under one fault, in process and in virtual time, judged by the exchange's truth."""

from __future__ import annotations

from tests.model.fault_runs.plan import Plan
from tests.model.fault_runs.run import Run, run
from tests.model.fault_runs.tally import Tally

__all__ = ["Plan", "Run", "Tally", "run"]
