"""Tests of clocks: elapsed time is never underestimated if a clock stops or jumps."""

from __future__ import annotations

import math
import time

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.platform import clock
from freight_exchange.platform.clock import Clock, Reading, max_elapsed, rebased

THEN = Reading(run="a", loop=100.0, boot_id="x", boot=1000.0, wall=1.7e9)


def later(loop: float, boot: float, wall: float, *, run: str = "a", boot_id: str = "x") -> Reading:
    return Reading(run=run, loop=100.0 + loop, boot_id=boot_id, boot=1000.0 + boot, wall=1.7e9 + wall)


@pytest.mark.parametrize(
    ("now", "longest"),
    [
        pytest.param(later(30, 30, 30), 30, id="all agree"),
        pytest.param(later(30, 500, 500), 500, id="asleep: the loop's clock stood still"),
        pytest.param(later(30, 30, 9000), 9000, id="the wall was set forward"),
        pytest.param(later(30, 30, -9000), 30, id="the wall was set back"),
        pytest.param(later(-90, 60, 61, run="b"), 61, id="another process on the same boot"),
        pytest.param(later(-90, -900, 7200, run="b", boot_id="y"), 7200, id="after a restart of the machine"),
        pytest.param(later(-90, -900, -7200, run="b", boot_id="y"), math.inf, id="no clock is valid"),
        pytest.param(later(-90, -900, -61, run="b", boot_id="y"), math.inf, id="the wall was put right meanwhile"),
        pytest.param(later(-90, -900, -59, run="b", boot_id="y"), 0.0, id="the clock of another machine is behind"),
        pytest.param(later(5, 5, 40, boot_id=""), 40, id="no boot clock: the wall may know of a sleep"),
        pytest.param(later(9, 9, 50, run="b", boot_id=""), 50, id="no boot clock, another process"),
    ],
)
def test_elapsed_time_has_bounds_by_several_clocks(now: Reading, longest: float) -> None:
    then = attrs.evolve(THEN, boot_id="") if not now.boot_id else THEN
    assert max_elapsed(then, now) == longest


def test_two_machines_that_name_no_boot_are_not_one() -> None:
    """Empty boot ids are no proof of the same boot."""
    then = attrs.evolve(THEN, boot_id="")
    assert max_elapsed(then, later(0, 10**6, 20, run="b", boot_id="")) == 20


def test_reading_from_before_a_restart_of_the_machine_is_continued_by_its_steady_clocks() -> None:
    start = later(-90, -900, 7200, run="b", boot_id="y")
    then = rebased(THEN, start)
    assert then.wall == THEN.wall
    assert max_elapsed(then, start) == 7200
    for wall, longest in ((0.0, 7260.0), (-1e6, 7260.0), (9000.0, 9000.0)):
        now = later(-30, -840, wall, run="b", boot_id="y")
        assert max_elapsed(then, now) == longest
    next_run = later(-99, -840, 0.0, run="c", boot_id="y")
    assert max_elapsed(then, next_run) == 7260


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(later(30, 30, 9000), id="the same run"),
        pytest.param(later(-90, 60, 9000, run="b"), id="the same start of the machine"),
        pytest.param(later(-90, -900, -5, run="b", boot_id="y"), id="no clock is valid"),
    ],
)
def test_reading_is_kept_if_a_steady_clock_continues_it_or_none_is_valid(now: Reading) -> None:
    assert rebased(THEN, now) == THEN


seconds = st.floats(-1e6, 1e6)


@given(seconds, seconds, seconds, st.sampled_from("ab"), st.sampled_from(["x", "y", ""]))
def test_the_most_is_never_less_than_any_clock_that_counts(
    loop: float, boot: float, wall: float, run: str, boot_id: str
) -> None:
    now = later(loop, boot, wall, run=run, boot_id=boot_id)
    assert max_elapsed(THEN, now) >= 0
    assert max_elapsed(THEN, now) >= now.wall - THEN.wall
    if run == "a":
        assert max_elapsed(THEN, now) >= max(now.loop - THEN.loop, now.boot - THEN.boot)


async def test_the_machine_s_clocks_go_forward_and_each_has_a_run_of_its_own() -> None:
    system = Clock()
    first, second = system.read(), system.read()
    assert first.run == second.run != Clock().read().run
    assert first.loop <= second.loop
    assert first.boot <= second.boot
    assert 0 <= max_elapsed(first, second) < 60


def test_boot_time_goes_on() -> None:
    assert 0 < clock.boot_time() <= clock.boot_time()
    assert clock.wall_time() > 1.7e9


def test_without_a_boot_clock_the_monotonic_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    assert clock.boot_time() == pytest.approx(time.monotonic(), abs=5)
