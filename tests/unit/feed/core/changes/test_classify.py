"""Tests of rule 7, the classification of a page: new, updated, unreadable, schema drift, or no change."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from tests.unit.feed.pages import NOON, OBSERVATION, look, reported, request

from freight_exchange import wire
from freight_exchange.errors import DecodeError
from freight_exchange.feed.core.changes.classify import withdrawal
from freight_exchange.feed.core.changes.diff import digest
from freight_exchange.feed.core.changes.observation import RecentUpdates
from freight_exchange.feed.events import RequestEvent, Unreadable
from freight_exchange.feed.serialization import unpack
from freight_exchange.models import RateRequest
from freight_exchange.store.protocol import TrackedRequest
from freight_exchange.store.snapshots import dump_record


def test_each_state_of_a_request_in_a_page_is_reported_once_in_any_order() -> None:
    old, new, newest = (request(notes=notes) for notes in ("old", "new", "newest"))
    meaning, known = look([old, new])
    assert [(event.kind, event.request) for event in reported(meaning)] == [("new", old), ("updated", new)]
    assert len({event.key for event in meaning.events}) == 2
    for scan, page in enumerate(([new, old], [old, new], [new, old]), 6):
        meaning, known = look(page, known, scan=scan)
        assert not reported(meaning)
    meaning, known = look([old, newest, new], known, scan=9)
    assert [(event.request, event.previous) for event in reported(meaning)] == [(newest, new)]
    meaning, known = look([old, newest], known, scan=10)
    assert not reported(meaning)
    meaning, _ = look([old], known, scan=11)
    assert [event.request for event in reported(meaning)] == [old]


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_new_state_beside_the_old_one_is_reported(newest_first: bool) -> None:
    old, new = request(notes="old"), request(notes="new")
    _, known = look([old])
    meaning, known = look([new, old] if newest_first else [old, new], known, scan=6)
    (event,) = reported(meaning)
    assert (event.kind, event.request, event.previous, event.changed) == ("updated", new, old, ("notes",))
    later, _ = look([new], known, scan=7)
    assert not later.events


def test_two_new_states_beside_the_old_one_are_reported_in_turn() -> None:
    old, new, newest = (request(notes=notes) for notes in ("old", "new", "newest"))
    _, known = look([old])
    meaning, known = look([newest, new, old], known, scan=6)
    assert [(event.previous, event.request) for event in reported(meaning)] == [(old, newest), (newest, new)]
    # If there are fewer states than before, the one reported last stays the present state.
    fewer, known = look([new, old], known, scan=7)
    assert not fewer.events
    other, _ = look([newest, old], known, scan=8)
    assert [(event.previous, event.request) for event in reported(other)] == [(new, newest)]


def test_request_that_was_never_seen_is_new() -> None:
    meaning, known = look([request()])
    (event,) = reported(meaning)
    assert isinstance(event, RequestEvent)
    assert (event.kind, event.request, event.previous) == ("new", request(), None)
    assert meaning.changed == {1}
    again, _ = look([request()], known, scan=6)
    assert not again.events
    assert not again.changed


def test_updated_event_names_the_fields_that_differ() -> None:
    _, known = look([request(notes="a")])
    meaning, _ = look([request(notes="b", extra={"lane": 4})], known)
    (event,) = reported(meaning)
    assert (event.kind, event.previous, event.changed) == ("updated", request(notes="a"), ("notes", "lane"))


def test_rule_7_there_and_back_again_are_two_updates() -> None:
    """A set of all earlier hashes would report only the first one."""
    known: dict[int, TrackedRequest] = {}
    keys = []
    for notes in "aba":
        meaning, known = look([request(notes=notes)], known)
        keys += [event.key for event in meaning.events]
        assert reported(meaning)[0].request.notes == notes
    assert len(set(keys)) == 3


def test_change_of_a_request_of_the_silent_baseline_is_an_update() -> None:
    silent, known = look([request()], is_silent=True, baseline_is_new=True, unseen_is_recent=False)
    assert not silent.events
    assert known[1].version == 0
    meaning, _ = look([request(notes="b")], known)
    assert [event.kind for event in reported(meaning)] == ["updated"]


def test_rule_9_requests_of_a_silent_first_scan_are_new_to_one_that_reports_its_baseline() -> None:
    _, known = look([request()], is_silent=True, baseline_is_new=True)
    meaning, known = look([request()], known, baseline_is_new=True)
    assert [event.kind for event in reported(meaning)] == ["new"]
    again, _ = look([request()], known, baseline_is_new=True)
    assert not again.events


def test_times_and_scan_of_a_request_are_recorded_when_it_is_seen() -> None:
    _, known = look([request()], unseen_is_recent=False)
    assert known[1] == TrackedRequest(
        index=1, digest=digest(request()), record=dump_record(request()), version=1, first_seen=1000.0,
        last_seen=1000.0,
        last_scan=5, updated_after=905.0,
    )  # fmt: skip
    _, known = look([request()], known, sent=1030.0, scan=6, window=1800)
    assert (known[1].first_seen, known[1].last_seen, known[1].last_scan, known[1].updated_after) == (
        1000.0,
        1030.0,
        6,
        905.0,
    )
    _, known = look([request()], known, sent=1060.0, scan=7, window=20)
    assert known[1].updated_after == 1040.0


def test_state_that_differs_is_recent_before_everything_is_listed_too() -> None:
    _, known = look([request(notes="a")], window=5000, unseen_is_recent=False)
    _, known = look([request(notes="b")], known, window=5000, unseen_is_recent=False)
    assert known[1].updated_after == OBSERVATION.covered


def test_withdrawn_request_that_returns_unchanged_need_not_be_updated() -> None:
    _, known = look([request()])
    gone, _ = withdrawal(known[1], (NOON, NOON), 1500.0)
    _, known = look([request()], {1: gone}, sent=3000.0, window=5000, covered=2900.0)
    assert known[1].updated_after == gone.updated_after


def test_withdrawn_request_that_returns_changed_was_updated_since_the_watermark() -> None:
    _, known = look([request()])
    gone, _ = withdrawal(known[1], (NOON, NOON), 1500.0)
    _, known = look([request(notes="changed")], {1: gone}, sent=3000.0, window=5000, covered=2900.0)
    assert known[1].updated_after == 2900.0


def test_request_that_is_listed_again_has_no_missed_scans() -> None:
    _, known = look([request()])
    _, known = look([request()], {1: attrs.evolve(known[1], missed_scans=1)})
    assert known[1].missed_scans == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"index":1,"weight":12.5}', b'{"index":"1","weight":"12.500"}'),
        (b'{"index":1,"requesttype":"Shipping"}', b'{"index":1,"requesttype":"SHIPPING"}'),
        (b'{"index":1,"status":"Frozen"}', b'{"index":1,"status":"FROZEN"}'),
        (b'{"index":1,"x":{"a":1.0,"b":[2]}}', b'{"index":1,"x":{"b":[2.00],"a":1}}'),
        (b'{"index":1,"notes":null}', b'{"index":1}'),
        (b'{"index":1,"hazardous":1}', b'{"index":1,"hazardous":"yes"}'),
    ],
)
def test_the_same_written_otherwise_is_the_same(one: bytes, other: bytes) -> None:
    assert digest(read(one)) == digest(read(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"index":1,"notes":"a"}', b'{"index":1,"notes":"A"}'),
        (b'{"index":1,"notes":"a"}', b'{"index":1,"origin":"a"}'),
        (b'{"index":1,"x":null}', b'{"index":1}'),
        (b'{"index":1,"x":true}', b'{"index":1,"x":1}'),
        (b'{"index":1,"x":[1,2]}', b'{"index":1,"x":[2,1]}'),
        (b'{"index":1,"weight":1.0000000000000000000000000000000000001}', b'{"index":1,"weight":1}'),
        (b'{"index":1,"needdate":"2025-03-01 00:00:00"}', b'{"index":1,"needdate":"2025-03-01 00:00:01"}'),
    ],
)
def test_digests_of_different_requests_differ(one: bytes, other: bytes) -> None:
    assert digest(read(one)) != digest(read(other))


def read(raw: bytes) -> RateRequest:
    return wire.decode_one(wire.parse(b'{"raterequests":[%b]}' % raw), wire.REQUESTS)


def broken(raw: Any) -> DecodeError:
    return DecodeError("text where a number is expected", path="raterequests.0.weight", raw=raw)


def test_rule_7_unreadable_record_is_one_event_for_each_content() -> None:
    meaning, _ = look([], broken=[broken({"index": 4, "weight": "x"}), broken({"weight": "y"})])
    first, second = reported(meaning)
    assert isinstance(first, Unreadable)
    assert (first.index, first.raw, second.index) == (4, {"index": 4, "weight": "x"}, None)
    assert "raterequests.0.weight" in first.error
    keys = [event.key for event in meaning.events]
    same, _ = look([], broken=[broken({"weight": "x", "index": 4})], scan=9, sent=5000.0)
    other, _ = look([], broken=[broken({"weight": "z", "index": 4})])
    assert [event.key for event in same.events] == keys[:1]
    assert other.events[0].key not in keys


def test_unreadable_record_counts_as_listed() -> None:
    """A record that counted as missing would be reported as withdrawn."""
    _, known = look([request()])
    meaning, after = look(
        [], {1: attrs.evolve(known[1], missed_scans=1)}, broken=[broken({"index": 1})], scan=8, sent=2000
    )
    assert (after[1].last_scan, after[1].last_seen, after[1].missed_scans, after[1].digest) == (
        8,
        2000,
        0,
        known[1].digest,
    )
    assert not meaning.changed


def test_a_withdrawn_request_is_reported_as_it_was_last_and_only_once() -> None:
    _, known = look([request()])
    after, event = withdrawal(known[1], (NOON, NOON), 3000.0)
    assert event is not None
    back = unpack(event.kind, event.payload)
    assert isinstance(back, RequestEvent)
    assert (back.kind, back.request, event.key) == ("withdrawn", request(), "1:2")
    assert (after.record, after.digest, after.version) == (known[1].record, b"", 2)
    again, _ = look([request()], {1: after})
    assert [(event.kind, event.key) for event in again.events] == [("updated", "1:3")]
    assert withdrawal(after, (NOON, NOON), 4000.0)[1] is None


def test_rule_8_a_tombstone_distinguishes_the_same_from_the_changed() -> None:
    _, known = look([request()])
    tomb = {1: attrs.evolve(known[1], record=None, last_seen=0.0, last_scan=0, updated_after=0.0)}
    assert not look([request()], tomb)[0].events
    (event,) = reported(look([request(notes="b")], tomb)[0])
    assert (event.kind, event.previous) == ("updated", None)
    assert look([request()], tomb)[1][1].record == dump_record(request())


def test_state_that_a_tombstone_has_reported_is_not_reported_again() -> None:
    old, new = request(notes="old"), request(notes="new")
    _, known = look([old])
    tomb = {1: attrs.evolve(known[1], record=None, last_seen=0.0, last_scan=0, updated_after=0.0)}
    meaning, _ = look([old, new], tomb, scan=9)
    assert [event.request for event in reported(meaning)] == [new]


def test_field_that_comes_or_goes_alone_proves_no_update() -> None:
    """Another release of the service may have answered. Only the window shows when the request was updated."""
    _, known = look([request(notes="old", extra={"carbon": 1})])
    at = known[1].updated_after
    for scan, (notes, proven) in enumerate([("old", at), ("new", 5000.0)], 6):
        _, known = look([request(notes=notes)], known, scan=scan, sent=6000.0, window=5900, covered=5000.0)
        assert known[1].updated_after == proven


def test_narrower_window_that_lists_a_request_as_well_dates_its_update() -> None:
    recent = RecentUpdates(frozenset({1}), 300)
    for extra in ({"carbon": 1}, {}):
        page = [request(1, extra=extra), request(2, extra=extra)]
        _, known = look([request(1, extra={"carbon": 1}), request(2, extra={"carbon": 1})])
        _, known = look(page, known, scan=6, sent=6000.0, window=5900, covered=5000.0, recent_updates=recent)
        assert [known[index].updated_after for index in (1, 2)] == [5700.0, 905.0]
