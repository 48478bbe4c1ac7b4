"""Tests of updates that are inferred from scans which lacked a request."""

from __future__ import annotations

import math
from typing import Any

import attrs

from freight_exchange.feed.core.absence.inferred_updates import InferredUpdates
from freight_exchange.feed.core.changes.observation import NARROW_MARGIN
from freight_exchange.store.protocol import TrackedRequest

ROW = TrackedRequest(
    index=1, digest=b"12345678", record=b"{}", version=1, first_seen=0.0, last_seen=0.0, last_scan=1, updated_after=0.0
)


def row(updated_after: float, **changes: Any) -> TrackedRequest:
    return attrs.evolve(ROW, updated_after=updated_after, **changes)


def record(updates: InferredUpdates, now: TrackedRequest, before: TrackedRequest | None, begin: float) -> None:
    updates.record(now, before, (begin, begin + NARROW_MARGIN))


def misses(updates: InferredUpdates, of: TrackedRequest, begin: float) -> int:
    return updates.count_misses([of], begin, math.inf)[0].missed_scans


def test_first_miss_counts_by_inference_and_the_second_by_a_window_that_listed_the_request() -> None:
    updates = InferredUpdates()
    record(updates, row(900.0), None, -800.0)
    assert updates.earliest([row(900.0)]) == -800.0
    once = row(900.0, missed_scans=1)
    assert misses(updates, row(900.0), 900.0) == 1
    assert misses(updates, once, 900.0) == 1
    assert misses(updates, once, -799.0) == 1
    assert misses(updates, once, -800.0) == 2


def test_later_windows_prove_more_until_nothing_is_inferred() -> None:
    updates = InferredUpdates()
    record(updates, row(900.0), None, -800.0)
    record(updates, row(900.0), row(900.0), -500.0)
    record(updates, row(900.0), row(900.0), -600.0)
    assert updates.earliest([row(900.0)]) == -500.0
    record(updates, row(900.0), row(900.0), 900.0)
    assert updates.earliest([row(900.0)]) == math.inf
    assert misses(updates, row(900.0, missed_scans=1), 900.0) == 2


def test_update_of_a_known_request_is_no_older_than_the_one_before() -> None:
    updates = InferredUpdates()
    record(updates, row(900.0), row(100.0), -800.0)
    assert updates.earliest([row(900.0)]) == 100.0


def test_update_that_a_window_proves_is_not_remembered() -> None:
    updates = InferredUpdates()
    record(updates, row(900.0), row(900.0), -800.0)
    record(updates, row(-800.0), None, -800.0)
    assert updates.earliest([row(900.0), row(-800.0)]) == math.inf


def test_update_is_inferred_though_the_window_that_proves_it_begins_within_a_lag_of_the_clock() -> None:
    updates = InferredUpdates()
    updates.record(row(900.0), None, (850.0, 851.0))
    assert updates.earliest([row(900.0)]) == 850.0
    updates.record(row(900.0), row(900.0), (849.0, 850.0))
    assert updates.earliest([row(900.0)]) == 850.0
    updates.record(row(900.0), row(900.0), (851.0, 900.0))
    assert updates.earliest([row(900.0)]) == math.inf


def test_request_that_is_listed_after_a_miss_was_updated_when_windows_prove_it() -> None:
    updates = InferredUpdates()
    record(updates, row(900.0), None, -800.0)
    assert updates.corrected([row(900.0)], {1: row(900.0)}, -900.0) == [row(900.0)]
    missed = {1: row(900.0, missed_scans=1)}
    assert updates.corrected([row(900.0)], missed, -900.0) == [row(-800.0)]
    assert updates.corrected([row(900.0, index=2)], {2: row(900.0, missed_scans=1)}, -900.0) == [row(900.0, index=2)]


def test_date_of_a_withdrawn_request_that_returns_is_inferred() -> None:
    updates = InferredUpdates()
    record(updates, row(900.0), row(900.0, digest=b""), -800.0)
    assert updates.earliest([row(900.0)]) == -800.0


def test_withdrawn_and_old_requests_are_forgotten() -> None:
    updates = InferredUpdates()
    record(updates, row(900.0), None, -800.0)
    record(updates, row(900.0, index=2), None, -800.0)
    updates.forget(1)
    assert updates.earliest([row(900.0)]) == math.inf
    updates.prune(-800.0)
    assert updates.earliest([row(900.0, index=2)]) == -800.0
    updates.prune(-799.0)
    assert updates.earliest([row(900.0, index=2)]) == math.inf


def test_date_of_an_earlier_run_may_be_inferred_until_a_window_of_this_one_lists_the_request() -> None:
    updates = InferredUpdates(last_scan=1)
    record(updates, row(900.0, last_scan=2), row(900.0), -800.0)
    assert updates.earliest([row(900.0)]) == -800.0
    record(updates, row(900.0, last_scan=3), row(900.0, last_scan=2), -500.0)
    assert updates.earliest([row(900.0)]) == -500.0
    this_run = InferredUpdates()
    record(this_run, row(900.0, last_scan=2), row(900.0), -800.0)
    assert this_run.earliest([row(900.0)]) == math.inf
