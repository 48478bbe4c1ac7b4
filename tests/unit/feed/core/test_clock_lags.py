"""Tests of time that the feed's clock may have missed: earlier changes may be older than it shows."""

from __future__ import annotations

import attrs
import pytest
from tests.unit.feed.rig import HOUR, Rig, Service

from freight_exchange.feed.core.clock_lags import ClockLag, comparable_time, with_lag
from freight_exchange.feed.core.planning.active_scan import ActiveScan
from freight_exchange.feed.core.planning.scanner import Scanner
from freight_exchange.feed.core.planning.schedule import DEEP
from freight_exchange.feed.core.state import State
from freight_exchange.feed.core.state_rules import absence_query, recheck_window, with_watermark
from freight_exchange.feed.core.watermark import Watermark
from freight_exchange.feed.paging_legacy.page_sizes import PageSizes
from freight_exchange.platform.clock import Reading
from freight_exchange.store import Store

STATE = State(
    watermark=Watermark(10_000.0, Reading(run="a", loop=10_000.0, boot_id="b", boot=10_000.0, wall=10_000.0)),
    stage="primed",
    allowance=60.0,
)


def reading(at: float, *, later_by_the_wall: float = 0.0) -> Reading:
    return Reading(run="a", loop=at, boot_id="b", boot=at, wall=at + later_by_the_wall)


def scan(began: Reading, window: int = 21_600) -> ActiveScan:
    return ActiveScan(
        number=2,
        tier=DEEP[1],
        window=window,
        own_window=window,
        is_silent=False,
        is_first=False,
        watermark=STATE.watermark,
        gap_until=STATE.gap_until,
        began=began,
        started=0.0,
        scanner=Scanner(PageSizes()),
    )


def earliest(state: State, window: int) -> float:
    now = state.watermark.reading
    return absence_query(state, scan(now, window), now).updated_after


def test_time_since_the_end_of_a_lag_is_trusted_to_the_clock() -> None:
    now = reading(10_300.0, later_by_the_wall=7200.0)
    state = with_watermark(STATE, scan(now))
    assert state.clock_lags == (ClockLag(by=7200.0, until=10_240.0),)
    assert earliest(state, 41) == 10_260.0
    assert earliest(state, 101) == pytest.approx(10_240.0, abs=1.0)
    assert earliest(state, 7401) == 10_100.0


def test_small_lag_after_a_large_one_makes_nothing_older_than_both_together() -> None:
    lags = (ClockLag(by=500_000.0, until=2000.0), ClockLag(by=3600.0, until=9000.0))
    state = attrs.evolve(STATE, clock_lags=lags)
    assert earliest(state, 501) == 9500.0
    assert earliest(state, 3601) == pytest.approx(9000.0, abs=1.0)
    assert earliest(state, 6601) == 7000.0
    assert earliest(state, 21_601) == pytest.approx(2000.0, abs=1.0)


def test_windows_that_begin_within_a_lag_stay_in_order_where_no_earlier_sighting_is_dated() -> None:
    lags = (ClockLag(by=500_000.0, until=2000.0), ClockLag(by=3600.0, until=9000.0))
    begins = [-600_000.0, -501_601.0, -400_000.0, -1601.0, -1600.0, 5000.0, 5399.0, 8000.0, 8999.0, 9000.0, 9001.0]
    times = [comparable_time(begin, lags) for begin in begins]
    assert times == sorted(set(times))
    assert times[0] == -96_400.0
    assert times[1] == 1999.0 < times[2] < times[3] < 2000.0
    assert times[4:7] == [2000.0, 8600.0, 8999.0]
    assert times[7] < times[8] < 9000.0
    assert times[9:] == [9000.0, 9001.0]


def test_lags_that_end_together_are_kept_in_order() -> None:
    lags = with_lag((ClockLag(by=60.0, until=2000.0),), 60.0, 1000.0)
    assert comparable_time(1960.0, lags) < comparable_time(1970.0, lags) < comparable_time(2001.0, lags)


