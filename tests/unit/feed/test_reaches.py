"""Tests of the reaches of scans that lack and that list requests."""

from __future__ import annotations

from freight_exchange.feed.core.absence.reaches import Reaches
from freight_exchange.store.protocol import TrackedRequest

ROW = TrackedRequest(
    index=1, digest=b"12345678", record=b"{}", version=1, first_seen=0.0, last_seen=0.0, last_scan=1, updated_after=0.0
)


def is_older(reaches: Reaches, begin: float) -> bool:
    return not reaches.without_older([ROW], begin)


def test_request_that_only_deeper_scans_list_is_older() -> None:
    reaches = Reaches()
    assert not is_older(reaches, 100.0)
    reaches.record_absent([ROW], 100.0)
    assert not is_older(reaches, 100.0)
    reaches.record_listed(1, -50.0)
    reaches.record_listed(1, -900.0)
    assert is_older(reaches, 100.0)
    assert not is_older(reaches, -50.0)


def test_request_that_a_scan_as_shallow_lists_is_not_older() -> None:
    reaches = Reaches()
    reaches.record_absent([ROW], 100.0)
    reaches.record_listed(1, -50.0)
    reaches.record_listed(1, 100.0)
    assert not is_older(reaches, 100.0)


def test_request_that_a_deeper_scan_lacks_than_lists_it_is_not_older() -> None:
    reaches = Reaches()
    reaches.record_absent([ROW], 100.0)
    reaches.record_listed(1, -50.0)
    reaches.record_absent([ROW], -50.0)
    assert not is_older(reaches, 100.0)
    reaches.record_listed(1, -60.0)
    assert is_older(reaches, 100.0)


def test_deepest_scan_that_lacks_a_request_counts() -> None:
    reaches = Reaches()
    reaches.record_absent([ROW], 50.0)
    reaches.record_absent([ROW], 100.0)
    reaches.record_listed(1, 60.0)
    assert not is_older(reaches, 100.0)


def test_old_reaches_are_forgotten() -> None:
    reaches = Reaches()
    reaches.record_absent([ROW], 100.0)
    reaches.record_listed(1, -50.0)
    reaches.prune(100.0)
    assert is_older(reaches, 100.0)
    reaches.prune(101.0)
    assert not is_older(reaches, 100.0)
