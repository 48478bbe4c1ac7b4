"""Tests of encoded requests: the documented names, types and formats, compared with bodies typed by hand."""

from __future__ import annotations

import json
import traceback
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest

from freight_exchange import wire
from freight_exchange.errors import ValidationError
from freight_exchange.models import (
    Carrier,
    OffersType,
    Packaging,
    RateRequestDraft,
    RequestType,
    Route,
    RouteDraft,
    SubmitOffer,
)

DRAFT = RateRequestDraft(
    commodity="Widgets",
    type=RequestType.AIR_FREIGHT,
    origin="Hong Kong",
    destination="Los Angeles",
    arrival=datetime(2025, 3, 1, 0, 0, 0, 999),
    packaging=Packaging.PALLET,
    quantity=10,
    length="1.20",
    width="0.8",
    height=1,
    weight="450.5",
    incoterm="FOB",
    hazardous=True,
    notes="fragile",
)
ROUTE = RouteDraft(
    origin="Hong Kong",
    destination="Los Angeles",
    cy_cutoff=datetime(2025, 3, 1, 12),
    cfs_cutoff=datetime(2025, 3, 1, 4, tzinfo=UTC),
    departure=datetime(2025, 3, 2),
    arrival=datetime(2025, 3, 20),
    carrier=3,
    vessel="Ever Forward",
    voyage_id="E12",
    timezone="Asia/Hong_Kong",
)
ROUTE_BODY = {
    "origin": "Hong Kong",
    "destination": "Los Angeles",
    "cycutoff": "2025-03-01 12:00:00",
    "cfscutoff": "2025-03-01 12:00:00",
    "departure": "2025-03-02 00:00:00",
    "arrival": "2025-03-20 00:00:00",
    "carrier": 3,
    "vessel": "Ever Forward",
    "voyageId": "E12",
    "timezone": "Asia/Hong_Kong",
}
ROUTE_REPLY: dict[str, Any] = {
    "index": 9,
    "origin": "Hong Kong",
    "destination": "Los Angeles",
    "cycutoff": "2025-03-01 12:00:00",
    "cfscutoff": "2025-03-01 12:00:00",
    "estDeparture": "2025-03-02 00:00:00",
    "estArrival": "2025-03-20 00:00:00",
    "carrier": 3,
    "vesselName": "Ever Forward",
    "voyageId": "E12",
    "timezone": "Asia/Hong_Kong",
}


def read(**changes: object) -> Route:
    return wire.decode_one({"routes": [{**ROUTE_REPLY, **changes}]}, wire.ROUTES)


def test_body_of_a_rate_request_has_its_documented_fields() -> None:
    assert wire.dump(wire.encode_request_draft(DRAFT)) == (
        b'{"commodityname":"Widgets","requesttype":"Air Freight","origin":"Hong Kong","destination":"Los Angeles",'
        b'"arrival":"2025-03-01 00:00:00","packaging":"pallet","quantity":10,"length":1.20,"width":0.8,"height":1,'
        b'"weight":450.5,"incoterm":"FOB","hazardous":1,"notes":"fragile"}'
    )
    plain = wire.encode_request_draft(attrs.evolve(DRAFT, notes=None, hazardous=False))
    assert "notes" not in plain
    assert plain["hazardous"] == 0
    assert type(plain["hazardous"]) is int


@pytest.mark.parametrize(
    ("field", "keys"),
    [
        ("currencyIndex", {"currencyIndex": 840}),
        ("currencyId", {"currencyId": 840}),
        ("both", {"currencyIndex": 840, "currencyId": 840}),
    ],
)
def test_body_of_an_offer_has_its_documented_fields(field: wire.CurrencyField, keys: dict[str, int]) -> None:
    write = SubmitOffer(4, Decimal("1840.50"), 840, {"Ocean Freight": Decimal(1700)}, "valid 14 days")
    assert json.loads(wire.dump(wire.encode_offer(write, field))) == {
        "requestIndex": 4,
        "offer": 1840.5,
        **keys,
        "rates": {"Ocean Freight": 1700},
        "terms": "valid 14 days",
    }
    assert b'"offer":1840.50' in wire.dump(wire.encode_offer(write, field))
    assert wire.encode_offer(SubmitOffer(4, Decimal(5), 840)) == {
        "requestIndex": 4,
        "offer": Decimal(5),
        "currencyIndex": 840,
    }


