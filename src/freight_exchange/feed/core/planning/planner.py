"""Planner of scans: the tier that is due, its window, and tiers that pause after failures. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import attrs

from freight_exchange.feed.core.absence import doubts
from freight_exchange.feed.core.planning import schedule
from freight_exchange.feed.core.watermark import WIDEST, ScanTimes, window_for
from freight_exchange.platform.clock import Reading, max_elapsed

if TYPE_CHECKING:
    from freight_exchange.feed.core.state import AbsenceDoubt, State
    from freight_exchange.feed.core.watermark import Watermark
    from freight_exchange.options import Start

__all__ = ["Planner", "ScanPlan", "is_recent", "settling_tier"]

_BASELINE_MARGIN: Final = 5
"""Seconds by which the first scan of recent updates reaches back further than later ones."""

_FIRST_REST: Final = 30.0


@attrs.frozen
class ScanPlan:
    """Plan of a scan.

    Attributes:
        tier: Its depth.
        window: Seconds that it looks back.
        own_window: The window that it would have without requests to check that earlier scans lacked.
        is_silent: Whether requests that it sees for the first time make no events.
        is_first: Whether it belongs to the first scan.
    """

    tier: schedule.Tier
    window: int
    own_window: int
    is_silent: bool = False
    is_first: bool = False


@attrs.frozen
class _Rest:
    until: float
    seconds: float


@attrs.frozen
class _Doubt:
    """Scan that lacked requests. Only a second one that looks as far back can prove that they are gone."""

    window: int
    began: Reading

    def reach(self, now: Reading) -> float:
        return self.window + max_elapsed(self.began, now)


class Planner:
    """Planner of the scans of one feed.

    Args:
        start: Content of the first scan that is reported.

    Attributes:
        is_fresh: Whether this run has not yet completed a scan of the deepest tier.
        failing: The names of the tiers that failed, and have not succeeded since.
    """

    def __init__(self, start: Start) -> None:
        self._start: Start = start
        self._narrow_times = ScanTimes()
        self._deep_times = ScanTimes()
        self._rests: dict[str, _Rest] = {}
        self._doubt: _Doubt | None = None
        self.is_fresh = True
        self.failing: set[str] = set()

    def next_plan(self, state: State, now: Reading, *, unconfirmed_since: Watermark | None, deep: bool) -> ScanPlan:
        """Return the plan of the next scan.

        Args:
            state: The feed's state.
            now: Reading of the clocks.
            unconfirmed_since: Watermark that the scan must reach back to, to check whether a deep scan has found late
                updates.
            deep: Whether a deep scan may be planned because one is due. After a long silence one is planned anyway.
        """
        if not state.is_primed:
            return self._plan_first_scan(state, now, deep=deep)
        age, expected = state.watermark.most(now), self._narrow_times.expected()
        doubtful = 0 if self._doubt is None else window_for(self._doubt.reach(now), 0.0, expected)
        follow_up = schedule.tier_within(doubtful)
        may_follow_up = deep and follow_up.name not in self._resting_tiers(state, now)
        if follow_up is not schedule.NARROW and not may_follow_up:
            # The check needs a deep scan later. A narrow one must not be that wide, as nothing could overtake it.
            doubtful, follow_up = 0, schedule.NARROW
        # After a long silence there are deep scans only, even if they failed before.
        own = max(schedule.tier_within(age), self._due_tier(state, now) if deep else schedule.NARROW, key=_window)
        tier = max(own, follow_up, key=_window)
        if tier is not schedule.NARROW:
            expected = max(expected, self._deep_times.expected())
        ages = [age] if unconfirmed_since is None else [age, unconfirmed_since.most(now)]
        windows = [own.window, *(window_for(age, state.allowance, expected) for age in ages)]
        own_window = max(windows)
        return ScanPlan(tier, min(WIDEST, max(tier.window, doubtful, own_window)), min(WIDEST, own_window))

    def expected_duration(self) -> float:
        """Return the seconds that a narrow scan is expected to take."""
        return self._narrow_times.expected()

    def record_duration(self, tier: schedule.Tier, seconds: float) -> None:
        """Record the duration of a scan, or an estimate for the next one."""
        (self._narrow_times if tier is schedule.NARROW else self._deep_times).record(seconds)

    def record_success(
        self, tier: schedule.Tier, window: int, own_window: int, began: Reading, *, is_doubtful: bool
    ) -> None:
        """Record that a scan has read its whole window; `is_doubtful` if it lacked something for the first time.

        The second scan, which checks the lacking requests, reaches back by `own_window` only. By the full window, each
        check that lacks new requests would require another one as deep.
        """
        # A failing tier that succeeds shows that depth was not the cause, so all tiers recover.
        recovered_tiers = (
            {*self.failing} if tier.name in self.failing else {schedule.NARROW.name, *schedule.completed_tiers(window)}
        )
        self.failing -= recovered_tiers
        self._rests = {name: rest for name, rest in self._rests.items() if name not in recovered_tiers}
        if self._doubt is None or window >= min(WIDEST, self._doubt.reach(began)):
            self._doubt = _Doubt(own_window, began) if is_doubtful else None

    def record_stall(self, tier: schedule.Tier) -> None:
        """Record that a page of a scan of this tier failed; the scan will continue there."""
        self.failing.add(tier.name)

    def record_failure(self, tier: schedule.Tier, time: float) -> None:
        """Record that a scan of this tier failed, at a time on the feed's clock.

        A deep tier pauses, twice as long after each failure, while other tiers go on.
        """
        self.failing.add(tier.name)
        if tier is schedule.NARROW:
            return
        before = self._rests.get(tier.name)
        seconds = min(tier.every, _FIRST_REST if before is None else 2 * before.seconds)
        self._rests[tier.name] = _Rest(time + seconds, seconds)

    def recent_plan(self, state: State, now: Reading) -> ScanPlan:
        """Return the plan of a scan of recent updates, which are the baseline of later narrow scans.

        It reaches back a little further than later narrow scans: windows are rounded up, and slide on between pages.
        """
        plan = self._plan_since_watermark(state, now, is_silent=True, is_first=True)
        window = min(WIDEST, plan.window + _BASELINE_MARGIN)
        return attrs.evolve(plan, window=window, own_window=window)

    def _plan_first_scan(self, state: State, now: Reading, *, deep: bool) -> ScanPlan:
        if not state.is_entered:
            return self._plan_listing()
        if state.stage == "settling" or not deep or not is_recent(state.watermark, now):
            return self._plan_since_watermark(state, now)
        return self._plan_listing() if state.stage == "listing" else self._plan_within_start(state, now)

    def _plan_listing(self) -> ScanPlan:
        return ScanPlan(schedule.DEEPEST, WIDEST, WIDEST, is_silent=self._start != "backfill", is_first=True)

    def _plan_within_start(self, state: State, now: Reading) -> ScanPlan:
        # `start` counts from the first entry into the feed, even if this scan succeeds only much later.
        within = self._start.total_seconds() if isinstance(self._start, timedelta) else 0.0
        age = state.since_entered(now) + within
        expected = max(self._narrow_times.expected(), self._deep_times.expected())
        window = window_for(age, 0.0, expected)
        return ScanPlan(schedule.tier_within(age), window, window, is_first=True)

    def _plan_since_watermark(
        self, state: State, now: Reading, *, is_silent: bool = False, is_first: bool = False
    ) -> ScanPlan:
        """Return the plan of a scan of exactly the updates since the watermark, of any age."""
        age, expected = state.watermark.most(now), self._narrow_times.expected()
        tier = schedule.tier_within(age)
        if tier is not schedule.NARROW:
            expected = max(expected, self._deep_times.expected())
        window = window_for(age, state.allowance, expected)
        return ScanPlan(tier, window, window, is_silent=is_silent, is_first=is_first)

    def _due_tier(self, state: State, now: Reading) -> schedule.Tier:
        last = dict(state.tiers)
        if self.is_fresh:
            last.pop(schedule.DEEPEST.name, None)
        time, resting = state.watermark.time_at(now), self._resting_tiers(state, now)
        settling = settling_tier(state.absence_doubt, time)
        due = schedule.due_tier(last, time, resting)
        return due if settling.name in resting else max(due, settling, key=_window)

    def _resting_tiers(self, state: State, now: Reading) -> frozenset[str]:
        time = state.watermark.time_at(now)
        return frozenset(name for name, rest in self._rests.items() if time < rest.until)


def _window(tier: schedule.Tier) -> int:
    return tier.window


def settling_tier(doubt: AbsenceDoubt | None, at: float) -> schedule.Tier:
    """Return the tier that can resolve a doubt: a deeper one while it is open, later once more the same one."""
    if doubt is None:
        return schedule.NARROW
    if doubts.is_open(doubt, at):
        return schedule.tier_above(doubt.window)
    return schedule.NARROW if doubts.is_checked(doubt) else schedule.tier_within(doubt.window)


def is_recent(watermark: Watermark, now: Reading) -> bool:
    """Return whether narrow scans reach back to the watermark; after a long silence every scan is a deep one."""
    return watermark.most(now) < schedule.DEEP[-1].window
