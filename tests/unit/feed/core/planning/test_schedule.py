"""Tests of rule 5, the schedule of deeper scans: half an hour every 5 minutes, 6 hours hourly, 5 days daily."""

from __future__ import annotations

from collections import Counter

import pytest

from freight_exchange.feed.core.planning.schedule import DEEP, DEEPEST, NARROW, completed_tiers, due_tier

SIX_HOURS, HALF_AN_HOUR = DEEP[1], DEEP[2]
ALL_AT_0 = {tier.name: 0.0 for tier in DEEP}


def test_tiers_are_those_of_the_rule() -> None:
    assert [(tier.window, tier.every) for tier in DEEP] == [(432_000, 86_400), (21_600, 3600), (1800, 300)]
    assert DEEP[0] is DEEPEST
    assert NARROW.window == 0


@pytest.mark.parametrize(
    ("now", "tier"),
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
def test_the_deepest_whose_turn_has_come_goes_first(now: float, tier: object) -> None:
    assert due_tier(ALL_AT_0, now) is tier


def test_tier_that_was_never_scanned_is_due() -> None:
    assert due_tier({}, 0.0) is DEEPEST
    assert due_tier({DEEPEST.name: 0.0}, 1.0) is SIX_HOURS


def test_scan_completes_the_shallower_tiers_too() -> None:
    assert completed_tiers(432_000) == (DEEPEST.name, SIX_HOURS.name, HALF_AN_HOUR.name)
    assert completed_tiers(431_999) == (SIX_HOURS.name, HALF_AN_HOUR.name)
    assert completed_tiers(1800) == (HALF_AN_HOUR.name,)
    assert completed_tiers(1799) == ()


def test_a_day_has_one_of_five_days_and_few_of_the_others() -> None:
    last, counts = dict(ALL_AT_0), Counter[str]()
    for now in range(30, 86_401, 30):
        tier = due_tier(last, now)
        counts[tier.name] += 1
        last |= dict.fromkeys(completed_tiers(tier.window), float(now))
    assert counts == {DEEPEST.name: 1, SIX_HOURS.name: 23, HALF_AN_HOUR.name: 264, NARROW.name: 2880 - 288}