def test_body_of_a_response_has_its_documented_fields() -> None:
    assert wire.dump(wire.encode_response(7, approved=True)) == b'{"offerIndex":7,"approved":1}'
    assert wire.dump(wire.encode_response(7, approved=False)) == b'{"offerIndex":7,"approved":0}'


@pytest.mark.parametrize(
    ("field", "keys"),
    [("carrier", {"carrier"}), ("carrierId", {"carrierId"}), ("both", {"carrier", "carrierId"})],
)
def test_body_of_a_route_has_the_chosen_carrier_field(field: wire.CarrierField, keys: set[str]) -> None:
    body = {key: value for key, value in ROUTE_BODY.items() if key != "carrier"} | dict.fromkeys(keys, 3)
    assert wire.encode_route(ROUTE, field) == body
    assert wire.encode_route(read(), field) == {"index": 9, **body}


def test_cut_offs_at_skipped_or_repeated_times_are_sent_back_unchanged() -> None:
    skipped = read(timezone="America/New_York", cycutoff="2025-03-09 02:30:00", cfscutoff="2025-11-02 01:30:00")
    body = wire.encode_route(skipped)
    assert body["cycutoff"] == "2025-03-09 02:30:00"
    assert body["cfscutoff"] == "2025-11-02 01:30:00"


def test_unreadable_dates_go_back_as_the_text_that_came() -> None:
    body = wire.encode_route(read(estDeparture="when full", cycutoff="0000-00-00 00:00:00", estArrival=""))
    assert body == {
        "index": 9,
        **ROUTE_BODY,
        "departure": "when full",
        "cycutoff": "0000-00-00 00:00:00",
        "arrival": "",
    }
    mended = attrs.evolve(read(estDeparture="when full"), departure=datetime(2025, 3, 2))
    assert wire.encode_route(mended) == {"index": 9, **ROUTE_BODY}


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("cycutoff", "cy_cutoff"),
        ("cfscutoff", "cfs_cutoff"),
        ("estDeparture", "departure"),
        ("estArrival", "arrival"),
    ],
)
def test_a_missing_date_is_refused(key: str, field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        wire.encode_route(read(**{key: None}))
    assert caught.value.field == field


def test_zones_of_an_update() -> None:
    moved = attrs.evolve(read(), timezone="UTC")
    assert wire.encode_route(moved)["departure"] == "2025-03-01 16:00:00"
    shifted = attrs.evolve(read(), departure=datetime(2025, 3, 2, tzinfo=timezone(timedelta(hours=9))))
    assert wire.encode_route(shifted)["departure"] == "2025-03-01 23:00:00"
    with pytest.raises(ValidationError) as caught:
        wire.encode_route(attrs.evolve(read(), timezone="Mars/Olympus"))
    assert caught.value.field == "timezone"
    assert wire.encode_route(read(timezone="Mars/Olympus")) == {"index": 9, **ROUTE_BODY, "timezone": "Mars/Olympus"}
    mended = attrs.evolve(read(timezone="Mars/Olympus"), timezone="Asia/Hong_Kong")
    assert wire.encode_route(mended) == {"index": 9, **ROUTE_BODY}
    with pytest.raises(ValidationError) as caught:
        wire.encode_route(attrs.evolve(read(), arrival=datetime(2025, 3, 20, tzinfo=ZoneInfo("UTC"))))
    assert caught.value.field == "arrival"
    with pytest.raises(ValidationError) as caught:
        wire.encode_route(attrs.evolve(read(), timezone=""))
    assert caught.value.field == "timezone"


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("origin", "origin"),
        ("destination", "destination"),
        ("vesselName", "vessel"),
        ("voyageId", "voyage_id"),
        ("timezone", "timezone"),
        ("carrier", "carrier"),
    ],
)
def test_a_missing_field_is_refused(key: str, field: str) -> None:
    nothing: dict[str, Any] = {field: None}
    for route in (read(**{key: None}), attrs.evolve(read(), **nothing)):
        with pytest.raises(ValidationError, match=f"{field} is missing") as caught:
            wire.encode_route(route)
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("index", 0),
        ("index", -1),
        ("index", True),
        ("index", "9"),
        ("index", None),
        ("carrier", "3"),
        ("carrier", True),
        ("carrier", Decimal(3)),
        ("vessel", 3),
        ("vessel", b"Ever Forward"),
        ("voyage_id", "half \ud800"),
        ("timezone", 8),
        ("departure", "2025-03-02 00:00:00"),
        ("arrival", 0),
    ],
)
def test_value_that_no_update_can_send_is_refused(field: str, value: object) -> None:
    changes: dict[str, Any] = {field: value}
    with pytest.raises(ValidationError) as caught:
        wire.encode_route(attrs.evolve(read(), **changes))
    assert caught.value.field == field