def test_lags_beyond_every_window_are_forgotten_and_many_count_as_fewer() -> None:
    state = attrs.evolve(STATE, clock_lags=(ClockLag(by=60.0, until=10_000.0 - 432_001.0),))
    state = with_watermark(state, scan(reading(10_300.0, later_by_the_wall=7200.0)))
    assert len(state.clock_lags) == 1
    for hour in range(1, 40):
        state = with_watermark(state, scan(reading(10_300.0 + HOUR * hour, later_by_the_wall=7200.0 * (1 + hour))))
    assert len(state.clock_lags) == 20
    assert sum(lag.by for lag in state.clock_lags) == 40 * 7200.0


def test_window_for_a_request_from_before_a_lag_is_the_widest() -> None:
    state = attrs.evolve(STATE, clock_lags=(ClockLag(by=500_000.0, until=2000.0),))
    now = scan(state.watermark.reading)
    assert recheck_window(state, now, 2000.0, now.began) == 8001.0
    assert recheck_window(state, now, 1999.0, now.began) == 432_000.0
    assert recheck_window(STATE, now, 1999.0, now.began) == 8002.0


def test_scan_that_finds_out_about_a_lag_has_to_look_back_beyond_it_again() -> None:
    later = reading(10_300.0, later_by_the_wall=7200.0)
    assert recheck_window(STATE, scan(later), 10_239.0, later) == 432_000.0
    assert recheck_window(STATE, scan(later), 10_240.0, later) == 61.0


def test_window_for_a_missing_request_allows_a_scan_of_twice_the_time() -> None:
    now = scan(STATE.watermark.reading)
    ended = reading(10_009.0)
    window = recheck_window(STATE, now, 2000.0, ended)
    second = scan(reading(10_100.0), window=int(window + 100.0))
    assert absence_query(STATE, second, reading(10_118.0)).updated_after <= 2000.0


@pytest.mark.virtual_time
async def test_withdrawals_after_the_wall_clock_was_set_days_forward_are_reported(store: Store) -> None:
    rig = Rig(service := Service(), store=store, interval=300.0)
    service.publish(9)
    await rig.prime()
    rig.clock.wall += 500_000.0
    await rig.scan(2)
    service.publish(1)
    await rig.scan()
    rig.clock.wall += 3600.0
    await rig.scan()
    service.withdraw(1)
    await rig.scan_for(3 * HOUR)
    assert rig.event_keys == [("new", 1), ("withdrawn", 1)]


@pytest.mark.virtual_time
async def test_withdrawal_is_reported_of_a_request_that_was_listed_after_the_wall_clock_was_set_forward(
    store: Store,
) -> None:
    rig = Rig(service := Service(), store=store, interval=300.0)
    service.publish(9)
    await rig.prime()
    service.publish(1)
    await rig.scan()
    rig.clock.wall += 500_000.0
    # The five days first, then half an hour, which began before the wall clock was set.
    await rig.scan(3)
    service.withdraw(1)
    await rig.scan_for(3 * HOUR)
    assert rig.event_keys == [("new", 1), ("withdrawn", 1)]


@pytest.mark.virtual_time
async def test_withdrawal_that_the_scan_after_a_sleep_lacks_for_the_first_time_is_reported_soon(store: Store) -> None:
    rig = Rig(service := Service(), store=store, interval=500.0)
    service.publish(9)
    await rig.prime()
    service.publish(2)
    await rig.scan()
    service.publish(1)
    await rig.scan_for(0.75 * HOUR)
    service.withdraw(2)
    while service.windows[-1] < 6 * HOUR:
        await rig.scan()
    # This scan lacks one request, so the next one looks back as far, and all the time that was slept.
    service.withdraw(1)
    rig.clock.wall += 24 * HOUR
    await rig.scan_for(2 * HOUR)
    assert rig.event_keys == [("new", 2), ("new", 1), ("withdrawn", 2), ("withdrawn", 1)]
