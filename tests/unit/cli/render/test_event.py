"""Tests of events as lines and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from freight_exchange import Gap, RateRequest, RequestEvent, SchemaChanged, Unreadable
from freight_exchange.cli.render.event import event_to_json, format_event
from freight_exchange.feed.events import Event

NOON = datetime(2027, 1, 5, 12, tzinfo=UTC)
REQUEST = RateRequest(index=4, ref_id="FX4", commodity="Ti\x1bles", origin="Hong Kong", destination="Long Beach")
NEW = RequestEvent(kind="new", request=REQUEST, observed_between=(None, NOON))
UPDATED = attrs.evolve(
    NEW, kind="updated", previous=REQUEST, changed=("quantity", "weight"), observed_between=(NOON, NOON)
)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (NEW, "new        4  FX4  Ti\\x1bles  Hong Kong to Long Beach"),
        (UPDATED, "changed: quantity, weight"),
        (Gap(since=NOON, until=NOON + timedelta(days=7)), "no watch from 2027-01-05 12:00 UTC to 2027-01-12 12:00 UTC"),
        (
            SchemaChanged(added=("urgency",), removed=("notes",), requests=(1, 2), observed=NOON),
            "the service changed the fields of its requests: +urgency, -notes",
        ),
        (
            Unreadable(index=7, raw={"weight": "he\x9bavy"}, error="not a number at weight", observed=NOON),
            "request 7 cannot be read: not a number at weight",
        ),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_each_kind_of_event_has_line_and_json(event: Event, text: str) -> None:
    assert text in format_event(event)
    assert format_event(event).isprintable()
    converted = event_to_json(event)
    assert converted["kind"] == event.kind
    assert all(not isinstance(value, datetime) for value in converted.values())


def test_previous_request_has_same_fields_as_request() -> None:
    converted = event_to_json(UPDATED)
    assert converted["request"] == converted["previous"]
    assert {"volume", "gross_weight", "chargeable", "doubts"} <= converted["previous"].keys()