@pytest.mark.parametrize("carrier", [Carrier(index=3, name="Line"), 3])
def test_an_update_takes_a_carrier_or_its_index(carrier: Any) -> None:
    assert wire.encode_route(attrs.evolve(read(), carrier=carrier)) == {"index": 9, **ROUTE_BODY}


def test_empty_text_goes_back_as_it_came() -> None:
    body = wire.encode_route(read(vesselName="", voyageId="", timezone=""))
    assert body == {"index": 9, **ROUTE_BODY, "vessel": "", "voyageId": "", "timezone": ""}


def test_list_parameters_have_their_documented_names() -> None:
    assert wire.encode_list_parameters() == {}
    assert wire.encode_list_parameters(offset=0, rows=100, seconds=3600, index=4, type=OffersType.SELECTED) == {
        "index": 4,
        "type": "sel",
        "offset": 0,
        "rowsperpage": 100,
        "secondsSinceUpdate": 3600,
    }
    for field in ("rows", "offset"):
        with pytest.raises(ValidationError) as caught:
            wire.encode_list_parameters(**{"offset" if field == "rows" else "rows": 1})  # type: ignore[arg-type]  # one alone
        assert caught.value.field == field


def test_route_filters_have_their_documented_names() -> None:
    names = [
        "departure",
        "arrival",
        "cy_cutoff",
        "cfs_cutoff",
        "departs_from",
        "departs_until",
        "arrives_from",
        "arrives_until",
        "cy_from",
        "cy_until",
        "cfs_from",
        "cfs_until",
    ]
    times: dict[str, Any] = {name: datetime(2025, 3, day) for day, name in enumerate(names, 1)}
    texts = {
        "origin": "Hong Kong",
        "destination": "Los Angeles",
        "vessel": "Ever Forward",
        "voyage_id": "E12",
        "timezone": "Asia/Hong_Kong",
    }
    filters = wire.encode_route_filters({"carrier": 3, **texts, **times})
    assert filters == {
        "origin": "Hong Kong",
        "destination": "Los Angeles",
        "carrierId": 3,
        "vessel": "Ever Forward",
        "voyageId": "E12",
        "timezone": "Asia/Hong_Kong",
        "departure": "2025-03-01 00:00:00",
        "arrival": "2025-03-02 00:00:00",
        "cycutoff": "2025-03-03 00:00:00",
        "cfscutoff": "2025-03-04 00:00:00",
        "departStart": "2025-03-05 00:00:00",
        "departEnd": "2025-03-06 00:00:00",
        "arrivalStart": "2025-03-07 00:00:00",
        "arrivalEnd": "2025-03-08 00:00:00",
        "cyStart": "2025-03-09 00:00:00",
        "cyEnd": "2025-03-10 00:00:00",
        "cfsStart": "2025-03-11 00:00:00",
        "cfsEnd": "2025-03-12 00:00:00",
    }
    assert wire.encode_route_filters({"origin": None}) == {}
    for name in names:
        aware: dict[str, Any] = {name: datetime(2025, 3, 1, tzinfo=UTC)}
        with pytest.raises(ValidationError) as caught:
            wire.encode_route_filters(aware)
        assert caught.value.field == name


def test_body_of_a_login_has_email_and_password() -> None:
    assert wire.encode_credentials("a@co.example", 'p"é') == '{"email":"a@co.example","password":"p\\"é"}'.encode()


def test_credentials_that_cannot_be_sent_leave_no_trace() -> None:
    with pytest.raises(ValidationError) as caught:
        wire.encode_credentials("a@co.example", "canary\ud800")
    for frame, _ in list(traceback.walk_tb(caught.value.__traceback__))[1:]:
        assert "canary" not in repr(frame.f_locals)
    assert caught.value.__context__ is None
