"""Tests of rule 1, the watermark: windows reach back over its age, the allowance and the scan, and this is checked."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.feed.core.watermark import SCAN_TIME, WIDEST, ScanTimes, Watermark, is_covered, window_for
from freight_exchange.platform.clock import Reading


def reading(at: float, *, boot_id: str = "x", wall: float | None = None) -> Reading:
    return Reading(
        run="a" if boot_id == "x" else "b", loop=at, boot_id=boot_id, boot=at, wall=at if wall is None else wall
    )


@pytest.mark.parametrize(
    ("elapsed", "window"), [(0, 65), (30, 95), (30.01, 96), (WIDEST - 65.5, WIDEST), (1e9, WIDEST), (math.inf, WIDEST)]
)
def test_the_window_is_rounded_up_and_no_wider_than_the_service_allows(elapsed: float, window: int) -> None:
    assert window_for(elapsed, 60, 5) == window


@pytest.mark.parametrize(("ahead", "age"), [(0.0, 30.0), (50.0, 80.0), (-20.0, 10.0), (-40.0, 0.0), (-7200.0, 0.0)])
def test_clock_of_another_machine_is_continued(ahead: float, age: float) -> None:
    """Its wall clock may be corrected later. A clock that is hours behind delays no retry by days."""
    followed = Watermark(900.0, reading(100.0)).followed(reading(130.0, boot_id="y", wall=130.0 + ahead))
    assert followed.time_at(reading(130.0, boot_id="y", wall=1e9)) == 900.0 + age
    assert followed.time_at(reading(140.0, boot_id="y", wall=0.0)) == 910.0 + age


@pytest.mark.parametrize("back", [20.0, 7200.0])
def test_wall_clock_that_is_set_back_after_a_restart_of_the_machine_hides_no_time(back: float) -> None:
    start = reading(5.0, boot_id="y", wall=130.0)
    continued = Watermark(900.0, reading(100.0)).continued(start)
    later = reading(15.0, boot_id="y", wall=140.0 - back)
    assert continued.most(later) == continued.least(later) == 40.0
    assert continued.time_at(later) == 940.0


def test_no_window_is_empty() -> None:
    assert window_for(0, 0, 0) == 1


def test_window_that_slid_past_the_watermark_does_not_cover() -> None:
    assert is_covered(95, 35, 60)
    assert not is_covered(95, 35.001, 60)


@given(st.floats(0, 1e6), st.floats(0, 1800), st.floats(0, 3600), st.floats(0, 3600))
def test_scan_within_its_time_is_covered_for_any_window(
    elapsed: float, allowance: float, expected: float, took: float
) -> None:
    window = window_for(elapsed, allowance, expected)
    if window < WIDEST and took <= expected * 0.999:
        assert is_covered(window, elapsed + took, allowance)
    assert window == WIDEST or window >= elapsed + allowance + expected


def test_expected_time_of_a_scan_is_that_of_ninety_nine_in_a_hundred() -> None:
    times = ScanTimes()
    assert times.expected() == SCAN_TIME
    for _ in range(99):
        times.record(8.0)
    times.record(50.0)
    assert times.expected() == 8.0
    times.record(60.0)
    assert times.expected() == 50.0


def test_expected_duration_has_a_minimum_and_forgets_slow_scans() -> None:
    times = ScanTimes()
    times.record(900.0)
    assert times.expected() == 900.0
    for _ in range(200):
        times.record(0.1)
    assert times.expected() == SCAN_TIME


def test_feed_clock_advances_with_the_boot_clock() -> None:
    watermark = Watermark(1000.0, reading(100.0))
    assert watermark.time_at(reading(130.0, wall=9999.0)) == 1030.0
    assert watermark.most(reading(130.0, wall=9999.0)) == 9899.0
    assert watermark.least(reading(130.0, wall=9999.0)) == 30.0


def test_without_a_valid_clock_the_longest_silence_is_counted() -> None:
    watermark = Watermark(1000.0, reading(100.0))
    assert watermark.time_at(reading(5.0, boot_id="y", wall=100.0 - 7200.0)) == 1000.0 + WIDEST


def test_small_clock_correction_over_a_restart_is_not_a_long_silence() -> None:
    watermark = Watermark(1000.0, reading(100.0))
    later = reading(5.0, boot_id="y", wall=99.0)
    assert watermark.time_at(later) == 1000.0
    assert watermark.most(later) == math.inf
