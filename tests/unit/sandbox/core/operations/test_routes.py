"""Routes with every filter, carriers and currencies (service document, 4.5, 4.11 and 4.12)."""

from __future__ import annotations

import pytest
from tests.unit.sandbox.rig import ROUTE, ExchangeRig

RECORD = {
    "index": 304,
    "origin": "Ningbo",
    "destination": "Felixstowe",
    "cycutoff": "2030-04-02 17:00:00",
    "cfscutoff": "2030-04-01 12:00:00",
    "estDeparture": "2030-04-04 06:00:00",
    "estArrival": "2030-05-06 14:00:00",
    "carrier": 2,
    "vesselName": "Anchor Prudence",
    "voyageId": "202W",
    "timezone": "Asia/Shanghai",
}


def test_create_read_and_replace() -> None:
    rig = ExchangeRig()
    seen = rig.call("POST", "route", ROUTE, by=rig.forwarder)
    assert (seen.status, seen.json) == (200, {"routes": {"0": RECORD}})
    assert rig.call("GET", "route", {"index": "304"}, by=rig.shipper).json == {"routes": {"0": RECORD}}
    image = {**ROUTE, "index": 304, "vessel": "Anchor Patience"}
    changed = {**RECORD, "vesselName": "Anchor Patience"}
    assert rig.call("PUT", "route", image, by=rig.forwarder).json == {"routes": {"0": changed}}
    assert rig.call("GET", "route", {"index": 304}, by=rig.shipper).json == {"routes": {"0": changed}}


def test_route_accepts_carrier_id() -> None:
    rig = ExchangeRig()
    body = {key: value for key, value in ROUTE.items() if key != "carrier"}
    assert rig.call("POST", "route", {**body, "carrierId": 3}, by=rig.forwarder).json["routes"]["0"]["carrier"] == 3


@pytest.mark.parametrize("field", sorted(ROUTE))
def test_missing_route_field_gets_400(field: str) -> None:
    rig = ExchangeRig()
    body = {key: value for key, value in ROUTE.items() if key != field}
    assert rig.call("POST", "route", body, by=rig.forwarder).status == 400
    assert rig.call("PUT", "route", {**body, "index": 301}, by=rig.forwarder).status == 400


@pytest.mark.parametrize(
    "changes",
    [
        {"carrier": 99},
        {"departure": "2030-04-04T06:00:00"},
        {"arrival": "2030-02-30 06:00:00"},
        {"cycutoff": "0000-00-00 00:00:00"},
        {"timezone": 8},
    ],
)
def test_invalid_route_field_gets_400(changes: dict[str, object]) -> None:
    rig = ExchangeRig()
    assert rig.call("POST", "route", {**ROUTE, **changes}, by=rig.forwarder).status == 400


@pytest.mark.parametrize("index", [9, None])
def test_update_of_unknown_route_gets_400(index: int | None) -> None:
    rig = ExchangeRig()
    assert rig.call("PUT", "route", {**ROUTE, "index": index}, by=rig.forwarder).status == 400


FILTERS: list[tuple[dict[str, object], list[int]]] = [
    ({}, [303, 302, 301]),
    ({"index": 302}, [302]),
    ({"origin": "Hong Kong"}, [301]),
    ({"destination": "Rotterdam"}, [302]),
    ({"carrierId": 3}, [303]),
    ({"carrierId": "3"}, [303]),
    ({"vessel": "Anchor Fidelity"}, [302]),
    ({"voyageId": "041E"}, [301]),
    ({"timezone": "Europe/Berlin"}, [303]),
    ({"departure": "2030-01-04 06:00:00"}, [301]),
    ({"arrival": "2030-02-06 08:00:00"}, [302]),
    ({"cycutoff": "2030-01-09 15:00:00"}, [303]),
    ({"cfscutoff": "2030-01-01 12:00:00"}, [301]),
    ({"departStart": "2030-01-07 23:30:00"}, [303, 302]),
    ({"departEnd": "2030-01-07 23:30:00"}, [302, 301]),
    ({"departStart": "2030-01-05 00:00:00", "departEnd": "2030-01-10 00:00:00"}, [302]),
    ({"arrivalStart": "2030-01-20 00:00:00"}, [303, 302]),
    ({"arrivalEnd": "2030-01-20 00:00:00"}, [301]),
    ({"cyStart": "2030-01-06 00:00:00"}, [303]),
    ({"cyEnd": "2030-01-05 18:00:00"}, [302, 301]),
    ({"cfsStart": "2030-01-04 18:00:01"}, [303]),
    ({"cfsEnd": "2030-01-04 18:00:00"}, [302, 301]),
    ({"origin": "Hong Kong", "carrierId": 2}, []),
    ({"offset": 0, "rowsperpage": 2}, [303, 302]),
    ({"offset": 1, "rowsperpage": 2}, [301]),
]


@pytest.mark.parametrize(("filters", "indexes"), FILTERS)
def test_route_filters_work_in_body_and_query(filters: dict[str, object], indexes: list[int]) -> None:
    rig = ExchangeRig()
    assert rig.indexes(rig.call("GET", "route", filters, by=rig.shipper), "routes") == indexes
    query = {key: str(value) for key, value in filters.items()}
    assert rig.indexes(rig.call("GET", "route", by=rig.shipper, query=query), "routes") == indexes


@pytest.mark.parametrize("name", ["departure", "departStart", "arrivalEnd", "cyStart", "cfsEnd", "cycutoff"])
def test_invalid_filter_time_gets_400(name: str) -> None:
    rig = ExchangeRig()
    assert rig.call("GET", "route", {name: "yesterday"}, by=rig.shipper).status == 400


def test_carriers_list_and_lookup() -> None:
    rig = ExchangeRig()
    seen = rig.call("GET", "carrier", by=rig.forwarder)
    assert seen.json == {
        "carriers": {
            "0": {"index": 1, "name": "Pacific Star Line"},
            "1": {"index": 2, "name": "Blue Anchor Shipping"},
            "2": {"index": 3, "name": "Meridian Container Lines"},
            "3": {"index": 7, "name": "Northern Air Cargo"},
            "4": {"index": 12, "name": "Silk Road Trucking"},
        }
    }
    seen = rig.call("GET", "carrier", {"index": 7}, by=rig.forwarder)
    assert seen.json == {"carriers": {"0": {"index": 7, "name": "Northern Air Cargo"}}}
    assert rig.call("GET", "carrier", {"index": 8}, by=rig.forwarder).json == {"carriers": {}}


def test_currencies_list_and_lookup() -> None:
    rig = ExchangeRig()
    codes = [record["code"] for record in rig.call("GET", "currency", by=rig.shipper).json["currencies"].values()]
    assert codes == ["USD", "EUR", "HKD", "CNY", "GBP", "JPY", "SGD"]
    seen = rig.call("GET", "currency", by=rig.shipper, query={"index": "978"})
    assert seen.json == {"currencies": {"0": {"index": 978, "name": "Euro", "code": "EUR"}}}
