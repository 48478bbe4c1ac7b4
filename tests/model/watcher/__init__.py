"""Model of the watcher: random schedules of failures in virtual time, a checker, and naive loops for comparison."""

from __future__ import annotations

from tests.model.watcher.checker import Flaw
from tests.model.watcher.naive import NAIVE
from tests.model.watcher.run import Ran, naive_run, run
from tests.model.watcher.schedule import Op, Plan, draw, settling
from tests.model.watcher.summary import RunSummary

__all__ = ["NAIVE", "Flaw", "Op", "Plan", "Ran", "RunSummary", "draw", "naive_run", "run", "settling"]
