"""Watchers against servers that only the service's document describes, in virtual time, judged by the true history.

Written without knowledge of the feed's own code: a second opinion beside `tests/model/watcher`.
"""

from __future__ import annotations

from tests.model.servers.drawing import QUIRKS, Schedule, draw
from tests.model.servers.find import Find
from tests.model.servers.judge import judge
from tests.model.servers.run import Log, watch
from tests.model.servers.tally import Ran, Tally, run

__all__ = ["QUIRKS", "Find", "Log", "Ran", "Schedule", "Tally", "draw", "judge", "run", "watch"]
