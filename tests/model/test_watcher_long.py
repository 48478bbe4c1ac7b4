"""Short forms of `tools/long_runs.py`: the cost of an idle watcher, and of one with many requests."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path

import pytest
from tools.lib.watcher_costs import Month, idle, month, start


def test_an_idle_poll_is_exactly_one_request() -> None:
    done = idle(4, math.inf, "trio")
    assert done.calls == done.scans.total()
    # A deep scan takes the place of a narrow one: there is one of the scans every thirty seconds, give or take.
    assert done.scans.total() == pytest.approx(4 * 120, rel=0.02)
    assert done.scans["half an hour"] == pytest.approx(4 * 12, abs=8)
    assert done.scans["six hours"] in (3, 4)


def test_deep_scans_cost_a_tenth_at_the_most() -> None:
    done = idle(3, 60.0, "asyncio")
    assert 0 <= done.extra <= 0.1
    assert done.scans.total() == pytest.approx(3 * 120, rel=0.02)


def test_many_open_requests_come_whole_at_a_first_start_after_four_days_and_after_six(tmp_path: Path) -> None:
    first, after_four, after_six = (
        start(tmp_path / "many.db", day, 1000, 0.05, "asyncio") for day in (6.0, 10.0, 16.0)
    )
    # One is published every seven minutes, and one may come while the first scan goes on.
    assert first.events["new"] in (1000, 1001)
    assert after_four.last - first.first + 1 in (1800, 1801)
    assert after_six.events["new"] in (1000, 1001)
    assert [done.events["gap"] for done in (first, after_four, after_six)] == [0, 0, 1]
    assert all(done.whole for done in (first, after_four, after_six))
    assert after_four.first == first.last + 1
    # The gap covers the time between them, which was not watched.
    assert after_six.first > after_four.last + 1


def test_old_request_becomes_a_tombstone_and_its_event_is_deleted(tmp_path: Path) -> None:
    done = month(14, 7200.0, tmp_path / "month.db", timedelta(hours=1), "trio")
    assert done.events == 14 * 12 - 1
    assert done.tombstones >= 2 * 12
    assert done.live + done.tombstones == done.events
    assert done.kept_events < done.events


def test_a_slope_is_that_of_the_line_and_its_error_that_of_the_noise() -> None:
    done = Month(resident=(), file=(), events=0, live=0, tombstones=0, kept_events=0, seconds=0.0)
    slope, error = done.slope([9, 5, 7, 9, 11], 2)
    assert slope == pytest.approx(2.0)
    assert error == pytest.approx(0.0)
    slope, error = done.slope([0, 4, 0, 4, 0, 4], 1)
    assert abs(slope) < 3 * error
