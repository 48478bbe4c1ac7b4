"""Raw records as the service writes them, and helpers that decode them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from freight_exchange import wire
from freight_exchange.errors import DecodeError
from freight_exchange.models import (
    Packaging,
    RateRequest,
    RequestStatus,
    RequestType,
)

REQUEST: dict[str, Any] = {
    "index": 4,
    "commodityname": "Widgets",
    "refId": "RQ-4",
    "requesttype": "Air Freight",
    "status": "Available",
    "origin": "Hong Kong",
    "destination": "Los Angeles",
    "needdate": "2025-03-01 00:00:00",
    "notes": "10 pallets",
    "qty": 10,
    "packaging": "Pallet",
    "measureUnit": "m",
    "width": Decimal("1.20"),
    "height": 1,
    "length": Decimal("0.8"),
    "massUnit": "kg",
    "weight": Decimal("450.5"),
    "incoterm": "FOB",
    "hazardous": 1,
}


READ = RateRequest(
    index=4,
    commodity="Widgets",
    ref_id="RQ-4",
    type=RequestType.AIR_FREIGHT,
    status=RequestStatus.AVAILABLE,
    origin="Hong Kong",
    destination="Los Angeles",
    need_date=datetime(2025, 3, 1),
    notes="10 pallets",
    quantity=10,
    packaging=Packaging.PALLET,
    measure_unit="m",
    width=Decimal("1.20"),
    height=Decimal(1),
    length=Decimal("0.8"),
    mass_unit="kg",
    weight=Decimal("450.5"),
    incoterm="FOB",
    hazardous=True,
)


LISTING: dict[str, Any] = {
    "index": 4,
    "cargoname": "Widgets",
    "status": "Available",
    "origin": "Hong Kong",
    "destination": "Los Angeles",
    "needdate": "2025-03-01 00:00:00",
    "notes": "",
    "qty": 10,
    "packingtype": "Pallet",
    "measureUnit": "m",
    "massUnit": "kg",
    "weight": 450,
    "cargowidth": 1,
    "cargoheight": 2,
    "cargolength": 3,
}


ENTRY: dict[str, Any] = {"offerId": "7", "offerAmount": Decimal("1840.50"), "currencyId": 840, "status": "pending"}


WITH_OFFERS: tuple[wire.Kind[Any], ...] = (wire.OFFERS, wire.BIDS)


CONTACTS = {"loadingPOC": {"name": "Ada", "email": "ada@co.example"}, "loadingCompany": {"name": "Co", "fax": "1"}}


def request(**changes: object) -> RateRequest:
    return wire.decode_one({"raterequests": {"0": {**REQUEST, **changes}}}, wire.REQUESTS)


def broken(kind: wire.Kind[Any], raw: object) -> DecodeError:
    found = wire.decode_rows({kind.collection: {"3": raw}}, kind)
    assert not found.records
    assert not found.flaws
    return found.broken[0]


def flawed(kind: wire.Kind[Any], raw: object) -> tuple[Any, list[str]]:
    """Return the record, and the paths of its unreadable parts in the reply."""
    found = wire.decode_rows({kind.collection: {"3": raw}}, kind)
    assert not found.broken
    assert all(error.raw == raw for error in found.flaws)
    assert found.records == (wire.decode_one({kind.collection: {"3": raw}}, kind),)
    return found.records[0], [error.path for error in found.flaws]


def shuffled(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for order in itertools.islice(itertools.permutations(values), 24):
        yield {key: values[key] for key in order}
