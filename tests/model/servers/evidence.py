"""Evidence about one run, in truth and by its replies, for the judge."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs
from tests.model.servers.drawing import Schedule
from tests.model.servers.market import Content, Market, Row, Version
from tests.model.servers.run import Log, Reported
from tests.model.servers.server import Served, StrangeServer
from tests.model.servers.unseen import Unseen

__all__ = ["Evidence", "Find"]

_HOUR: Final = 3600.0


@attrs.frozen
class Find:
    """One thing that a watcher should not have done, or done.

    Attributes:
        excuse: Why it could not be known from outside, or which note goes with it; empty for a broken promise.
    """

    kind: str
    index: int | None
    at: float
    text: str
    excuse: str = ""


class Evidence:
    """Evidence of one run, and the finds so far."""

    def __init__(self, schedule: Schedule, log: Log, server: StrangeServer) -> None:
        self.schedule = schedule
        self.log = log
        self.server = server
        self.market: Market = schedule.market
        self.finds: list[Find] = []
        self.fold: dict[int, Reported] = {}
        self.turns: Counter[tuple[int, int]] = Counter()
        self.began = log.live[0] if log.live else schedule.end
        self.unseen = Unseen(schedule, log, server)
        self._versions: dict[int, list[Version]] = {}

    def versions(self, index: int) -> list[Version]:
        if index not in self._versions:
            self._versions[index] = self.market.versions(index)
        return self._versions[index]

    def find(self, kind: str, index: int | None, at: float, text: str, excuse: str = "") -> None:
        if not excuse and self._in_trouble(at):
            excuse = "Degraded beside it"
        self.finds.append(Find(kind, index, at, text, excuse))

    def _in_trouble(self, at: float) -> bool:
        began = [degraded for degraded in self.log.degraded if degraded <= at]
        if not began:
            return False
        return not any(began[-1] < recovered < at - _HOUR for recovered in self.log.recovered)

    def _at_entry(self, index: int) -> Row | None:
        """A request as it was when the feed was entered.

        A reply that is older than a request can neither show it nor prove when it was published: the oldest one up to
        the entry decides. The service's clock does not, which may have been set back.
        """
        data_times = [s.as_of for s in self._listings(self.began)]
        return self.market.rows(min(data_times)).get(index) if data_times else None

    def _baseline(self, index: int) -> Content | None:
        """Return the content of a request at the entry of the feed, as far as the first scan listed it."""
        until = self.began if self.log.listed is None else self.log.listed
        replies = [s for s in self.server.served if s.at <= until and index in s.rows]
        stood = next(v.content for v in self.versions(index) if v.since <= self.began < v.until)
        if any(s.rows[index] == stood for s in replies):
            return stood
        early = [s.rows[index] for s in replies if s.at <= self.began]
        return early[-1] if early else None

    def _reached(self, index: int, at: float) -> bool:
        """Return whether the widest window that the service knows reached back to the last update of a request."""
        return self.unseen.is_within_reach(self.market.rows(at).get(index), at)

    def _listings(self, until: float) -> list[Served]:
        return [s for s in self.server.served if s.call == "listing" and not s.failed and s.at < until]

    def _lookups(self, index: int, until: float) -> list[Served]:
        lookups = (s for s in self.server.served if s.call == "look-up" and not s.failed and s.at <= until)
        return [s for s in lookups if int(s.body["index"]) == index]
