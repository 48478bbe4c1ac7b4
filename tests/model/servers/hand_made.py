"""Hand-made runs for tests of the checker: a few changes, replies and reports, in order of time."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
from tests.model.servers.checker import check
from tests.model.servers.drawing import Session, draw
from tests.model.servers.market import Content, Market
from tests.model.servers.quirks import Quirks
from tests.model.servers.run import EPOCH, Claim, Log, Reported
from tests.model.servers.server import Served, StrangeServer

__all__ = ["FIRST", "SECOND", "THIRD", "WIDEST", "HandMadeRun", "excuses", "listed"]

FIRST = Content("first", 1, "Durban", "FOB", "Available")
SECOND = attrs.evolve(FIRST, notes="second")
THIRD = attrs.evolve(FIRST, notes="third")
WIDEST = 432_000


class HandMadeRun:
    """Run of a watcher that was entered at second 1, polls every five minutes and is checked at second 30,000.

    Args:
        quirks: Quirks of its server.
        start: The watcher's `start`.
        listed: Time at which the first scan had read everything; `None` for never.
        changes: Other attributes of the schedule.
    """

    def __init__(
        self, quirks: Quirks | None = None, *, start: str = "now", listed: float | None = 2.0, **changes: Any
    ) -> None:
        self.quirks = Quirks() if quirks is None else quirks
        self.market = Market(self.quirks.service_clock)
        self.log = Log(live=[1.0], listed=listed)
        self.server = StrangeServer(self.market, self.quirks, 1)
        self._changes: dict[str, Any] = {"names": (), "start": start, "end": 30_000.0, "pauses": 0.0, **changes}

    def listing(
        self,
        at: float,
        window: int,
        *indexes: int,
        as_of: float | None = None,
        offset: int = 0,
        newer: bool = False,
    ) -> None:
        """Add a listing that shows these requests, as they were at `as_of`."""
        self._serve(at, "listing", {"secondsSinceUpdate": window, "offset": offset}, indexes, as_of, newer=newer)

    def look_up(
        self, at: float, index: int, *, is_found: bool = False, as_of: float | None = None, newer: bool = False
    ) -> None:
        """Add a look-up of one request, in the widest window."""
        body = {"secondsSinceUpdate": WIDEST, "index": index}
        self._serve(at, "look-up", body, (index,) if is_found else (), as_of, newer=newer)

    def refusal(self, at: float, note: str) -> None:
        """Add a listing that fails."""
        self.server.served.append(Served(at, "listing", {}, True, {}, note))

    def report(self, at: float, kind: str, index: int | None, content: Content | None = FIRST, **more: Any) -> None:
        """Add an event of the watcher."""
        moment = datetime.fromtimestamp(EPOCH + at, UTC)
        self.log.reported.append(Reported(at, kind, index, content, False, (moment, moment), False, ""))
        self.log.reported[-1] = attrs.evolve(self.log.reported[-1], **more)

    def claim(self, at: float, since: float) -> None:
        """Add a claim that nothing before a time is missing."""
        self.log.claims.append(Claim(at, since, "narrow"))

    @property
    def findings(self) -> list[tuple[str, str]]:
        """Return the kind and the excuse of each finding."""
        session = Session(0.0, math.inf, "cancel", same_machine=True)
        whole: dict[str, Any] = {
            "quirks": self.quirks,
            "market": self.market,
            "interval": timedelta(seconds=300),
            "sessions": (session,),
            "wall_jumps": (),
            "wall_drift": 0.0,
            **self._changes,
        }
        schedule = attrs.evolve(draw(1, ("texts",)), **whole)
        return [(finding.kind, finding.excuse) for finding in check(schedule, self.log, self.server)]

    def _serve(
        self,
        at: float,
        call: str,
        body: dict[str, Any],
        indexes: tuple[int, ...],
        as_of: float | None,
        *,
        newer: bool = False,
    ) -> None:
        moment = at if as_of is None else as_of
        rows = {index: self.market.rows(moment)[index].content for index in indexes}
        self.server.served.append(Served(at, call, body, False, rows, as_of=moment, newer=newer))


def excuses(run: HandMadeRun, kind: str) -> list[str]:
    return [excuse for found, excuse in run.findings if found == kind]


def listed(quirks: Quirks | None = None, **changes: Any) -> HandMadeRun:
    """Return a run that reports request 1, of second 100, as new at 300."""
    run = HandMadeRun(quirks, **changes)
    run.listing(0.5, WIDEST)
    run.market.publish(100.0, FIRST)
    run.listing(300.0, 345, 1)
    run.report(300.0, "new", 1)
    return run
