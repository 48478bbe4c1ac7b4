"""Tests of committed writes that the service lists in a different form: a doubt, and never `NotApplied`."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from freight_exchange import (
    Applied,
    FreightExchange,
    NotApplied,
    OutcomeUnknownError,
    RateRequestDraft,
    RouteDraft,
    StillUnknown,
)
from freight_exchange.models import Reconciliation

pytestmark = pytest.mark.virtual_time

DRAFT = RateRequestDraft(
    commodity="Tiles", type="Shipping", origin="Hong Kong", destination="Long Beach", arrival=datetime(2027, 3, 1),
    packaging="pallet", quantity=2, length=2, width=1, height=1, weight=640, incoterm="FOB", hazardous=False,
)  # fmt: skip
ROUTE = RouteDraft(
    origin="Hong Kong", destination="Los Angeles", cy_cutoff=datetime(2027, 3, 1), cfs_cutoff=datetime(2027, 3, 1),
    departure=datetime(2027, 3, 4), arrival=datetime(2027, 3, 20), carrier=1, vessel="Aurora", voyage_id="041E",
    timezone="Asia/Hong_Kong",
)  # fmt: skip
SHOWN_ROUTE = {
    "index": 9, "origin": "Hong Kong", "destination": "Los Angeles", "cycutoff": "2027-03-01 00:00:00",
    "cfscutoff": "2027-03-01 00:00:00", "estDeparture": "2027-03-04 00:00:00", "estArrival": "2027-03-20 00:00:00",
    "carrier": 1, "vesselName": "Aurora", "voyageId": "041E", "timezone": "Asia/Hong_Kong",
}  # fmt: skip
SHOWN_REQUEST = {
    "index": 7, "cargoname": "Tiles", "refId": "x", "status": "Available", "origin": "Hong Kong",
    "destination": "Long Beach", "qty": 2, "weight": 640, "cargowidth": 1, "cargoheight": 1, "cargolength": 2,
}  # fmt: skip


async def verdict(publishes: bool, record: dict[str, Any]) -> Reconciliation:
    """Return the outcome of a write whose reply is lost, when its listing contains only this record."""
    key = "offers" if publishes else "routes"

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/login"):
            return httpx.Response(200, json={"user": {"access_token": "token", "expires_on": 3600}})
        if request.method == "POST":
            raise httpx.ReadError("the answer is lost")
        first = not json.loads(request.content)["offset"]
        return httpx.Response(200, json={key: {"0": record} if first else {}})

    http_client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    async with FreightExchange(
        "https://host.example/api", email="a@b.example", password="x", http_client=http_client
    ) as exchange:
        with pytest.raises(OutcomeUnknownError) as caught:
            await (exchange.requests.publish(DRAFT) if publishes else exchange.routes.create(ROUTE))
        return await caught.value.reconcile(settle=timedelta(seconds=2))


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, Applied),
        ({"origin": "Hong Kong, HK"}, StillUnknown),
        ({"vesselName": "MV Aurora"}, StillUnknown),
        ({"voyageId": "41E"}, StillUnknown),
        ({"carrier": 2}, NotApplied),
        ({"voyageId": "42E", "estDeparture": "2027-03-11 00:00:00"}, NotApplied),
    ],
)
async def test_a_new_route_of_which_one_word_is_respelt(changes: dict[str, Any], kind: type[Reconciliation]) -> None:
    assert isinstance(await verdict(False, SHOWN_ROUTE | changes), kind)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, Applied),
        ({"cargoname": None, "weight": None}, StillUnknown),
        ({"cargoname": "", "cargowidth": None, "qty": None}, StillUnknown),
        ({"cargoname": "Fish", "weight": None}, NotApplied),
        ({"cargoname": None, "qty": 5}, NotApplied),
    ],
)
async def test_a_publication_of_which_much_is_left_out(changes: dict[str, Any], kind: type[Reconciliation]) -> None:
    assert isinstance(await verdict(True, SHOWN_REQUEST | changes), kind)
