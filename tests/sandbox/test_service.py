"""Operations of the document: their records, rules, validation and pages; logins; the audit log."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.rig import NOW, OFFER, PUBLISH, ROUTE, ExchangeRig

from freight_sandbox import Cargo, Profile
from freight_sandbox.codec import Raw, decode, encode
from freight_sandbox.service import OPERATIONS

SUMMARY = "4 pallet(s) of Green tea from Shenzhen to Hamburg."
SHARED = {"index": 1, "status": "Available", "origin": "Shenzhen", "destination": "Hamburg", "notes": SUMMARY, "qty": 4}
SHARED |= {"needdate": "2030-03-15 00:00:00", "measureUnit": "m", "massUnit": "kg", "weight": 210.5}
REQUEST = SHARED | {"commodityname": "Green tea", "refId": "FX000001", "requesttype": "Air Freight"}
REQUEST |= {"packaging": "Pallet", "width": 1, "height": 0.75, "length": 1.2, "incoterm": "FOB", "hazardous": 1}
CARGO = SHARED | {"cargoname": "Green tea", "packingtype": "Pallet"}
CARGO |= {"cargowidth": 1, "cargoheight": 0.75, "cargolength": 1.2}
ENTRY = {"offerAmount": 1840.5, "status": "pending", "terms": OFFER["terms"], "rates": OFFER["rates"]}
ROUTE_RECORD = {"index": 304, **ROUTE, "estDeparture": ROUTE["departure"], "estArrival": ROUTE["arrival"]}
ROUTE_RECORD["vesselName"] = ROUTE_RECORD.pop("vessel")
del ROUTE_RECORD["departure"], ROUTE_RECORD["arrival"]

SEARCH, OPEN, BIDS, OFFERS = "POST quote/getrequests", "GET quote/request", "GET quote/bid", "POST quote/getoffers"


def contacts(name: str, email: str) -> dict[str, Any]:
    company = {"name": f"{name.split()[1]} & Co. Ltd", "address1": "1 Harbour Road", "city": "Hong Kong", "state": ""}
    company |= {"postal": "00852", "country": "Hong Kong", "fax": "+852 5550 0101", "otilicense": "012345F"}
    return {"loadingPOC": {"name": name, "email": f"{email}@demo.example"}, "loadingCompany": company}


def rig_with(count: int = 1, profile: Profile | None = None) -> ExchangeRig:
    rig = ExchangeRig(profile)
    rig.publish(count)
    return rig


# Records and rules


@pytest.mark.parametrize("path", ["quote/request", "quote/submitrequest", "request"])
def test_request_is_published_and_listed(path: str) -> None:
    rig = ExchangeRig()
    documented = {"raterequests": {"0": REQUEST}}
    assert rig.call("POST", path, PUBLISH, by=rig.shipper).json == documented
    for address in (SEARCH, OPEN):
        assert rig.at(address, {}).json == documented
        assert rig.listed(address, {"index": "1"}) == [1]
        assert rig.listed(address, {"index": 9}) == rig.listed(address, {}, by=rig.shipper) == []


@pytest.mark.parametrize("path", ["quote/submitoffer", "quote/bid", "quote/request"])
def test_offer_is_submitted_and_listed_without_its_forwarder(path: str) -> None:
    rig = rig_with()
    seen = rig.call("POST", path, OFFER, by=rig.forwarder)
    submitted = ENTRY | {"index": "5001", "currencyIndex": 840}
    assert seen.json == {"bid": CARGO | {"refId": "FX000001", "offer": submitted}}
    rig.offer(rig.rival, offer="99.10", currencyIndex=None, currencyId="978", rates=[], terms=None)
    second = {"offerId": "5002", "offerAmount": 99.1, "currencyId": 978, "status": "pending"}
    listing = CARGO | {"offer": {"0": ENTRY | {"offerId": "5001", "currencyId": 840}, "1": second}}
    for address in ("GET quote/offer", OFFERS):
        assert rig.at(address, {}, by=rig.shipper).json == {"offers": {"0": listing}}
        assert rig.listed(address, {"index": 1}, by=rig.forwarder) == rig.listed(address, {}, by=rig.rival) == []
    bid = CARGO | {"refId": "FX000001", "price": 1840.5, "currencyIndex": 840}
    assert rig.call("GET", "quote/bid", by=rig.forwarder).json == {"bids": {"0": bid}}


@pytest.mark.parametrize("path", ["quote/approveoffer", "quote/offer"])
def test_approval_selects_and_exchanges_contacts(path: str) -> None:
    rig = rig_with()
    rig.offer()
    rig.offer(rig.rival)
    seen = rig.call("POST", path, {"offerIndex": 5001, "approved": 1}, by=rig.shipper)
    record, entry = CARGO | {"status": "Selected"}, ENTRY | {"status": "selected", "currencyId": 840}
    forwarder = contacts("Fergus Forward", "forwarder")
    assert seen.json == {"offers": {"0": record | {"offer": entry | {"offerIndex": "5001"} | forwarder}}}
    seen = rig.call("GET", "quote/offer", by=rig.shipper)
    assert seen.json == {"offers": {"0": record | {"offer": entry | {"offerId": "5001"}} | forwarder}}
    bid = {"refId": "FX000001", "price": 1840.5, "currencyIndex": 840}
    seen = rig.call("GET", "quote/bid", by=rig.forwarder)
    assert seen.json == {"bids": {"0": record | bid | contacts("Sylvia Ship", "shipper")}}
    assert rig.call("GET", "quote/bid", by=rig.rival).json == {"bids": {"0": CARGO | bid}}
    assert rig.listed(OPEN, by=rig.rival) == []
    refused = [rig.respond(5001), rig.respond(5002), rig.respond(5001, 0), rig.respond(1)]
    refused.append(rig.call("POST", "quote/submitoffer", OFFER, by=rig.rival))
    assert [reply.status for reply in refused] == [400] * 5


def test_decline_shares_no_contact_and_leaves_the_request_open() -> None:
    rig = rig_with()
    entry = ENTRY | {"offerIndex": "5001", "currencyId": 840, "status": "declined"}
    assert rig.respond(rig.offer(), 0).json == {"offers": {"0": CARGO | {"offer": entry}}}
    assert rig.listed(OPEN, by=rig.rival) == [1]
    assert b"loading" not in rig.call("GET", "quote/bid", by=rig.forwarder).reply.body
    assert rig.respond(5001).status == 400


def test_only_the_shipper_of_a_request_answers_its_offers() -> None:
    rig = rig_with()
    for other in (rig.forwarder, rig.rival):
        body = {"offerIndex": rig.offer(), "approved": 1}
        assert rig.call("POST", "quote/approveoffer", body, by=other).status == 400
    assert rig.call("POST", "quote/submitoffer", OFFER, by=rig.shipper).status == 400
    rig.exchange.withdraw(1, NOW)
    assert rig.respond(5001).status == rig.call("POST", "quote/bid", OFFER, by=rig.rival).status == 400
    assert rig.listed(SEARCH) == rig.listed("GET quote/offer", by=rig.shipper) == []


def test_listings_have_types() -> None:
    rig = rig_with(4)
    rig.offer(requestIndex=1)
    rig.respond(rig.offer(requestIndex=2))
    rig.respond(rig.offer(requestIndex=3), 0)
    rig.offer(requestIndex=4)
    rig.respond(rig.offer(rig.rival, requestIndex=4))
    rig.publish()
    expected = {
        SEARCH: {"all": [5, 4, 3, 2, 1], "accept": [4, 2], "pending": [5, 3, 1]},
        OFFERS: {"all": [5, 4, 3, 2, 1], "offers": [4, 3, 2, 1], "sel": [4, 2], "nsel": [5, 3, 1]},
        BIDS: {"offers": [4, 3, 2, 1], "active": [1], "sel": [2], "nsel": [4, 3]},
    }
    for address, kinds in expected.items():
        by = rig.shipper if address == OFFERS else rig.forwarder
        assert {kind: rig.listed(address, {"type": kind}, by=by) for kind in kinds} == kinds
        assert rig.at(address, {"type": "best"}, by=by).status == 400


def test_window_of_a_listing_is_an_hour_unless_asked() -> None:
    rig = ExchangeRig()
    for age in (100, 3600, 3601, 432000, 432001):
        rig.exchange.publish(rig.shipper, NOW - age)
    for address in (SEARCH, OPEN):
        assert rig.listed(address) == [1, 2]
        assert rig.listed(address, {"secondsSinceUpdate": "432000"}) == [1, 2, 3, 4]
        assert rig.listed(address, {"index": 5}) == [5]
        for seconds in (0, -1, 432001, "soon", 1.5, True):
            assert rig.at(address, {"secondsSinceUpdate": seconds}, by=rig.forwarder).status == 400
    rig.exchange.touch(4, NOW - 10)
    assert rig.listed(SEARCH) == [1, 2, 4]
    rig.exchange.update(4, NOW, Cargo(origin="Busan"))
    assert rig.at(SEARCH, {"index": 4}).json["raterequests"]["0"]["origin"] == "Busan"


def test_route_is_created_read_and_replaced() -> None:
    rig = ExchangeRig()
    assert rig.call("POST", "route", ROUTE, by=rig.forwarder).json == {"routes": {"0": ROUTE_RECORD}}
    changed = {"routes": {"0": ROUTE_RECORD | {"vesselName": "Anchor Patience", "carrier": 3}}}
    image = dict(ROUTE) | {"index": 304, "vessel": "Anchor Patience", "carrier": None, "carrierId": "3"}
    assert rig.call("PUT", "route", image, by=rig.forwarder).json == changed
    assert rig.call("GET", "route", {"index": 304}, by=rig.shipper).json == changed
    for index in (9, None):
        assert rig.call("PUT", "route", image | {"index": index}, by=rig.forwarder).status == 400


FILTERS = {
    301: {"origin": "Hong Kong", "voyageId": "041E", "departure": "2030-01-04 06:00:00"},
    302: {"destination": "Rotterdam", "vessel": "Anchor Fidelity", "arrival": "2030-02-06 08:00:00"},
    303: {"carrierId": "3", "timezone": "Europe/Berlin", "cycutoff": "2030-01-09 15:00:00"},
}
FILTERS[301]["cfscutoff"] = "2030-01-01 12:00:00"


@pytest.mark.parametrize(
    ("filters", "indexes"),
    [
        ({}, [303, 302, 301]),
        *(({name: value}, [index]) for index, fields in FILTERS.items() for name, value in fields.items()),
        ({"departStart": "2030-01-07 23:30:00"}, [303, 302]),
        ({"departEnd": "2030-01-07 23:30:00"}, [302, 301]),
        ({"arrivalStart": "2030-01-20 00:00:00", "arrivalEnd": "2030-01-21 07:00:00"}, [303]),
        ({"cyStart": "2030-01-06 00:00:00"}, [303]),
        ({"cfsEnd": "2030-01-04 18:00:00"}, [302, 301]),
        ({"origin": "Hong Kong", "carrierId": 2}, []),
        ({"offset": 1, "rowsperpage": 2}, [301]),
    ],
)
def test_routes_have_filters_in_body_and_query(filters: dict[str, Any], indexes: list[int]) -> None:
    rig = ExchangeRig()
    assert rig.listed("GET route", filters) == indexes
    in_query = rig.call("GET", "route", by=rig.forwarder, query={key: str(value) for key, value in filters.items()})
    assert in_query.reply == rig.call("GET", "route", filters, by=rig.forwarder).reply
    for name in filters.keys() - {"offset", "rowsperpage", *ROUTE}:
        assert rig.call("GET", "route", {name: "yesterday"}, by=rig.forwarder).status == 400


def test_reference_lists() -> None:
    rig = ExchangeRig()
    assert rig.listed("GET carrier") == [1, 2, 3, 7, 12]
    assert rig.listed("GET carrier", {"index": 8}) == []
    euro = {"index": 978, "name": "Euro", "code": "EUR"}
    assert rig.at("GET currency", {"index": "978"}).json == {"currencies": {"0": euro}}


# Validation

BAD: dict[str, list[dict[str, Any]]] = {
    "quote/submitrequest": [
        *({"commodityname": value} for value in ("", "   ", 12)),
        *({"requesttype": value} for value in ("shipping", "Rail")),
        *({"packaging": value} for value in ("Pallet", "drum")),
        *({"arrival": value} for value in ("2030-03-15", "2030-03-15T09:30:00", "2030-13-15 09:30:00", 1900000000)),
        *({"arrival": value} for value in ("0000-00-00 00:00:00", "2030-03-15 09:30:00Z")),
        *({"quantity": value} for value in (0, 1.5, True, "many")),
        *({"length": 0}, {"width": -1}, {"height": "tall"}, {"weight": True}, {"weight": "NaN"}),
        *({"incoterm": value} for value in ("fob", "FREE", "FOB\n")),
        *({"hazardous": 2}, {"hazardous": True}, {"notes": ["x"]}),
    ],
    "quote/submitoffer": [
        *({"requestIndex": value} for value in (-1, 1.0, "one", True, 10**30, 9, 5001)),
        *({"offer": value} for value in (0, -5, "1e3", 10**40, True)),
        *({"currencyIndex": "USD"}, {"currencyIndex": 77}, {"terms": 14}),
        *({"rates": value} for value in ({"": 5}, {"Fee": "five"}, {"Fee": None}, [5], "none")),
    ],
    "quote/approveoffer": [{"approved": 2}, {"approved": True}, {"offerIndex": "x"}],
    "route": [{"carrier": 99}, {"departure": "2030-04-04T06:00:00"}, {"arrival": "2030-02-30 06:00:00"}],
}
GOOD = {"quote/submitrequest": PUBLISH, "quote/submitoffer": OFFER, "route": ROUTE}
GOOD["quote/approveoffer"] = {"offerIndex": 5001, "approved": 1}
OPTIONAL = {"notes", "rates", "terms"}


@pytest.mark.parametrize("path", BAD)
def test_invalid_and_missing_fields_get_400_with_their_name(path: str) -> None:
    rig = rig_with()
    rig.offer()
    by = rig.shipper if path in ("quote/submitrequest", "quote/approveoffer") else rig.forwarder
    count = len(rig.exchange.audit_log.changes), len(rig.exchange.audit_log.offers), len(rig.exchange.routes)
    for changes in [*BAD[path], *({name: None} for name in GOOD[path].keys() - OPTIONAL)]:
        seen = rig.call("POST", path, {**GOOD[path], **changes}, by=by)
        assert seen.status == 400, changes
        assert next(iter(changes)) in seen.json["message"] or seen.json["message"].startswith("There is no such")
    assert count == (len(rig.exchange.audit_log.changes), len(rig.exchange.audit_log.offers), len(rig.exchange.routes))
    assert rig.call("POST", path, GOOD[path], by=by).status == 200


@pytest.mark.parametrize("body", [b"{", b"[]", b"4", b'{"index": NaN}', b"\xff", b"[" * 100_000, b'{"index": 1e999}'])
def test_body_that_is_no_object_gets_400(body: bytes) -> None:
    rig = ExchangeRig()
    token = rig.exchange.token(rig.forwarder, NOW)
    assert rig.send("POST", "quote/getrequests", body, token=token).status == 400


def test_body_without_json_content_type_gets_400() -> None:
    rig = ExchangeRig()
    token = rig.exchange.token(rig.forwarder, NOW)
    for content_type, status in {None: 400, "text/plain": 400, "Application/JSON; charset=utf-8": 200}.items():
        assert rig.send("POST", "quote/getrequests", b"{}", token=token, content_type=content_type).status == status
    assert rig.send("GET", "carrier", token=token, content_type=None).status == 200


_SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["1", "-1", "all", "sel"])
_VALUES = _SCALARS | st.lists(_SCALARS, max_size=2) | st.dictionaries(st.text(max_size=3), _SCALARS, max_size=2)
_NAMES = sorted({*OFFER, *PUBLISH, *ROUTE, "index", "offset", "rowsperpage", "secondsSinceUpdate", "type", "approved"})
_BODIES = st.builds(
    lambda good, changes: {**good, **changes},
    st.sampled_from([{}, *GOOD.values(), {"index": 301, **ROUTE}]),
    st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=4),
)
_QUIRKS = st.sampled_from([(knob.name, value) for knob in Profile.knobs() for value in knob.values])


@given(st.lists(st.tuples(st.sampled_from(sorted(OPERATIONS)), _BODIES), max_size=6), st.lists(_QUIRKS, max_size=4))
def test_any_calls_under_any_quirks_are_answered(calls: list[Any], quirks: list[tuple[str, Any]]) -> None:
    rig = ExchangeRig(attrs.evolve(Profile(), **dict(quirks)))
    rig.exchange.offer(rig.forwarder, rig.exchange.publish(rig.shipper, NOW), NOW)
    for (method, path), body in calls:
        seen = rig.call(method, path, body, by=rig.forwarder if "bid" in path or "submitoffer" in path else rig.shipper)
        assert seen.status in {200, 201, 202, 204, 400, 403, 404, 405, 416, 422, 500}
        assert rig.exchange.audit_log.calls[-1].processed == (seen.status < 300)


_JSON: st.SearchStrategy[Any] = st.recursive(
    _SCALARS | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(_JSON)
def test_numbers_keep_their_digits(value: Any) -> None:
    assert decode(encode(value)) == value
    assert encode([Raw("NaN"), Raw("1e999")]) == b"[NaN,1e999]"


# Pages


def test_offset_counts_pages_of_documented_sizes() -> None:
    rig = rig_with(25)
    assert rig.listed(SEARCH, {"offset": 1, "rowsperpage": 10}) == list(range(15, 5, -1))
    assert rig.listed(SEARCH, {"offset": "2", "rowsperpage": "10"}) == [5, 4, 3, 2, 1]
    assert rig.listed(SEARCH, {"offset": 3, "rowsperpage": 10}) == []
    assert [len(rig.listed(SEARCH)), len(rig.listed(OPEN)), len(rig.listed(OFFERS, {}, by=rig.shipper))] == [20, 10, 25]
    for body in ({"offset": 0}, {"rowsperpage": 5}, {"offset": -1, "rowsperpage": 5}, {"offset": 0, "rowsperpage": 0}):
        for address in (SEARCH, OPEN, OFFERS, BIDS, "GET quote/offer", "GET route"):
            by = rig.shipper if "offer" in address else rig.forwarder
            assert rig.at(address, body, by=by).status == 400


# Logins and the audit log


def test_login_returns_the_user_and_a_token_that_expires() -> None:
    rig = ExchangeRig()
    user = rig.login().json["user"]
    token = user["access_token"]
    assert (user["expires_on"], user["enabled"], user["lastlogin"]) == (3600, "TRUE", "2029-12-31 08:00:00")
    assert (user["company"]["name"], user["company"]["phone"]) == ("Forward & Co. Ltd", "+852 5550 0100")
    assert rig.login().json["user"]["lastlogin"] == "2030-03-17 17:46:40"
    rig.now += 3599
    assert rig.send("GET", "carrier", token=token).status == 200
    rig.now += 1
    assert rig.send("GET", "carrier", token=token).status == 401
    assert rig.login(password="wrong").json == {"message": "The user name or password is invalid."}
    logins = [(login.accepted, login.call) for login in rig.exchange.audit_log.logins]
    assert logins == [(True, 1), (True, 2), (False, 5)]
    assert rig.call("POST", "login", {"email": 4, "password": "x"}).status == 400
    assert ExchangeRig().login().json["user"]["access_token"] == token, "the seed is the same"


def test_calls_are_authorized_and_routed() -> None:
    rig = ExchangeRig()
    for token in (None, "", "nonsense"):
        for method, path in OPERATIONS:
            seen = rig.send(method, path, token=token)
            assert (seen.status, list(seen.json)) == (401, ["Unauthorized"])
    for method, path, status in (("GET", "nothing", 404), ("DELETE", "route", 405), ("POST", "carrier", 405)):
        assert rig.call(method, path, by=rig.shipper).status == status
    token = rig.exchange.token(rig.forwarder, NOW)
    rig.exchange.expire_tokens(rig.shipper)
    assert rig.send("GET", "carrier", token=token).status == 200
    rig.exchange.expire_tokens()
    assert rig.send("GET", "carrier", token=token).status == 401


def test_audit_log_has_calls_and_states() -> None:
    rig = rig_with()
    log = rig.exchange.audit_log
    rig.exchange.update(1, NOW + 10, Cargo(origin="Busan"))
    rig.exchange.touch(1, NOW + 20)
    rig.now += 30
    rig.respond(rig.offer())
    rig.exchange.withdraw(1, NOW + 40)
    rig.call("GET", "route", {"origin": "x"}, by=rig.rival, query={"offset": "0", "rowsperpage": "5"})
    rig.call("GET", "carrier")
    assert [(entry.request, entry.time, entry.call) for entry in log.publications] == [(1, NOW, 1)]
    whats = ["published", "updated", "touched", "selected", "withdrawn"]
    assert [(change.time - NOW, change.what) for change in log.changes] == [
        (10 * at, what) for at, what in enumerate(whats)
    ]
    (call,) = log.calls_to("GET", "route")
    assert call.parameters == {"offset": "0", "rowsperpage": "5", "origin": "x"}
    assert (call.number, call.time, call.account, call.processed) == (4, NOW + 30, "rival@demo.example", True)
    assert (log.calls[-1].account, log.calls[-1].status, log.calls[-1].processed) == (None, 401, False)


def test_audit_log_shows_offers_sent_twice_and_no_secrets() -> None:
    rig = rig_with(2)
    offers = [rig.offer(), rig.offer(), rig.offer(rig.rival), rig.exchange.offer(rig.rival, 2, NOW)]
    log = rig.exchange.audit_log
    assert [record.call for record in log.offers] == [3, 4, 5, None]
    assert [record.offer.index for record in log.offers_on(1)] == offers[:3]
    assert [record.offer.index for record in log.offers_on(1, "rival@demo.example")] == offers[2:3]
    assert [[record.offer.index for record in group] for group in log.duplicate_offers()] == [offers[:2]]
    rig.login("shipper", "canary")
    token = rig.login().json["user"]["access_token"]
    shown = repr([rig.exchange.tokens, log.calls]).replace(f"'{token}': ", "")
    assert "canary" not in shown
    assert token not in shown
    log.forget()
    rig.login()
    assert [call.number for call in log.calls] == [8]
    assert json.loads(log.calls[0].body)["email"] == "forwarder@demo.example"
