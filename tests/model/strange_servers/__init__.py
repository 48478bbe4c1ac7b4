"""Watchers against servers that only the service's document describes, in virtual time, judged by the true history.

Written without knowledge of the feed's own code: a second opinion beside `tests/model/watcher`.
"""

from __future__ import annotations

from tests.model.strange_servers.drawing import HABITS, Schedule, draw
from tests.model.strange_servers.judge import Find, judge
from tests.model.strange_servers.run import Log, watch
from tests.model.strange_servers.tally import Ran, Tally, run

__all__ = ["HABITS", "Find", "Log", "Ran", "Schedule", "Tally", "draw", "judge", "run", "watch"]
