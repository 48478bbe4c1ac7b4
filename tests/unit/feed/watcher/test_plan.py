"""Tests of planning: which scan is due, how far it looks back, and what rests after a failure."""

from __future__ import annotations

import attrs
import pytest
from tests.unit.feed.rig import DAY, HOUR

from freight_exchange.feed.core.planning import schedule
from freight_exchange.feed.core.planning.planner import Planner, ScanPlan
from freight_exchange.feed.core.planning.schedule import DEEP, DEEPEST, NARROW
from freight_exchange.feed.core.state import State
from freight_exchange.feed.core.watermark import WIDEST, Watermark
from freight_exchange.platform.clock import Reading

SIX_HOURS, HALF_AN_HOUR = DEEP[1], DEEP[2]


def at(time: float) -> Reading:
    return Reading(run="run", loop=time, boot_id="boot", boot=time, wall=1.7e9 + time)


def after(age: float, *, now: float = 2 * DAY, allowance: float = 60.0, **ago: float) -> State:
    """Return the state of a feed whose watermark is that old, and whose tiers are that many seconds back."""
    tiers = {tier.name: now - ago.get(tier.name.replace(" ", "_"), 0.0) for tier in DEEP}
    return State(watermark=Watermark(now - age, at(now - age)), stage="primed", allowance=allowance, tiers=tiers)


@pytest.fixture
def planner() -> Planner:
    planner = Planner("now")
    planner.is_fresh = False
    return planner


def plan(planner: Planner, state: State, *, now: float = 2 * DAY, deep: bool = True) -> ScanPlan:
    return planner.next_plan(state, at(now), unconfirmed_since=None, deep=deep)


def test_scan_between_the_deep_ones_is_narrow(planner: Planner) -> None:
    assert plan(planner, after(30.0)) == ScanPlan(NARROW, 95, 95)


def test_first_scan_of_a_run_is_the_deepest() -> None:
    assert plan(Planner("now"), after(30.0)).tier is DEEPEST


def test_failed_tier_rests_while_the_next_shallower_one_is_due(planner: Planner) -> None:
    state = after(30.0, five_days=2 * DAY, six_hours=2 * HOUR, half_an_hour=0.0)
    assert plan(planner, state).tier is DEEPEST
    planner.record_failure(DEEPEST, 2 * DAY)
    assert plan(planner, state).tier is SIX_HOURS
    planner.record_failure(SIX_HOURS, 2 * DAY)
    assert plan(planner, state).tier is NARROW
    assert plan(planner, state, now=2 * DAY + 30).tier is DEEPEST


def test_first_scan_of_a_run_rests_after_a_failure_too() -> None:
    planner = Planner("now")
    planner.record_failure(DEEPEST, 2 * DAY)
    assert plan(planner, after(30.0)).tier is NARROW
    assert plan(planner, after(30.0), now=2 * DAY + 30).tier is DEEPEST


def test_rest_doubles_up_to_the_interval_of_the_tier(planner: Planner) -> None:
    now = 2 * DAY
    for seconds in (30, 60, 120, 240, 300, 300):
        planner.record_failure(HALF_AN_HOUR, now)
        state = after(30.0, now=now, half_an_hour=HOUR)
        assert plan(planner, state, now=now + seconds - 1).tier is NARROW
        assert plan(planner, state, now=now + seconds).tier is HALF_AN_HOUR
        now += seconds


def test_success_ends_the_rests_of_tiers_that_are_no_deeper(planner: Planner) -> None:
    state = after(30.0, half_an_hour=HOUR)
    planner.record_failure(HALF_AN_HOUR, 2 * DAY)
    planner.record_failure(DEEPEST, 2 * DAY)
    planner.record_success(SIX_HOURS, SIX_HOURS.window, SIX_HOURS.window, at(2 * DAY), is_doubtful=False)
    assert plan(planner, state).tier is HALF_AN_HOUR
    assert planner.failing == {DEEPEST.name}


