"""Tests of rule 7: fields that come or go everywhere are one change of the service, and hide no update."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.feed.pages import NOT_ONE, look, reported, request

from freight_exchange.feed.core.changes.observation import RecentUpdates
from freight_exchange.feed.events import SchemaChanged
from freight_exchange.models import RateRequest


def shape(count: int, **fields: Any) -> list[RateRequest]:
    return [request(index, **fields) for index in range(count)]


@pytest.mark.parametrize(("before", "after"), [({}, {"incoterm": "FOB"}), ({"incoterm": "FOB"}, {})])
def test_rule_7_a_field_that_comes_or_goes_everywhere_is_one_event(before: Any, after: Any) -> None:
    _, known = look(shape(10, **before))
    meaning, known = look(shape(10, **after), known, sent=2000.0, window=1800, recent_updates=NOT_ONE)
    (event,) = reported(meaning)
    assert isinstance(event, SchemaChanged)
    assert event.added + event.removed == ("incoterm",)
    assert event.requests == tuple(range(10))
    assert (meaning.schema.fields, meaning.schema.at) == (frozenset({"incoterm"}), 2000.0)
    assert not look(shape(10, **after), known)[0].events


def test_field_of_few_or_of_two_requests_is_not_a_schema_change() -> None:
    _, known = look(shape(10))
    meaning, _ = look([*shape(5, incoterm="FOB"), *shape(10)[5:]], known)
    assert [event.kind for event in reported(meaning)] == ["updated"] * 5
    meaning, _ = look(shape(2, incoterm="FOB"), known)
    assert [event.kind for event in reported(meaning)] == ["updated"] * 2


def test_a_schema_change_hides_no_update() -> None:
    _, known = look(shape(10))
    now = [*shape(9, incoterm="FOB"), request(9, incoterm="FOB", notes="moved")]
    meaning, _ = look(now, known, sent=2000.0, window=1800, recent_updates=NOT_ONE)
    assert [(event.kind, getattr(event, "changed", None)) for event in reported(meaning)][1:] == [
        ("updated", ("notes", "incoterm"))
    ]


@pytest.mark.parametrize("real_first", [True, False])
def test_a_schema_change_hides_no_update_that_stands_beside_it(real_first: bool) -> None:
    """The service shows one request in two states, and only one of them differs by more than the schema."""
    _, known = look(shape(10))
    real, same = request(9, incoterm="FOB", notes="moved"), request(9, incoterm="FOB")
    now = [*shape(9, incoterm="FOB"), *((real, same) if real_first else (same, real))]
    meaning, known = look(now, known, sent=2000.0, window=1800, recent_updates=NOT_ONE)
    assert [(event.kind, getattr(event, "request", None)) for event in reported(meaning)] == [
        ("schema_changed", None),
        ("updated", real),
    ]
    assert (meaning.changed, meaning.excused) == (frozenset({9}), frozenset(range(10)))
    for page in (now, [real]):
        meaning, known = look(page, known, sent=2100.0, schema=meaning.schema)
        assert not meaning.events


def test_request_seen_before_a_schema_change_is_excused_once() -> None:
    _, known = look(shape(12))
    meaning, known = look(shape(10, incoterm="FOB"), known, sent=2000.0, window=1800, recent_updates=NOT_ONE)
    late, known = look(
        [request(11, incoterm="FOB")], known, sent=2500.0, window=1800, schema=meaning.schema, recent_updates=NOT_ONE
    )
    assert not late.events
    back, _ = look([request(11)], known, sent=2600.0, schema=meaning.schema)
    assert [event.kind for event in reported(back)] == ["updated"]


ADDED_ALIKE = [{"incoterm": "FOB"}, {"extra": {"priority": "A"}}]


@pytest.mark.parametrize("added", ADDED_ALIKE)
def test_updates_that_the_window_proves_are_not_a_schema_change(added: Any) -> None:
    """A shipper adds the same field to several requests, which are alone in the window and were last seen before it."""
    _, known = look(shape(8))
    meaning, known = look(shape(8, **added), known, sent=2000.0)
    assert [event.kind for event in reported(meaning)] == ["updated"] * 8
    assert not meaning.schema.fields


@pytest.mark.parametrize("added", ADDED_ALIKE)
def test_an_update_is_not_excused_by_a_schema_change_where_the_window_proves_it(added: Any) -> None:
    _, known = look(shape(12))
    meaning, known = look(shape(10, **added), known, sent=2000.0, window=1800, recent_updates=NOT_ONE)
    late, _ = look([request(11, **added)], known, sent=2500.0, schema=meaning.schema)
    assert [event.kind for event in reported(late)] == ["updated"]


@pytest.mark.parametrize(("before", "after"), [({}, {"notes": "upright"}), ({"notes": "upright"}, {})])
def test_field_of_shippers_that_some_requests_gain_or_lose_is_an_update(before: Any, after: Any) -> None:
    """A shipper changes three requests alike within one poll, and they are alone in the window."""
    first, known = look(shape(3, **before))
    meaning, _ = look(shape(3, **after), known, sent=1045.0, schema=first.schema)
    assert [(event.kind, event.changed) for event in reported(meaning)] == [("updated", ("notes",))] * 3


@pytest.mark.parametrize(("count", "kinds"), [(5, ["updated"] * 5), (6, ["schema_changed"])])
def test_documented_field_of_a_few_requests_that_narrow_scans_lack_may_be_their_shippers_doing(
    count: int, kinds: list[str]
) -> None:
    """Narrow scans prove little on a service that lists nothing for short windows, or is stuck."""
    first, known = look(shape(count))
    meaning, _ = look(
        shape(count, incoterm="FOB"),
        known,
        sent=1045.0,
        window=1800,
        schema=first.schema,
        recent_updates=RecentUpdates(frozenset(), 95),
    )
    assert [event.kind for event in reported(meaning)] == kinds


def test_a_field_that_one_had_before_is_not_new_to_the_service() -> None:
    first, known = look([*shape(3), request(50, extra={"priority": "B"})])
    meaning, _ = look(shape(3, extra={"priority": "A"}), known, sent=1045.0, schema=first.schema)
    assert [(event.kind, event.changed) for event in reported(meaning)] == [("updated", ("priority",))] * 3


def test_field_that_no_request_ever_had_was_added_by_the_service() -> None:
    first, known = look(shape(3))
    meaning, known = look(shape(3, extra={"priority": "A"}), known, sent=1045.0, schema=first.schema)
    assert [(event.kind, getattr(event, "added", None)) for event in reported(meaning)] == [
        ("schema_changed", ("priority",))
    ]
    gone_again, known = look(shape(3), known, sent=1075.0, schema=meaning.schema)
    assert [(event.kind, getattr(event, "removed", None)) for event in reported(gone_again)] == [
        ("schema_changed", ("priority",))
    ]
    back, _ = look(shape(3, extra={"priority": "A"}), known, sent=1105.0, schema=gone_again.schema)
    assert [event.kind for event in reported(back)] == ["schema_changed"]


def test_field_that_a_request_on_the_page_still_has_was_not_removed_by_the_service() -> None:
    first, known = look(shape(4, extra={"priority": "A"}))
    now = [*shape(3), request(9, extra={"priority": "A"})]
    meaning, _ = look(now, known, sent=1045.0, schema=first.schema)
    assert sorted(event.kind for event in reported(meaning)) == ["new", "updated", "updated", "updated"]


@pytest.mark.parametrize(
    ("recent", "kinds"),
    [
        pytest.param(RecentUpdates(frozenset(), 95), {"schema_changed"}, id="not one was updated"),
        pytest.param(RecentUpdates(frozenset(range(10)), 95), {"updated"}, id="all may have been"),
        pytest.param(RecentUpdates(frozenset(), 95, is_complete=False), {"updated"}, id="unknown"),
    ],
)
def test_narrow_scan_shows_a_deep_one_which_requests_may_have_been_updated(
    recent: RecentUpdates, kinds: set[str]
) -> None:
    first, known = look(shape(10))
    meaning, _ = look(
        shape(10, incoterm="FOB"),
        known,
        sent=1045.0,
        window=1800,
        schema=first.schema,
        recent_updates=recent,
    )
    assert {event.kind for event in reported(meaning)} == kinds
