"""Bodies that a real server refuses with 400 (service document, 4 and 7)."""

from __future__ import annotations

import pytest
from tests.unit.sandbox.rig import OFFER, PUBLISH, ExchangeRig

from freight_sandbox import Profile

BAD_REQUESTS: list[dict[str, object]] = [
    {"commodityname": ""},
    {"commodityname": "   "},
    {"commodityname": 12},
    {"requesttype": "shipping"},
    {"requesttype": "Rail"},
    {"packaging": "Pallet"},
    {"packaging": "drum"},
    {"arrival": "2030-03-15"},
    {"arrival": "2030-03-15T09:30:00"},
    {"arrival": "2030-03-15 09:30:00Z"},
    {"arrival": "2030-13-15 09:30:00"},
    {"arrival": "0000-00-00 00:00:00"},
    {"arrival": 1900000000},
    {"quantity": 0},
    {"quantity": 1.5},
    {"quantity": True},
    {"quantity": "many"},
    {"length": 0},
    {"width": -1},
    {"height": "tall"},
    {"weight": True},
    {"weight": "NaN"},
    {"incoterm": "fob"},
    {"incoterm": "FREE"},
    {"incoterm": "FOB\n"},
    {"hazardous": 2},
    {"hazardous": True},
    {"notes": ["x"]},
]


@pytest.mark.parametrize("changes", BAD_REQUESTS)
def test_invalid_request_gets_400_with_its_field(changes: dict[str, object]) -> None:
    rig = ExchangeRig()
    seen = rig.call("POST", "quote/submitrequest", {**PUBLISH, **changes}, by=rig.shipper)
    assert seen.status == 400
    assert next(iter(changes)) in seen.json["message"]
    assert rig.exchange.audit_log.publications == []


@pytest.mark.parametrize("field", sorted(set(PUBLISH) - {"notes"}))
def test_missing_request_field_gets_400(field: str) -> None:
    rig = ExchangeRig()
    for body in ({**PUBLISH, field: None}, {key: value for key, value in PUBLISH.items() if key != field}):
        assert rig.call("POST", "quote/request", body, by=rig.shipper).status == 400


@pytest.mark.parametrize(
    "changes",
    [
        {"requestIndex": None},
        {"requestIndex": -1},
        {"requestIndex": 1.0},
        {"requestIndex": "one"},
        {"requestIndex": True},
        {"requestIndex": 10**30},
        {"offer": 0},
        {"offer": -5},
        {"offer": "1e3"},
        {"offer": 10**40},
        {"offer": True},
        {"offer": None},
        {"currencyIndex": None},
        {"currencyIndex": "USD"},
        {"rates": {"": 5}},
        {"rates": {"Fee": "five"}},
        {"rates": {"Fee": None}},
        {"rates": [5]},
        {"rates": "none"},
        {"terms": 14},
    ],
)
def test_invalid_offer_gets_400(changes: dict[str, object]) -> None:
    rig = ExchangeRig()
    rig.publish()
    assert rig.call("POST", "quote/submitoffer", {**OFFER, **changes}, by=rig.forwarder).status == 400
    assert rig.exchange.audit_log.offers == []


def test_empty_list_means_no_rates() -> None:
    rig = ExchangeRig()
    rig.publish()
    assert "rates" not in rig.call("POST", "quote/bid", {**OFFER, "rates": []}, by=rig.forwarder).json["bid"]["offer"]


@pytest.mark.parametrize("changes", [{"approved": 2}, {"approved": None}, {"approved": True}, {"offerIndex": None}])
def test_invalid_answer_to_an_offer_gets_400(changes: dict[str, object]) -> None:
    rig = ExchangeRig()
    rig.publish()
    body: dict[str, object] = {"offerIndex": rig.offer(), "approved": 1}
    assert rig.call("POST", "quote/approveoffer", {**body, **changes}, by=rig.shipper).status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"4",
        b"null",
        b'{"index": NaN}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"index": ' + b"9" * 5000 + b"}",
        b'{"index": 1e999}',
    ],
)
def test_body_that_is_no_object_gets_400(body: bytes) -> None:
    rig = ExchangeRig()
    token = rig.exchange.token(rig.forwarder, rig.now)
    assert rig.send("POST", "quote/getrequests", body, token=token).status == 400


def test_body_without_json_content_type_gets_400() -> None:
    rig = ExchangeRig()
    token = rig.exchange.token(rig.forwarder, rig.now)
    for content_type, status in [(None, 400), ("text/plain", 400), ("Application/JSON; charset=utf-8", 200)]:
        seen = rig.send("POST", "quote/getrequests", b"{}", token=token, content_type=content_type)
        assert seen.status == status
    assert rig.send("GET", "carrier", token=token, content_type=None).status == 200


@pytest.mark.parametrize(
    ("value", "body"),
    [
        ("message", b'{"message":"The field index must be an integer."}'),
        ("error", b'{"error":"The field index must be an integer."}'),
        ("errors", b'{"errors":{"index":["The field index must be an integer."]}}'),
        ("text", b"The field index must be an integer."),
        ("empty", b""),
    ],
)
def test_bad_request_body_follows_the_profile(value: str, body: bytes) -> None:
    rig = ExchangeRig(Profile(bad_request_body=value))  # type: ignore[arg-type]  # parametrised words
    seen = rig.call("GET", "carrier", {"index": "x"}, by=rig.forwarder)
    assert (seen.status, seen.reply.body) == (400, body)
