"""Seeded runs of one write each under one fault, in process and in virtual time, checked against the exchange."""

from __future__ import annotations

from tests.model.fault_runs.plan import Plan
from tests.model.fault_runs.run import Run, run
from tests.model.fault_runs.summary import RunSummary

__all__ = ["Plan", "Run", "RunSummary", "run"]
