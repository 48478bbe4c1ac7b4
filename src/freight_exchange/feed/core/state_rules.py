"""Rules by which complete scans advance the state of a feed. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import attrs

from freight_exchange.feed.core.clock_lags import ClockLag, comparable_time, with_lag
from freight_exchange.feed.core.first_scan import next_stage
from freight_exchange.feed.core.planning import schedule
from freight_exchange.feed.core.planning.active_scan import ActiveScan
from freight_exchange.feed.core.state import State
from freight_exchange.feed.core.watermark import MAX_ALLOWANCE, WIDEST, Watermark, is_covered
from freight_exchange.feed.events import Gap
from freight_exchange.feed.serialization import pack
from freight_exchange.platform.clock import Reading
from freight_exchange.store.protocol import AbsenceQuery, NewEvent

if TYPE_CHECKING:
    from freight_exchange.options import Start

__all__ = [
    "StateRules",
    "absence_query",
    "clock_lags",
    "earliest_moment",
    "find_gap",
    "recheck_window",
    "to_utc",
    "with_watermark",
]

_GAP_MARGIN: Final = 600.0
_CLOCK_TOLERANCE: Final = 1.0
"""Seconds by which clocks that agree may differ."""
_WHOLE_SECOND: Final = 1.0
"""A second less than the window: the service may count in whole ones."""


class StateRules:
    """Rules by which complete scans advance the state of one feed.

    Args:
        start: What the first scan reports.
        allowance: Seconds that the service may take to show an update, as the user set it.

    Attributes:
        unconfirmed_late: Indexes of the requests that the last deep scan found, and the watermark before it. `None`
            once a narrow scan has checked whether they were late.
    """

    def __init__(self, start: Start, allowance: float) -> None:
        self._start: Start = start
        self._allowance = allowance
        self.unconfirmed_late: tuple[frozenset[int], Watermark] | None = None

    def is_covering(self, state: State, scan: ActiveScan, received: Reading) -> bool:
        """Return whether a scan has omitted no update; `received` is when its last page came."""
        if scan.window >= WIDEST:
            # The service lists nothing older. Any time before the window is reported as a gap.
            return True
        if scan.is_first and not scan.is_silent and isinstance(self._start, timedelta):
            return is_covered(scan.window, state.since_entered(received) + self._start.total_seconds(), 0.0)
        return is_covered(scan.window, state.watermark.most(received), state.allowance)

    def advance(self, state: State, scan: ActiveScan, ended: float, *, is_covering: bool) -> State:
        """Return the state after a page.

        Args:
            state: The state before the page.
            scan: The scan of the page.
            ended: Time of the page on the feed's clock.
            is_covering: Whether the page ends the scan, and the scan has omitted no update.
        """
        if not is_covering:
            if scan.is_first and not scan.is_silent and not state.is_entered:
                # Every scan of this stage reports requests seen for the first time, so none is undecided.
                return with_watermark(attrs.evolve(state, stage="listing"), scan)
            return state
        if not state.is_primed:
            return self._advance_first_scan(state, scan, ended)
        late, allowance = self._lateness(state, scan)
        tiers = dict.fromkeys(schedule.completed_tiers(scan.window), state.watermark.time_at(scan.began))
        return attrs.evolve(with_watermark(state, scan), tiers={**state.tiers, **tiers}, late=late, allowance=allowance)

    def _advance_first_scan(self, state: State, scan: ActiveScan, ended: float) -> State:
        if not scan.is_first:
            began, listed = state.watermark.time_at(scan.began), state.tiers.get(schedule.DEEPEST.name, math.inf)
            settled = state.stage == "settling" and began - state.allowance >= listed
            return with_watermark(attrs.evolve(state, stage="primed" if settled else state.stage), scan)
        tiers = dict.fromkeys(schedule.completed_tiers(scan.window), ended)
        after = attrs.evolve(state, tiers={**state.tiers, **tiers})
        listed = schedule.DEEPEST.name in after.tiers
        if not state.is_entered:
            after = with_watermark(after, scan)
        return attrs.evolve(after, stage=next_stage(state.stage, self._start, listed=listed))

    def _lateness(self, state: State, scan: ActiveScan) -> tuple[int, float]:
        """Return the total number of late updates, and the new allowance.

        The next narrow scan after a deep one reaches back to the watermark before both. An update that the deep scan
        found is late if the narrow scan does not list it.
        """
        if scan.tier is schedule.DEEPEST:
            return state.late, max(self._allowance, state.allowance / 2)
        if scan.tier is not schedule.NARROW or self.unconfirmed_late is None:
            return state.late, state.allowance
        late = len(self.unconfirmed_late[0] - scan.indexes)
        longer = max(state.allowance, min(MAX_ALLOWANCE, 2 * state.allowance))
        return state.late + late, longer if late else state.allowance


def with_watermark(state: State, scan: ActiveScan) -> State:
    """Return the state with the watermark at the start of a scan, unless another scan has overtaken it."""
    reading = state.watermark.reading
    if scan.began.run == reading.run and scan.began.loop < reading.loop:
        return state
    watermark = Watermark(state.watermark.time_at(scan.began), scan.began)
    # A gap that was reported since the scan began may end after the new watermark.
    gap_until = None if state.gap_until == scan.gap_until else state.gap_until
    return attrs.evolve(state, watermark=watermark, clock_lags=clock_lags(state, scan.began), gap_until=gap_until)


def absence_query(state: State, scan: ActiveScan, received: Reading) -> AbsenceQuery:
    """Return the query for requests that a complete scan should have listed."""
    listed = state.watermark.time_at(received) - scan.window + _WHOLE_SECOND
    return AbsenceQuery(scan=scan.number, updated_after=comparable_time(listed, clock_lags(state, received)))


def recheck_window(state: State, scan: ActiveScan, since: float, received: Reading) -> float:
    """Return how far a second scan must look back to list all updates since a time, in seconds before this scan began.

    The second scan may take twice as long as this one, which ended at `received`: its window slides on meanwhile.
    """
    if any(since < lag.until for lag in clock_lags(state, received)):
        return WIDEST
    began, ended = state.watermark.time_at(scan.began), state.watermark.time_at(received)
    return began - since + 2 * (ended - began) + _WHOLE_SECOND


def find_gap(state: State, reading: Reading) -> tuple[tuple[NewEvent, ...], State]:
    """Return an event if there is a new gap, and the state that includes it.

    The clock that advanced most counts, since steady clocks stop while a machine is suspended. A false gap costs an
    acknowledgement; an unreported gap costs the updates in it.
    """
    since = max(state.watermark.time - state.allowance, -math.inf if state.gap_until is None else state.gap_until)
    now, furthest = state.watermark.time_at(reading), state.watermark.time + state.watermark.most(reading)
    now = max(now, furthest) if math.isfinite(furthest) else now
    lost = now - WIDEST
    if not state.is_entered or lost <= since:
        return (), state
    # Some more time will be lost while the scan lasts, as its window slides on.
    until = lost + _GAP_MARGIN
    gap = Gap(since=_moment_of(since, now, reading), until=_moment_of(until, now, reading))
    event = NewEvent(key=f"gap:{since}", index=None, kind=gap.kind, payload=pack(gap))
    return (event,), attrs.evolve(state, gap_until=until)


def to_utc(reading: Reading) -> datetime:
    """Return the time of day at a reading, UTC."""
    return datetime.fromtimestamp(reading.wall, UTC)


def earliest_moment(state: State, time: float, received: Reading) -> datetime:
    """Convert a time on the feed's clock to the earliest possible UTC, by the clock that advanced most since."""
    watermark = state.watermark
    furthest = watermark.most(received) - watermark.least(received)
    return _moment_of(time - (furthest if math.isfinite(furthest) else 0.0), watermark.time_at(received), received)


def _moment_of(time: float, now: float, reading: Reading) -> datetime:
    """Convert a time on the feed's clock to UTC; the feed's clock shows `now` at the reading."""
    return datetime.fromtimestamp(reading.wall - (now - time), UTC)


def clock_lags(state: State, reading: Reading) -> tuple[ClockLag, ...]:
    """Return the known lags of the feed's clock, and a new one if the machine was suspended before the reading.

    The new lag ends an allowance before the reading: updates seen from now on are not older than that.
    """
    watermark = state.watermark
    lags = tuple(lag for lag in state.clock_lags if lag.until > watermark.time - WIDEST)
    step = watermark.most(reading) - watermark.least(reading)
    if step <= _CLOCK_TOLERANCE:
        return lags
    return with_lag(lags, step if math.isfinite(step) else WIDEST, watermark.time_at(reading) - state.allowance)
