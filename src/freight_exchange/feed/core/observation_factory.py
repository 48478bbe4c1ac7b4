"""Construction of the observation of a page from the state of the feed. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import attrs

from freight_exchange.feed.core.changes.observation import RECENT_UNKNOWN, Observation
from freight_exchange.feed.core.first_scan import BASELINE, UNDECIDED
from freight_exchange.feed.core.planning import schedule
from freight_exchange.feed.core.state_rules import clock_lags, earliest_moment, to_utc
from freight_exchange.feed.core.watermark import WIDEST

if TYPE_CHECKING:
    from freight_exchange.feed.core.changes.unsteady_fields import UnsteadyFields
    from freight_exchange.feed.core.planning.active_scan import ActiveScan
    from freight_exchange.feed.core.state import State
    from freight_exchange.platform.clock import Reading

__all__ = ["observe_lookup", "observe_recent", "observe_scan"]


def observe_scan(
    state: State, unsteady: UnsteadyFields, scan: ActiveScan, sent: Reading, received: Reading
) -> Observation:
    """Return the observation of a page of a scan."""
    observation = _observe(state, unsteady, scan.number, scan.began, sent, received, scan.window)
    recent_updates = RECENT_UNKNOWN if scan.tier is schedule.NARROW else scan.recent_updates
    if state.is_primed:
        return attrs.evolve(observation, recent_updates=recent_updates)
    observation = _undecided(observation, state)
    between, is_reported = observation.between, scan.is_first and not scan.is_silent
    if not state.is_entered or is_reported:
        # Requests seen for the first time may be older than the feed.
        between = (None, between[1])
    return attrs.evolve(
        observation,
        is_silent=scan.is_silent,
        baseline_is_new=not state.is_entered or is_reported,
        between=between,
        recent_updates=recent_updates,
    )


def observe_recent(
    state: State, unsteady: UnsteadyFields, scan: ActiveScan, window: int, sent: Reading, received: Reading
) -> Observation:
    """Return the observation of a page of recent updates, requested during a deep scan; it counts as a narrow one."""
    observation = _observe(state, unsteady, scan.number, scan.began, sent, received, window)
    return observation if state.is_primed else _undecided(observation, state)


def observe_lookup(state: State, unsteady: UnsteadyFields, received: Reading) -> Observation:
    """Return the observation of a request that was looked up."""
    return _observe(state, unsteady, state.scan, received, received, received, WIDEST)


def _undecided(observation: Observation, state: State) -> Observation:
    """Return the observation as it counts before the first scan is complete."""
    # A request seen for the first time may be as old as the window. If scans take long, the window begins before the
    # feed was entered.
    begin, end = observation.between
    older = timedelta(seconds=max(0.0, observation.covered - observation.start))
    return attrs.evolve(
        observation,
        between=(None if begin is None else begin - older, end),
        version=UNDECIDED if state.is_entered else BASELINE,
        changed_is_new=state.stage == "window",
        undecided_since=state.watermark.time - state.allowance,
        unseen_is_recent=False,
    )


def _observe(
    state: State,
    unsteady: UnsteadyFields,
    scan: int,
    began: Reading,
    sent: Reading,
    received: Reading,
    window: int,
) -> Observation:
    covered = state.watermark.time - state.allowance
    return Observation(
        scan=scan,
        sent=state.watermark.time_at(sent),
        window=window,
        is_silent=False,
        covered=covered,
        between=(earliest_moment(state, covered, received), to_utc(received)),
        schema=state.schema,
        unsteady=unsteady.fields_of,
        unsteady_extras=unsteady.common,
        clock_lags=clock_lags(state, began),
    )
