"""Tests of looking up requests that scans lack: their choice, order, and number."""

from __future__ import annotations

from freight_exchange.feed.core.absence.lookups import Lookups
from freight_exchange.store.protocol import TrackedRequest

NOW = {"began": 0.0, "before": -300.0, "long_ago": 0.0}


def missed(index: int, *, missing: int = 2) -> TrackedRequest:
    return TrackedRequest(
        index=index,
        digest=b"d",
        record=None,
        version=1,
        first_seen=0.0,
        last_seen=0.0,
        last_scan=1,
        updated_after=0.0,
        missed_scans=missing,
    )


def test_request_that_one_scan_has_lacked_is_not_looked_up() -> None:
    lookups = Lookups(240.0)
    lookups.update([missed(1, missing=1)], **NOW)
    assert not lookups


def update(lookups: Lookups, began: float, row: TrackedRequest, *, before: float = 0.0) -> tuple[bool, bool]:
    """Return whether a request is looked up after a scan that lacks it, and whether another scan must lack it."""
    must = lookups.update([row], began=began, before=before, long_ago=0.0)
    return bool(lookups), must


def test_two_scans_that_lack_a_request_within_seconds_are_too_few() -> None:
    lookups = Lookups(240.0)
    assert update(lookups, 1000.0, missed(1, missing=1)) == (False, True)
    assert update(lookups, 1010.0, missed(1)) == (False, True)
    assert update(lookups, 1240.0, missed(1)) == (True, False)
    lookups.close_listed(frozenset({1}))
    assert update(lookups, 1300.0, missed(1, missing=1)) == (False, True)
    lookups.close_listed(frozenset({1}))
    assert update(lookups, 1600.0, missed(1, missing=1)) == (False, True)


def test_last_scan_of_the_run_before_counts() -> None:
    assert update(Lookups(240.0), 1010.0, missed(1), before=1000.0) == (False, True)
    assert update(Lookups(240.0), 1310.0, missed(1), before=1000.0) == (True, False)


def test_failed_look_up_moves_to_the_end_and_is_dropped_after_five_failures() -> None:
    lookups = Lookups(240.0)
    lookups.update([missed(1), missed(2)], **NOW)
    lookups.record_failure(lookups.next_row().index, is_refusal=True)
    assert lookups.next_row().index == 2
    for _ in range(4):
        lookups.update([], **NOW)
        lookups.record_failure(2 if lookups.next_row().index == 2 else 1, is_refusal=True)
    turns = 0
    while turns < 20:
        lookups.update([], **NOW)
        if not lookups:
            break
        lookups.record_failure(lookups.next_row().index, is_refusal=True)
        turns += 1
    assert turns == 5
    lookups.update([missed(1)], **NOW)
    assert lookups.next_row().index == 1


def test_failures_in_an_outage_are_not_refusals() -> None:
    lookups = Lookups(240.0)
    for is_refusal in (False, True, True, True, True):
        lookups.update([missed(1)], **NOW)
        assert not lookups.record_failure(1, is_refusal=is_refusal)
    lookups.update([], **NOW)
    assert not lookups
    lookups.update([missed(1)], **NOW)
    assert lookups.record_failure(1, is_refusal=True)


def test_ten_are_looked_up_after_a_scan_and_the_others_after_the_next() -> None:
    lookups = Lookups(240.0)
    lookups.update([missed(index) for index in range(1, 26)], **NOW)
    counts = []
    while lookups:
        count = 0
        while lookups:
            lookups.close(lookups.next_row().index)
            count += 1
        counts.append(count)
        lookups.update([], **NOW)
    assert counts == [10, 10, 5]


def test_request_that_is_listed_again_is_not_looked_up() -> None:
    lookups = Lookups(240.0)
    lookups.update([missed(1), missed(2)], **NOW)
    lookups.close_listed(frozenset({1}))
    lookups.update([], **NOW)
    assert lookups.next_row().index == 2


def test_request_seen_a_moment_ago_is_looked_up_only_after_the_allowance() -> None:
    lookups = Lookups(240.0)
    lookups.update([missed(1)], **(NOW | {"long_ago": -1.0}))
    assert not lookups
    lookups.update([], **NOW)
    assert lookups.next_row().index == 1
