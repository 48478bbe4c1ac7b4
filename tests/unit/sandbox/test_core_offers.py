"""Offers from both sides: submitting, listing, approving, declining, and who learns what (4.6 to 4.10)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.sandbox.desk import OFFER, Desk

from freight_exchange.sandbox import Profile

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
def desk() -> Desk:
    desk = Desk()
    desk.publish()
    return desk


@pytest.mark.parametrize("path", ["quote/submitoffer", "quote/bid", "quote/request"])
def test_submit_at_every_address(desk: Desk, path: str) -> None:
    seen = desk.call("POST", path, OFFER, by=desk.forwarder)
    entry = {**ENTRY, "index": "5001", "currencyIndex": 840}
    del entry["currencyId"]
    assert (seen.status, seen.json) == (200, {"bid": {**CARGO, "refId": "FX000001", "offer": entry}})


def test_submit_without_rates_and_terms_and_with_the_samples_currency(desk: Desk) -> None:
    body = {"requestIndex": 1, "offer": "99.10", "currencyId": "978"}
    seen = desk.call("POST", "quote/submitoffer", body, by=desk.forwarder)
    assert seen.json["bid"]["offer"] == {
        "index": "5001",
        "offerAmount": 99.1,
        "currencyIndex": 978,
        "status": "pending",
    }


def test_what_is_sent_comes_back_to_the_last_digit(desk: Desk) -> None:
    token = desk.exchange.token(desk.forwarder, desk.now)
    body = b'{"requestIndex":1,"offer":1234567890123456.78901,"currencyIndex":840,"rates":{"All in":0.10}}'
    seen = desk.send("POST", "quote/submitoffer", body, token=token)
    assert b'"offerAmount":1234567890123456.78901' in seen.reply.body
    assert b'"rates":{"All in":0.10}' in seen.reply.body


@pytest.mark.parametrize(("method", "path"), [("GET", "quote/offer"), ("POST", "quote/getoffers")])
def test_the_shipper_lists_offers_without_learning_whose(desk: Desk, method: str, path: str) -> None:
    assert desk.call(method, path, {}, by=desk.shipper).json == {"offers": {"0": {**CARGO, "offer": {}}}}
    desk.offer()
    desk.offer(desk.rival, offer=2000, rates={}, terms=None)
    seen = desk.call(method, path, {"index": "1"}, by=desk.shipper)
    second = {"offerId": "5002", "offerAmount": 2000, "currencyId": 840, "status": "pending"}
    offers = {"0": {**ENTRY, "offerId": "5001"}, "1": second}
    assert seen.json == {"offers": {"0": {**CARGO, "offer": offers}}}
    for name in (b"forward", b"rival", b"Fergus", b"Rita"):
        assert name not in seen.reply.body.lower()


@pytest.mark.parametrize(("method", "path"), [("GET", "quote/offer"), ("POST", "quote/getoffers")])
def test_nobody_else_sees_the_offers_on_a_request(desk: Desk, method: str, path: str) -> None:
    desk.offer()
    for other in (desk.forwarder, desk.rival):
        assert desk.call(method, path, {}, by=other).json == {"offers": {}}
        assert desk.call(method, path, {"index": 1}, by=other).json == {"offers": {}}


@pytest.mark.parametrize("path", ["quote/approveoffer", "quote/offer"])
def test_approval_selects_and_exchanges_the_contacts(desk: Desk, path: str) -> None:
    offer = desk.offer()
    losing = desk.offer(desk.rival)
    seen = desk.call("POST", path, {"offerIndex": offer, "approved": 1}, by=desk.shipper)
    selected = {**ENTRY, "status": "selected"}
    forwarder = {"loadingPOC": FORWARDER_CONTACT, "loadingCompany": company("Forward & Co. Ltd")}
    record = {**CARGO, "status": "Selected"}
    assert seen.json == {"offers": {"0": {**record, "offer": {**selected, "offerIndex": "5001", **forwarder}}}}

    seen = desk.call("GET", "quote/offer", by=desk.shipper)
    assert seen.json == {"offers": {"0": {**record, "offer": {**selected, "offerId": "5001"}, **forwarder}}}

    bid = {"refId": "FX000001", "price": 1840.5, "currencyIndex": 840}
    shipper = {"loadingPOC": SHIPPER_CONTACT, "loadingCompany": company("Ship & Co. Ltd")}
    seen = desk.call("GET", "quote/bid", by=desk.forwarder)
    assert seen.json == {"bids": {"0": {**record, **bid, **shipper}}}
    seen = desk.call("GET", "quote/bid", by=desk.rival)
    assert seen.json == {"bids": {"0": {**CARGO, **bid}}}
    stays = desk.exchange.audit_log.offers[1].offer
    assert (stays.index, stays.status) == (losing, "pending")


@pytest.mark.parametrize("path", ["quote/approveoffer", "quote/offer"])
def test_declining_marks_the_offer_and_tells_nobody(desk: Desk, path: str) -> None:
    offer = desk.offer()
    seen = desk.call("POST", path, {"offerIndex": offer, "approved": 0}, by=desk.shipper)
    declined = {**ENTRY, "offerIndex": "5001", "status": "declined"}
    assert seen.json == {"offers": {"0": {**CARGO, "offer": declined}}}
    assert desk.indexes(desk.call("GET", "quote/request", by=desk.rival)) == [1]
    assert b"loading" not in desk.call("GET", "quote/bid", by=desk.forwarder).reply.body
    assert desk.respond(offer, 1).status == 400


def test_types_of_the_shippers_listing(desk: Desk) -> None:
    desk.publish(2)
    desk.offer(requestIndex=2)
    desk.respond(desk.offer(requestIndex=3))

    def listed(kind: str) -> list[int]:
        return desk.indexes(desk.call("POST", "quote/getoffers", {"type": kind}, by=desk.shipper), "offers")

    assert listed("all") == [3, 2, 1]
    assert (listed("offers"), listed("sel"), listed("nsel")) == ([3, 2], [3], [2, 1])
    assert desk.call("POST", "quote/getoffers", {"type": "best"}, by=desk.shipper).status == 400


def test_types_of_the_forwarders_listing(desk: Desk) -> None:
    desk.publish(3)
    desk.offer(requestIndex=1)
    desk.respond(desk.offer(requestIndex=2))
    desk.respond(desk.offer(requestIndex=3), 0)
    desk.offer(requestIndex=4)
    desk.respond(desk.offer(desk.rival, requestIndex=4))

    def listed(kind: str) -> list[int]:
        return desk.indexes(desk.call("GET", "quote/bid", {"type": kind}, by=desk.forwarder), "bids")

    assert listed("offers") == [4, 3, 2, 1]
    assert (listed("active"), listed("sel"), listed("nsel")) == ([1], [2], [4, 3])
    assert desk.call("GET", "quote/bid", {"type": "won"}, by=desk.forwarder).status == 400


def test_two_offers_on_one_request_are_two_records(desk: Desk) -> None:
    desk.offer()
    desk.offer()
    assert desk.indexes(desk.call("GET", "quote/bid", by=desk.forwarder), "bids") == [1, 1]
    assert len(desk.exchange.audit_log.duplicate_offers()) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"requestIndex": 9},
        {"requestIndex": 5001},
        {"currencyIndex": 77},
    ],
)
def test_offers_on_what_does_not_exist(desk: Desk, changes: dict[str, object]) -> None:
    assert desk.call("POST", "quote/submitoffer", {**OFFER, **changes}, by=desk.forwarder).status == 400
    assert desk.exchange.audit_log.offers == []


def test_no_offer_on_an_own_or_closed_or_withdrawn_request(desk: Desk) -> None:
    assert desk.call("POST", "quote/submitoffer", OFFER, by=desk.shipper).status == 400
    desk.respond(desk.offer())
    assert desk.call("POST", "quote/submitoffer", OFFER, by=desk.rival).status == 400
    desk.publish()
    desk.exchange.withdraw(2, desk.now)
    assert desk.call("POST", "quote/submitoffer", {**OFFER, "requestIndex": 2}, by=desk.rival).status == 400


def test_only_the_owner_answers_an_offer_and_only_once(desk: Desk) -> None:
    offer = desk.offer()
    body = {"offerIndex": offer, "approved": 1}
    for other in (desk.forwarder, desk.rival):
        assert desk.call("POST", "quote/approveoffer", body, by=other).status == 400
    assert desk.respond(1).status == 400
    second = desk.offer(desk.rival)
    assert desk.respond(offer).status == 200
    assert desk.respond(offer).status == 400
    assert desk.respond(second).status == 400
    assert desk.respond(offer, 0).status == 400
    assert desk.exchange.audit_log.final_states()[1].selected == offer


@pytest.mark.parametrize(("outcome", "left"), [("declined", 1), ("rejected", 1), ("unchanged", 1), ("removed", 0)])
def test_outcomes_of_declining(outcome: Any, left: int) -> None:
    desk = Desk(Profile(decline_outcome=outcome))
    desk.publish()
    desk.respond(desk.offer(), 0)
    offers = desk.call("GET", "quote/offer", by=desk.shipper).json["offers"]["0"]["offer"]
    words = {"unchanged": "pending"}
    assert [offer["status"] for offer in offers.values()] == [words.get(outcome, outcome)] * left
    assert len(desk.call("GET", "quote/bid", by=desk.forwarder).json["bids"]) == left


def test_a_server_that_switches_the_selection() -> None:
    desk = Desk(Profile(second_approval="switched", selected_offer_shape="collection"))
    desk.publish()
    first, second = desk.offer(), desk.offer(desk.rival)
    assert [desk.respond(offer).status for offer in (first, second, second)] == [200, 200, 400]
    offers = desk.call("GET", "quote/offer", by=desk.shipper).json["offers"]["0"]["offer"]
    assert [offers[key]["status"] for key in ("0", "1")] == ["pending", "selected"]
    assert b"loadingPOC" not in desk.call("GET", "quote/bid", by=desk.forwarder).reply.body
    assert b"loadingPOC" in desk.call("GET", "quote/bid", by=desk.rival).reply.body


def test_a_server_that_replaces_the_earlier_offer() -> None:
    desk = Desk(Profile(second_offer="replaced"))
    desk.publish()
    first, _ = desk.offer(), desk.offer(offer=1500)
    bids = desk.call("GET", "quote/bid", by=desk.forwarder).json["bids"]
    assert [bid["price"] for bid in bids.values()] == [1500]
    assert desk.respond(first).status == 400


def test_a_late_bid_shows_up_after_its_time() -> None:
    desk = Desk(Profile(late_visibility=3.0))
    desk.publish()
    desk.offer()
    desk.now += 2.9
    assert desk.call("GET", "quote/bid", by=desk.forwarder).json == {"bids": {}}
    desk.now += 0.1
    assert desk.indexes(desk.call("GET", "quote/bid", by=desk.forwarder), "bids") == [1]
