"""Tests of events as bytes: a restarted feed yields the events that were found before."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange import wire
from freight_exchange.errors import StoreError
from freight_exchange.feed.events import BidSelected, Event, Gap, RequestEvent, SchemaChanged, Unreadable
from freight_exchange.feed.serialization import load_request, pack, pack_selected, unpack, unpack_selected
from freight_exchange.models import Bid, Contact, RateRequest

NOW = datetime(2026, 3, 1, 12, 30, 45, 123457, tzinfo=UTC)
REQUEST = wire.decode_one(
    wire.parse(b'{"raterequests":[{"index":7,"weight":12.50,"status":"Frozen","needdate":"soon","tags":[{"a":1.0}]}]}'),
    wire.REQUESTS,
)
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@pytest.mark.parametrize(
    "event",
    [
        RequestEvent(kind="new", request=REQUEST, observed_between=(None, NOW)),
        RequestEvent(
            kind="updated",
            request=REQUEST,
            previous=RateRequest(index=7, notes="Ünïcode \N{DELIVERY TRUCK}\n"),
            changed=("notes", "tags"),
            observed_between=(NOW, NOW),
        ),
        RequestEvent(kind="withdrawn", request=REQUEST, previous=REQUEST, observed_between=(NOW, NOW)),
        Gap(since=NOW, until=NOW),
        SchemaChanged(added=("a",), removed=(), requests=(1, 2), observed=NOW),
        Unreadable(index=None, raw=None, error="missing", observed=NOW),
        Unreadable(index=3, raw={"weight": "abc", "l": [1, None, True]}, error="what: where", observed=NOW),
    ],
    ids=lambda event: event.kind,
)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    back = unpack(event.kind, pack(event))
    assert back == event
    assert type(back) is type(event)


def test_a_selected_bid_comes_back_with_its_contact() -> None:
    bid = Bid(index=7, amount=Decimal("1.50"), contact=Contact(name="Ann", email="ann@ship.example"))
    event = BidSelected(bid=bid, observed=NOW)
    assert unpack_selected(pack_selected(event)) == event


@given(moments, moments)
def test_moments_are_kept_to_the_microsecond(since: datetime, until: datetime) -> None:
    gap = Gap(since=since, until=until)
    assert unpack("gap", pack(gap)) == gap


def test_the_fractions_of_a_raw_record_are_kept_digit_by_digit() -> None:
    event = Unreadable(index=1, raw={"weight": Decimal("12.50")}, error="e", observed=NOW)
    back = unpack("unreadable", pack(event))
    assert isinstance(back, Unreadable)
    assert back.raw == {"weight": "12.50"}


@pytest.mark.parametrize("kept", [b'{"index":7', b'{"jndex":7}', b"[]", b""])
def test_a_request_that_was_kept_and_cannot_be_read_is_a_store_failure(kept: bytes) -> None:
    with pytest.raises(StoreError, match=r"a request in the store .* another version"):
        load_request(kept)


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"[]", b"{}", b'{"since":"now","until":1}', b'{"since":1e99,"until":1}']
)
def test_stored_event_that_cannot_be_read_raises_an_error_about_the_version(payload: bytes) -> None:
    with pytest.raises(StoreError, match=r"an event \(gap\) .* another version"):
        unpack("gap", payload)
    with pytest.raises(StoreError, match="another version"):
        unpack_selected(payload)


def test_a_kind_that_no_version_wrote_is_refused() -> None:
    with pytest.raises(StoreError, match="melted"):
        unpack("melted", b"{}")
