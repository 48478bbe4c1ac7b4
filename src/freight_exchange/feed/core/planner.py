"""Which look is due, how far back it looks, and what rests after a failure. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import attrs

from freight_exchange.feed.core import lacking, schedule
from freight_exchange.feed.core.watermark import WIDEST, ScanTimes, window_for
from freight_exchange.platform.clock import Reading, max_elapsed

if TYPE_CHECKING:
    from freight_exchange.feed.core.state import State
    from freight_exchange.feed.core.watermark import Watermark
    from freight_exchange.options import Start

__all__ = ["Depth", "Planner", "is_young"]

_FIRST_REST: Final = 30.0


@attrs.frozen
class Depth:
    """What a look is to be.

    Attributes:
        rung: How deep it looks.
        window: Seconds that it looks back.
        own: Seconds that it would look back if no scan before it had lacked anything.
        silent: Whether what it sees for the first time is no event.
        first: Whether it belongs to the first scan.
    """

    rung: schedule.Tier
    window: int
    own: int
    silent: bool = False
    first: bool = False


@attrs.frozen
class _Rest:
    until: float
    seconds: float


@attrs.frozen
class _Doubt:
    """A scan that lacked something: only a second one that looks as far back can tell that it is gone."""

    window: int
    began: Reading

    def back(self, now: Reading) -> float:
        return self.window + max_elapsed(self.began, now)


class Planner:
    """Plans the looks of one feed.

    Args:
        start: What the first scan hands out.

    Attributes:
        fresh: Whether this run has yet to look as far back as the service does.
        failing: The names of the rungs that failed, and have not succeeded since.
    """

    def __init__(self, start: Start) -> None:
        self._start: Start = start
        self._narrow_times = ScanTimes()
        self._deep_times = ScanTimes()
        self._rests: dict[str, _Rest] = {}
        self._doubt: _Doubt | None = None
        self.fresh = True
        self.failing: set[str] = set()

    def next(self, state: State, now: Reading, *, suspects: Watermark | None, deep: bool) -> Depth:
        """What to look at now.

        Args:
            state: The feed's state.
            now: What the clocks say.
            suspects: The cover to reach back to, so that it is known whether what a deep scan found was late.
            deep: Whether a deep look may be made only because its turn has come.
        """
        if not state.primed:
            return self._unprimed(state, now, deep=deep)
        age, expected = state.cover.most(now), self._narrow_times.expected()
        doubtful = 0 if self._doubt is None else window_for(self._doubt.back(now), 0.0, expected)
        follow_up = schedule.within(doubtful)
        if follow_up is not schedule.NARROW and not (deep and follow_up.name not in self._resting(state, now)):
            # A narrow look is never as wide as a deep one: nothing could overtake it.
            doubtful, follow_up = 0, schedule.NARROW
        # After a long silence there is nothing but a deep look, whatever failed before.
        own = max(schedule.within(age), self._due(state, now) if deep else schedule.NARROW, key=_window)
        rung = max(own, follow_up, key=_window)
        if rung is not schedule.NARROW:
            expected = max(expected, self._deep_times.expected())
        ages = [age] if suspects is None else [age, suspects.most(now)]
        windows = [own.window, *(window_for(age, state.allowance, expected) for age in ages)]
        return Depth(rung, min(WIDEST, max(rung.window, doubtful, *windows)), min(WIDEST, max(windows)))

    def expected(self) -> float:
        """Seconds that a narrow scan is expected to take."""
        return self._narrow_times.expected()

    def took(self, rung: schedule.Tier, seconds: float) -> None:
        """A scan took so long, or twice as long is to be expected of the next."""
        (self._narrow_times if rung is schedule.NARROW else self._deep_times).took(seconds)

    def succeeded(self, rung: schedule.Tier, window: int, own: int, began: Reading, *, doubtful: bool) -> None:
        """A scan has seen all of its window; `doubtful` if it lacked something for the first time.

        What it lacked is looked for again as far back as it would have looked on its own account: were that as far as
        it did, every scan of a market from which requests vanish would call for another one as deep.
        """
        # One that failed before, and now does not: the trouble was not in how deep it looks.
        well = {*self.failing} if rung.name in self.failing else {schedule.NARROW.name, *schedule.reached(window)}
        self.failing -= well
        self._rests = {name: rest for name, rest in self._rests.items() if name not in well}
        if self._doubt is None or window >= min(WIDEST, self._doubt.back(began)):
            self._doubt = _Doubt(own, began) if doubtful else None

    def stalled(self, rung: schedule.Tier) -> None:
        """A look of this depth has met trouble, and will go on where it is."""
        self.failing.add(rung.name)

    def failed(self, rung: schedule.Tier, time: float) -> None:
        """A look of this depth failed, at that time on the feed's clock: a deep one rests, longer from one failure to
        the next, and the others have their turn."""
        self.failing.add(rung.name)
        if rung is schedule.NARROW:
            return
        before = self._rests.get(rung.name)
        seconds = min(rung.every, _FIRST_REST if before is None else 2 * before.seconds)
        self._rests[rung.name] = _Rest(time + seconds, seconds)

    def recent(self, state: State, now: Reading) -> Depth:
        """Return the scan of what was updated lately, which is the baseline of the narrow scans to come."""
        return self._since_cover(state, now, silent=True, first=True)

    def _unprimed(self, state: State, now: Reading, *, deep: bool) -> Depth:
        if not state.entered:
            return self._listing()
        if state.stage == "settling" or not deep or not is_young(state.cover, now):
            return self._since_cover(state, now)
        return self._listing() if state.stage == "listing" else self._within_start(state, now)

    def _listing(self) -> Depth:
        return Depth(schedule.DEEPEST, WIDEST, WIDEST, silent=self._start != "backfill", first=True)

    def _within_start(self, state: State, now: Reading) -> Depth:
        # Counted from when the feed was first entered, however long it took until this succeeds.
        within = self._start.total_seconds() if isinstance(self._start, timedelta) else 0.0
        age = state.since_entered(now) + within
        expected = max(self._narrow_times.expected(), self._deep_times.expected())
        window = window_for(age, 0.0, expected)
        return Depth(schedule.within(age), window, window, first=True)

    def _since_cover(self, state: State, now: Reading, *, silent: bool = False, first: bool = False) -> Depth:
        """Return a scan of exactly what was updated since the cover, however long that was ago."""
        age, expected = state.cover.most(now), self._narrow_times.expected()
        tier = schedule.within(age)
        if tier is not schedule.NARROW:
            expected = max(expected, self._deep_times.expected())
        window = window_for(age, state.allowance, expected)
        return Depth(tier, window, window, silent=silent, first=first)

    def _due(self, state: State, now: Reading) -> schedule.Tier:
        last = dict(state.rungs)
        if self.fresh:
            last.pop(schedule.DEEPEST.name, None)
        time, resting = state.cover.time_at(now), self._resting(state, now)
        settling = lacking.rung(state.lacking, time)
        due = schedule.due(last, time, resting)
        return due if settling.name in resting else max(due, settling, key=_window)

    def _resting(self, state: State, now: Reading) -> frozenset[str]:
        time = state.cover.time_at(now)
        return frozenset(name for name, rest in self._rests.items() if time < rest.until)


def _window(rung: schedule.Tier) -> int:
    return rung.window


def is_young(cover: Watermark, now: Reading) -> bool:
    """Whether narrow looks still reach back to the cover. After a long silence every look is a deep one."""
    return cover.most(now) < schedule.DEEP[-1].window
