"""Seeded runs of listings and reconciliations against random paging servers, in virtual time, each with a check."""

from __future__ import annotations

from tests.model.paging.plan import Plan
from tests.model.paging.run import Run, run
from tests.model.paging.summary import RunSummary

__all__ = ["Plan", "Run", "RunSummary", "run"]
