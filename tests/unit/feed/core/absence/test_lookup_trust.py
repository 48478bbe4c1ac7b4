"""Tests of control look-ups, which show whether look-ups can be trusted."""

from __future__ import annotations

from freight_exchange.feed.core.absence.lookup_trust import LookupTrust


def test_control_that_finds_a_request_resets_the_failures_before_it() -> None:
    trust = LookupTrust(tries=2)
    trust.begin([4, 5])
    assert not trust.record_control(0.0, is_found=False)
    assert trust.control == 5
    assert not trust.record_control(1.0, is_found=True)
    assert (trust.is_given, trust.control) == (True, 4)
    assert not trust.record_control(2.0, is_found=False)
    assert trust.resting_until < 2.0
    assert trust.record_control(3.0, is_found=False)
    assert trust.resting_until == 603.0
