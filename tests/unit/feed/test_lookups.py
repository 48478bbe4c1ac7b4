"""Look-ups of requests that scans lack: their choice, their order, and their number."""

from __future__ import annotations

from freight_exchange.feed.core.absence.lookups import Lookups
from freight_exchange.store.protocol import TrackedRequest


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
    lookups = Lookups()
    lookups.update([missed(1, missing=1)], long_ago=0.0)
    assert not lookups


def test_one_that_fails_goes_behind_the_others_and_is_left_after_five_times() -> None:
    lookups = Lookups()
    lookups.update([missed(1), missed(2)], long_ago=0.0)
    lookups.record_failure(lookups.next_row().index)
    assert lookups.next_row().index == 2
    for _ in range(4):
        lookups.update([], long_ago=0.0)
        lookups.record_failure(2 if lookups.next_row().index == 2 else 1)
    turns = 0
    while turns < 20:
        lookups.update([], long_ago=0.0)
        if not lookups:
            break
        lookups.record_failure(lookups.next_row().index)
        turns += 1
    assert turns == 5
    lookups.update([missed(1)], long_ago=0.0)
    assert lookups.next_row().index == 1


def test_ten_are_looked_up_after_a_scan_and_the_others_after_the_next() -> None:
    lookups = Lookups()
    lookups.update([missed(index) for index in range(1, 26)], long_ago=0.0)
    counts = []
    while lookups:
        count = 0
        while lookups:
            lookups.close(lookups.next_row().index)
            count += 1
        counts.append(count)
        lookups.update([], long_ago=0.0)
    assert counts == [10, 10, 5]


def test_request_that_is_listed_again_is_not_looked_up() -> None:
    lookups = Lookups()
    lookups.update([missed(1), missed(2)], long_ago=0.0)
    lookups.close_listed(frozenset({1}))
    lookups.update([], long_ago=0.0)
    assert lookups.next_row().index == 2


def test_request_seen_a_moment_ago_is_looked_up_only_after_the_allowance() -> None:
    lookups = Lookups()
    lookups.update([missed(1)], long_ago=-1.0)
    assert not lookups
    lookups.update([], long_ago=0.0)
    assert lookups.next_row().index == 1
