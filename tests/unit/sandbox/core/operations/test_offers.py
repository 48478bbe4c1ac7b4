"""Tests of offers from both sides: submitting, listing, approving, declining, and visibility (4.6 to 4.10)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.sandbox.rig import OFFER, ExchangeRig

from freight_sandbox import Profile

CARGO = {
    "index": 1,
    "cargoname": "Green tea",
    "status": "Available",
    "origin": "Shenzhen",
    "destination": "Hamburg",
    "needdate": "2030-03-15 00:00:00",
    "notes": "4 pallet(s) of Green tea from Shenzhen to Hamburg.",
    "qty": 4,
    "packingtype": "Pallet",
    "measureUnit": "m",
    "massUnit": "kg",
    "weight": 210.5,
    "cargowidth": 1,
    "cargoheight": 0.75,
    "cargolength": 1.2,
}
RATES = {"Ocean Freight": 1700, "Chassis Fee": 140.5}
ENTRY = {
    "offerAmount": 1840.5,
    "currencyId": 840,
    "status": "pending",
    "terms": "valid 14 days",
    "rates": RATES,
}
FORWARDER_CONTACT = {"name": "Fergus Forward", "email": "forwarder@demo.example"}
SHIPPER_CONTACT = {"name": "Sylvia Ship", "email": "shipper@demo.example"}


def company(name: str) -> dict[str, str]:
    return {
        "name": name,
        "address1": "1 Harbour Road",
        "city": "Hong Kong",
        "state": "",
        "postal": "00852",
        "country": "Hong Kong",
        "fax": "+852 5550 0101",
        "otilicense": "012345F",
    }


@pytest.fixture
def rig() -> ExchangeRig:
    rig = ExchangeRig()
    rig.publish()
    return rig


@pytest.mark.parametrize("path", ["quote/submitoffer", "quote/bid", "quote/request"])
def test_submit_at_every_address(rig: ExchangeRig, path: str) -> None:
    seen = rig.call("POST", path, OFFER, by=rig.forwarder)
    entry = {**ENTRY, "index": "5001", "currencyIndex": 840}
    del entry["currencyId"]
    assert (seen.status, seen.json) == (200, {"bid": {**CARGO, "refId": "FX000001", "offer": entry}})


def test_submit_without_rates_and_terms_in_currency_id(rig: ExchangeRig) -> None:
    body = {"requestIndex": 1, "offer": "99.10", "currencyId": "978"}
    seen = rig.call("POST", "quote/submitoffer", body, by=rig.forwarder)
    assert seen.json["bid"]["offer"] == {
        "index": "5001",
        "offerAmount": 99.1,
        "currencyIndex": 978,
        "status": "pending",
    }


def test_amounts_keep_every_digit(rig: ExchangeRig) -> None:
    token = rig.exchange.token(rig.forwarder, rig.now)
    body = b'{"requestIndex":1,"offer":1234567890123456.78901,"currencyIndex":840,"rates":{"All in":0.10}}'
    seen = rig.send("POST", "quote/submitoffer", body, token=token)
    assert b'"offerAmount":1234567890123456.78901' in seen.reply.body
    assert b'"rates":{"All in":0.10}' in seen.reply.body


@pytest.mark.parametrize(("method", "path"), [("GET", "quote/offer"), ("POST", "quote/getoffers")])
def test_offer_listing_does_not_name_forwarders(rig: ExchangeRig, method: str, path: str) -> None:
    assert rig.call(method, path, {}, by=rig.shipper).json == {"offers": {"0": {**CARGO, "offer": {}}}}
    rig.offer()
    rig.offer(rig.rival, offer=2000, rates={}, terms=None)
    seen = rig.call(method, path, {"index": "1"}, by=rig.shipper)
    second = {"offerId": "5002", "offerAmount": 2000, "currencyId": 840, "status": "pending"}
    offers = {"0": {**ENTRY, "offerId": "5001"}, "1": second}
    assert seen.json == {"offers": {"0": {**CARGO, "offer": offers}}}
    for name in (b"forward", b"rival", b"Fergus", b"Rita"):
        assert name not in seen.reply.body.lower()


@pytest.mark.parametrize(("method", "path"), [("GET", "quote/offer"), ("POST", "quote/getoffers")])
def test_other_accounts_see_no_offers_on_a_request(rig: ExchangeRig, method: str, path: str) -> None:
    rig.offer()
    for other in (rig.forwarder, rig.rival):
        assert rig.call(method, path, {}, by=other).json == {"offers": {}}
        assert rig.call(method, path, {"index": 1}, by=other).json == {"offers": {}}


@pytest.mark.parametrize("path", ["quote/approveoffer", "quote/offer"])
def test_approval_selects_and_exchanges_the_contacts(rig: ExchangeRig, path: str) -> None:
    offer = rig.offer()
    losing = rig.offer(rig.rival)
    seen = rig.call("POST", path, {"offerIndex": offer, "approved": 1}, by=rig.shipper)
    selected = {**ENTRY, "status": "selected"}
    forwarder = {"loadingPOC": FORWARDER_CONTACT, "loadingCompany": company("Forward & Co. Ltd")}
    record = {**CARGO, "status": "Selected"}
    assert seen.json == {"offers": {"0": {**record, "offer": {**selected, "offerIndex": "5001", **forwarder}}}}

    seen = rig.call("GET", "quote/offer", by=rig.shipper)
    assert seen.json == {"offers": {"0": {**record, "offer": {**selected, "offerId": "5001"}, **forwarder}}}

    bid = {"refId": "FX000001", "price": 1840.5, "currencyIndex": 840}
    shipper = {"loadingPOC": SHIPPER_CONTACT, "loadingCompany": company("Ship & Co. Ltd")}
    seen = rig.call("GET", "quote/bid", by=rig.forwarder)
    assert seen.json == {"bids": {"0": {**record, **bid, **shipper}}}
    seen = rig.call("GET", "quote/bid", by=rig.rival)
    assert seen.json == {"bids": {"0": {**CARGO, **bid}}}
    stays = rig.exchange.audit_log.offers[1].offer
    assert (stays.index, stays.status) == (losing, "pending")


@pytest.mark.parametrize("path", ["quote/approveoffer", "quote/offer"])
def test_decline_marks_the_offer_and_shares_no_contact(rig: ExchangeRig, path: str) -> None:
    offer = rig.offer()
    seen = rig.call("POST", path, {"offerIndex": offer, "approved": 0}, by=rig.shipper)
    declined = {**ENTRY, "offerIndex": "5001", "status": "declined"}
    assert seen.json == {"offers": {"0": {**CARGO, "offer": declined}}}
    assert rig.indexes(rig.call("GET", "quote/request", by=rig.rival)) == [1]
    assert b"loading" not in rig.call("GET", "quote/bid", by=rig.forwarder).reply.body
    assert rig.respond(offer, 1).status == 400


def test_offers_are_listed_by_type(rig: ExchangeRig) -> None:
    rig.publish(2)
    rig.offer(requestIndex=2)
    rig.respond(rig.offer(requestIndex=3))

    def listed(kind: str) -> list[int]:
        return rig.indexes(rig.call("POST", "quote/getoffers", {"type": kind}, by=rig.shipper), "offers")

    assert listed("all") == [3, 2, 1]
    assert (listed("offers"), listed("sel"), listed("nsel")) == ([3, 2], [3], [2, 1])
    assert rig.call("POST", "quote/getoffers", {"type": "best"}, by=rig.shipper).status == 400


def test_bids_are_listed_by_type(rig: ExchangeRig) -> None:
    rig.publish(3)
    rig.offer(requestIndex=1)
    rig.respond(rig.offer(requestIndex=2))
    rig.respond(rig.offer(requestIndex=3), 0)
    rig.offer(requestIndex=4)
    rig.respond(rig.offer(rig.rival, requestIndex=4))

    def listed(kind: str) -> list[int]:
        return rig.indexes(rig.call("GET", "quote/bid", {"type": kind}, by=rig.forwarder), "bids")

    assert listed("offers") == [4, 3, 2, 1]
    assert (listed("active"), listed("sel"), listed("nsel")) == ([1], [2], [4, 3])
    assert rig.call("GET", "quote/bid", {"type": "won"}, by=rig.forwarder).status == 400


def test_two_offers_on_one_request_are_two_records(rig: ExchangeRig) -> None:
    rig.offer()
    rig.offer()
    assert rig.indexes(rig.call("GET", "quote/bid", by=rig.forwarder), "bids") == [1, 1]
    assert len(rig.exchange.audit_log.duplicate_offers()) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"requestIndex": 9},
        {"requestIndex": 5001},
        {"currencyIndex": 77},
    ],
)
def test_offer_with_unknown_id_gets_400(rig: ExchangeRig, changes: dict[str, object]) -> None:
    assert rig.call("POST", "quote/submitoffer", {**OFFER, **changes}, by=rig.forwarder).status == 400
    assert rig.exchange.audit_log.offers == []


def test_offer_on_own_closed_or_withdrawn_request_gets_400(rig: ExchangeRig) -> None:
    assert rig.call("POST", "quote/submitoffer", OFFER, by=rig.shipper).status == 400
    rig.respond(rig.offer())
    assert rig.call("POST", "quote/submitoffer", OFFER, by=rig.rival).status == 400
    rig.publish()
    rig.exchange.withdraw(2, rig.now)
    assert rig.call("POST", "quote/submitoffer", {**OFFER, "requestIndex": 2}, by=rig.rival).status == 400


def test_only_the_owner_answers_an_offer_once(rig: ExchangeRig) -> None:
    offer = rig.offer()
    body = {"offerIndex": offer, "approved": 1}
    for other in (rig.forwarder, rig.rival):
        assert rig.call("POST", "quote/approveoffer", body, by=other).status == 400
    assert rig.respond(1).status == 400
    second = rig.offer(rig.rival)
    assert rig.respond(offer).status == 200
    assert rig.respond(offer).status == 400
    assert rig.respond(second).status == 400
    assert rig.respond(offer, 0).status == 400
    assert rig.exchange.audit_log.changes[-1].state.selected == offer


@pytest.mark.parametrize(("outcome", "left"), [("declined", 1), ("rejected", 1), ("unchanged", 1), ("removed", 0)])
def test_declined_offer_has_the_status_of_the_profile(outcome: Any, left: int) -> None:
    rig = ExchangeRig(Profile(decline_outcome=outcome))
    rig.publish()
    rig.respond(rig.offer(), 0)
    offers = rig.call("GET", "quote/offer", by=rig.shipper).json["offers"]["0"]["offer"]
    words = {"unchanged": "pending"}
    assert [offer["status"] for offer in offers.values()] == [words.get(outcome, outcome)] * left
    assert len(rig.call("GET", "quote/bid", by=rig.forwarder).json["bids"]) == left


def test_second_approval_switches_the_selection() -> None:
    rig = ExchangeRig(Profile(second_approval="switched", selected_offer_shape="collection"))
    rig.publish()
    first, second = rig.offer(), rig.offer(rig.rival)
    assert [rig.respond(offer).status for offer in (first, second, second)] == [200, 200, 400]
    offers = rig.call("GET", "quote/offer", by=rig.shipper).json["offers"]["0"]["offer"]
    assert [offers[key]["status"] for key in ("0", "1")] == ["pending", "selected"]
    assert b"loadingPOC" not in rig.call("GET", "quote/bid", by=rig.forwarder).reply.body
    assert b"loadingPOC" in rig.call("GET", "quote/bid", by=rig.rival).reply.body


def test_second_offer_replaces_the_first() -> None:
    rig = ExchangeRig(Profile(second_offer="replaced"))
    rig.publish()
    first, _ = rig.offer(), rig.offer(offer=1500)
    bids = rig.call("GET", "quote/bid", by=rig.forwarder).json["bids"]
    assert [bid["price"] for bid in bids.values()] == [1500]
    assert rig.respond(first).status == 400


def test_bid_shows_after_the_visibility_delay() -> None:
    rig = ExchangeRig(Profile(late_visibility=3.0))
    rig.publish()
    rig.offer()
    rig.now += 2.9
    assert rig.call("GET", "quote/bid", by=rig.forwarder).json == {"bids": {}}
    rig.now += 0.1
    assert rig.indexes(rig.call("GET", "quote/bid", by=rig.forwarder), "bids") == [1]
