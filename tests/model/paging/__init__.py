"""Seeded runs of listings and reconciliations against random paging servers, in virtual time, judged by the truth."""

from __future__ import annotations

from tests.model.paging.plan import Plan
from tests.model.paging.run import Run, run
from tests.model.paging.tally import Tally

__all__ = ["Plan", "Run", "Tally", "run"]