def test_success_of_the_tier_that_failed_last_ends_the_rests_of_all_tiers(planner: Planner) -> None:
    planner.record_failure(DEEPEST, 2 * DAY)
    planner.record_failure(NARROW, 2 * DAY)
    planner.record_success(NARROW, 95, 95, at(2 * DAY), is_doubtful=False)
    assert not planner.failing
    assert plan(planner, after(30.0, five_days=2 * DAY)).tier is DEEPEST


@pytest.mark.parametrize(
    ("age", "tier"),
    [(1799.0, NARROW), (1800.0, HALF_AN_HOUR), (7 * HOUR, SIX_HOURS), (6 * DAY, DEEPEST), (float("inf"), DEEPEST)],
)
def test_only_deep_scans_follow_a_long_silence(planner: Planner, age: float, tier: schedule.Tier) -> None:
    now = 10 * DAY
    for each in DEEP:
        planner.record_failure(each, now)
    age = min(age, 10 * DAY)
    assert plan(planner, after(age, now=now), now=now, deep=False).tier is tier


def test_long_allowance_alone_makes_no_scan_a_deep_one(planner: Planner) -> None:
    assert plan(planner, after(30.0, allowance=1800.0)) == ScanPlan(NARROW, 1835, 1835)


def test_scan_that_lacked_a_request_is_followed_by_one_as_wide(planner: Planner) -> None:
    planner.record_success(NARROW, 600, 600, at(2 * DAY - 30), is_doubtful=True)
    assert plan(planner, after(30.0)) == ScanPlan(NARROW, 635, 95)
    planner.record_success(NARROW, 635, 635, at(2 * DAY), is_doubtful=False)
    assert plan(planner, after(30.0)).window == 95


def test_deep_scan_that_lacked_a_request_is_followed_by_a_deep_one(planner: Planner) -> None:
    planner.record_success(SIX_HOURS, SIX_HOURS.window, SIX_HOURS.window, at(2 * DAY - 30), is_doubtful=True)
    follow_up = plan(planner, after(30.0))
    assert follow_up.tier is SIX_HOURS
    assert follow_up.window >= SIX_HOURS.window + 30


def test_overtaking_narrow_scan_is_not_as_wide_as_a_deep_one_that_lacked_a_request(planner: Planner) -> None:
    planner.record_success(DEEPEST, WIDEST, WIDEST, at(2 * DAY - 30), is_doubtful=True)
    assert plan(planner, after(30.0), deep=False) == ScanPlan(NARROW, 95, 95)
    planner.record_success(NARROW, 95, 95, at(2 * DAY), is_doubtful=True)
    assert plan(planner, after(30.0)).tier is DEEPEST


def test_a_follow_up_rests_too(planner: Planner) -> None:
    planner.record_success(DEEPEST, WIDEST, WIDEST, at(2 * DAY - 30), is_doubtful=True)
    planner.record_failure(DEEPEST, 2 * DAY)
    assert plan(planner, after(30.0)) == ScanPlan(NARROW, 95, 95)
    assert plan(planner, after(30.0), now=2 * DAY + 30).tier is DEEPEST


def test_slow_deep_scan_makes_no_narrow_one_wide(planner: Planner) -> None:
    planner.record_duration(DEEPEST, 4 * HOUR)
    assert plan(planner, after(30.0)).window == 95
    assert plan(planner, after(HOUR)).window > 5 * HOUR


def test_narrow_scan_reaches_back_to_the_watermark_before_the_deep_one(planner: Planner) -> None:
    state = after(30.0)
    unconfirmed_since = attrs.evolve(state.watermark, reading=at(2 * DAY - 400))
    assert planner.next_plan(state, at(2 * DAY), unconfirmed_since=unconfirmed_since, deep=True) == ScanPlan(
        NARROW, 465, 465
    )
