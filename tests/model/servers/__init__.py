"""Watchers against servers that only the service's document describes, in virtual time, each run with a check.

It is written without knowledge of the feed's code, as a second model next to `tests/model/watcher`.
"""

from __future__ import annotations

from tests.model.servers.checker import check
from tests.model.servers.drawing import QUIRKS, Schedule, draw
from tests.model.servers.finding import Finding
from tests.model.servers.run import Log, watch
from tests.model.servers.summary import Ran, RunSummary, run

__all__ = ["QUIRKS", "Finding", "Log", "Ran", "RunSummary", "Schedule", "check", "draw", "run", "watch"]
