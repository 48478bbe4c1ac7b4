"""Rule 5, the ladder: narrow, every five minutes half an hour, hourly six hours, daily five days."""

from __future__ import annotations

from collections import Counter

import pytest

from freight_exchange.feed.core.schedule import DEEP, DEEPEST, NARROW, due, reached

SIX_HOURS, HALF_AN_HOUR = DEEP[1], DEEP[2]
ALL_AT_0 = {rung.name: 0.0 for rung in DEEP}


def test_the_rungs_are_those_of_the_rule() -> None:
    assert [(rung.window, rung.every) for rung in DEEP] == [(432_000, 86_400), (21_600, 3600), (1800, 300)]
    assert DEEP[0] is DEEPEST
    assert NARROW.window == 0


@pytest.mark.parametrize(
    ("now", "rung"),
    [
        (0, NARROW),
        (299.9, NARROW),
        (300, HALF_AN_HOUR),
        (3599, HALF_AN_HOUR),
        (3600, SIX_HOURS),
        (86_399, SIX_HOURS),
        (86_400, DEEPEST),
        (10**7, DEEPEST),
    ],
)
def test_the_deepest_whose_turn_has_come_goes_first(now: float, rung: object) -> None:
    assert due(ALL_AT_0, now) is rung


def test_what_was_never_done_is_due() -> None:
    assert due({}, 0.0) is DEEPEST
    assert due({DEEPEST.name: 0.0}, 1.0) is SIX_HOURS


def test_a_scan_has_done_the_shallower_rungs_too() -> None:
    assert reached(432_000) == (DEEPEST.name, SIX_HOURS.name, HALF_AN_HOUR.name)
    assert reached(431_999) == (SIX_HOURS.name, HALF_AN_HOUR.name)
    assert reached(1800) == (HALF_AN_HOUR.name,)
    assert reached(1799) == ()


def test_a_day_has_one_of_five_days_and_few_of_the_others() -> None:
    last, counts = dict(ALL_AT_0), Counter[str]()
    for now in range(30, 86_401, 30):
        rung = due(last, now)
        counts[rung.name] += 1
        last |= dict.fromkeys(reached(rung.window), float(now))
    assert counts == {DEEPEST.name: 1, SIX_HOURS.name: 23, HALF_AN_HOUR.name: 264, NARROW.name: 2880 - 288}
