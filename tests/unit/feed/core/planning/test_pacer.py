"""Tests of rule 11, pace: a steady interval with a tenth of jitter, a random phase, full jitter after failures."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.feed.core.planning.pacer import Pacer

seeds = st.integers(0, 2**32)


@given(seeds)
def test_the_next_scan_is_an_interval_after_the_last_began_give_or_take_a_tenth(seed: int) -> None:
    pacer = Pacer(30.0, Random(seed))
    pacer.record_scan(1000.0)
    assert 1027 <= pacer.due <= 1033


def test_jitter_is_drawn_anew_each_time_and_so_is_the_first_phase() -> None:
    pacer = Pacer(30.0, Random(1))
    dues = set()
    for _ in range(20):
        pacer.due = 0.0
        pacer.record_scan(0.0)
        dues.add(pacer.due)
    assert len(dues) == 20
    phases = []
    for seed in range(200):
        pacer = Pacer(30.0, Random(seed))
        pacer.begin(500.0)
        phases.append(pacer.due - 500)
    assert 0 <= min(phases) < 3
    assert 27 < max(phases) <= 30


def test_a_scan_of_many_pages_does_not_move_the_ticks_that_others_took_meanwhile() -> None:
    pacer = Pacer(30.0, Random(1))
    pacer.take_turn(100.0)
    due = pacer.due
    pacer.record_scan(100.0)
    assert 127 <= pacer.due == due <= 133


def test_missed_ticks_are_skipped() -> None:
    """The next tick counts from the last one, not from a timetable: after a long pause one comes at once."""
    pacer = Pacer(30.0, Random(1))
    pacer.record_scan(0.0)
    pacer.record_scan(1000.0)
    assert pacer.due > 1000


@given(seeds)
def test_request_that_was_repeated_costs_an_interval_though_it_succeeded(seed: int) -> None:
    pacer = Pacer(30.0, Random(seed))
    assert pacer.repeat_delay() is not None
    pacer.record_scan(1000.0)
    assert 1067.5 <= pacer.due <= 1082.5
    pacer.record_scan(pacer.due)
    assert pacer.due <= 1082.5 + 33


@given(seeds)
def test_turn_pays_for_the_repeated_requests_of_a_deep_scan_and_of_the_narrow_one_after_it(seed: int) -> None:
    pacer = Pacer(30.0, Random(seed))
    pacer.take_turn(1000.0)
    for _ in range(2):
        assert pacer.repeat_delay() is not None
        pacer.record_reply()
    pacer.record_scan(1030.0 + 3.0)
    assert 1033 + 5 * 27 <= pacer.due <= 1033 + 5 * 33


@given(seeds)
def test_deep_scan_pays_for_its_repeated_requests_when_it_ends(seed: int) -> None:
    pacer = Pacer(30.0, Random(seed))
    pacer.take_turn(1000.0)
    assert pacer.repeat_delay() is not None
    pacer.record_scan(1000.0)
    assert 1000 + 2.5 * 27 <= pacer.due <= 1000 + 2.5 * 33
    pacer.record_scan(pacer.due)
    assert pacer.due <= 1000 + 3.5 * 33


@given(seeds)
def test_calls_that_sent_more_than_one_request_cost_more_turns(seed: int) -> None:
    extra = [2, 0, 1, 0, 0]
    pacer = Pacer(30.0, Random(seed), lambda: extra.pop(0))
    pacer.record_scan(1000.0)
    assert pacer.due >= 1000 + 5 * 27
    pacer.record_scan(2000.0)
    assert pacer.due <= 2033
    due = pacer.record_failure(3000.0)
    pacer.record_scan(due)
    assert pacer.due <= due + 33


@given(seeds)
def test_call_that_has_sent_several_requests_is_not_repeated_at_once(seed: int) -> None:
    pacer = Pacer(30.0, Random(seed))
    assert pacer.repeat_delay(sent=3) is None
    assert 1090 <= pacer.record_failure(1000.0) <= 1135


@given(seeds)
def test_pause_after_failures_pays_for_the_repeated_request(seed: int) -> None:
    pacer = Pacer(30.0, Random(seed))
    assert pacer.repeat_delay() is not None
    assert pacer.repeat_delay() is None
    due = pacer.record_failure(1000.0)
    assert due >= 1060
    pacer.record_scan(due)
    assert due + 27 <= pacer.due <= due + 33


@given(seeds, st.sampled_from([10.0, 60.0, 300.0, 600.0]), st.integers(1, 6))
def test_no_hour_of_failures_holds_more_requests_than_an_hour_of_scans(seed: int, interval: float, sent: int) -> None:
    """A refused page is requested again in smaller sizes, and such a burst may come at both ends of an hour."""
    pacer, now, times = Pacer(interval, Random(seed)), 0.0, list[float]()
    for _ in range(200):
        times += [now] * sent
        pacer.repeat_delay(sent=sent)
        now = pacer.record_failure(now)
    loudest = max(sum(start <= time < start + 3600 for time in times[place:]) for place, start in enumerate(times))
    assert loudest <= 3600 / interval


@given(seeds, st.integers(0, 10_000))
def test_backoff_has_full_jitter_under_a_bound_that_doubles(seed: int, failures: int) -> None:
    pause = Pacer(30.0, Random(seed)).backoff(failures)
    assert 0 <= pause <= min(20.0, 2.0 ** min(failures, 10))


@given(seeds, st.sampled_from([1.0, 10.0, 600.0]), st.integers(1, 3))
def test_every_failed_request_costs_at_least_an_interval(seed: int, interval: float, sent: int) -> None:
    pacer, now, requests = Pacer(interval, Random(seed)), 1000.0, 0
    for _ in range(20):
        pause: float | None = 0.0
        while pause is not None:
            now += pause
            requests += sent
            pause = pacer.repeat_delay(sent=sent)
        now = pacer.record_failure(now)
        assert pacer.due == pacer.quiet_until == now
        assert now - 1000 >= requests * interval


def test_only_the_first_failure_in_a_row_is_repeated_at_once() -> None:
    pacer = Pacer(30.0, Random(1))
    assert pacer.repeat_delay() is not None
    assert pacer.repeat_delay() is None
    pacer.record_failure(0.0)
    assert pacer.repeat_delay() is None
    pacer.record_reply()
    assert pacer.repeat_delay() is not None


def test_with_a_long_interval_nothing_is_repeated_at_once() -> None:
    assert Pacer(3600.0, Random(1)).repeat_delay() is None


@pytest.mark.parametrize(("retry_after", "least"), [(7.0, 30.0), (200.0, 200.0), (1e12, 3600.0), (0.0, 30.0)])
def test_retry_after_is_a_floor_up_to_an_hour(retry_after: float, least: float) -> None:
    for seed in range(50):
        pacer = Pacer(30.0, Random(seed))
        pacer.repeat_delay(retry_after=retry_after)
        assert least <= pacer.record_failure(0.0, retry_after) <= max(least, 60.0)


@pytest.mark.parametrize("retry_after", [3.0, 300.0])
def test_page_is_repeated_no_sooner_than_the_service_asks(retry_after: float) -> None:
    pause = Pacer(30.0, Random(1)).repeat_delay(retry_after=retry_after)
    assert pause == (retry_after if retry_after < 20 else None)


def test_rescan_after_too_narrow_a_window_is_due_soon_and_is_not_a_failure() -> None:
    pacer = Pacer(30.0, Random(1))
    pacer.record_failure(0.0)
    pacer.rescan_soon(100.0)
    assert (pacer.due, pacer.failures) == (101.0, 0)
    hasty = Pacer(0.2, Random(1))
    hasty.rescan_soon(100.0)
    assert hasty.due == 100.2
