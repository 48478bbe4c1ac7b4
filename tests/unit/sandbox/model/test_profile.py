"""Tests of the quirks of a profile: each value changes the replies in a scene."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import pytest
from tests.unit.sandbox.rig import NOW, OFFER, PUBLISH, ROUTE, ExchangeRig, RigReply

from freight_sandbox import Knob, Profile, Reply

Scene = Callable[[ExchangeRig], list[RigReply]]


def scene(*steps: Callable[[ExchangeRig], RigReply | None]) -> Scene:
    """Register a scene of steps, whose replies are compared."""
    return lambda rig: [seen for seen in [step(rig) for step in steps] if seen is not None]


def does(action: Callable[[ExchangeRig], object]) -> Callable[[ExchangeRig], None]:
    def step(rig: ExchangeRig) -> None:
        action(rig)

    return step


def requests(count: int) -> Callable[[ExchangeRig], None]:
    def step(rig: ExchangeRig) -> None:
        for number in range(count):
            rig.exchange.publish(rig.shipper, NOW - count + number)

    return step


def search(**body: object) -> Callable[[ExchangeRig], RigReply]:
    return lambda rig: rig.call("POST", "quote/getrequests", body, by=rig.forwarder)


def submit(**changes: object) -> Callable[[ExchangeRig], RigReply]:
    def step(rig: ExchangeRig) -> RigReply:
        body = {key: value for key, value in {**OFFER, **changes}.items() if value is not None}
        return rig.call("POST", "quote/submitoffer", body, by=rig.forwarder)

    return step


def approve(offer: int = 5001) -> Callable[[ExchangeRig], RigReply]:
    return lambda rig: rig.respond(offer)


def route(**changes: object) -> Callable[[ExchangeRig], RigReply]:
    def step(rig: ExchangeRig) -> RigReply:
        body = {key: value for key, value in {**ROUTE, **changes}.items() if value is not None}
        return rig.call("POST", "route", body, by=rig.forwarder)

    return step


def published(rig: ExchangeRig) -> RigReply:
    return rig.call("POST", "quote/submitrequest", PUBLISH, by=rig.shipper)


def offers(rig: ExchangeRig) -> RigReply:
    return rig.call("GET", "quote/offer", by=rig.shipper)


def bids(rig: ExchangeRig) -> RigReply:
    return rig.call("GET", "quote/bid", by=rig.forwarder)


def one_bid(rig: ExchangeRig) -> RigReply:
    return rig.call("GET", "quote/bid", {"offset": 0, "rowsperpage": 1}, by=rig.forwarder)


def currencies(rig: ExchangeRig) -> RigReply:
    return rig.call("GET", "currency", by=rig.forwarder)


def routes(rig: ExchangeRig) -> RigReply:
    return rig.call("GET", "route", by=rig.shipper)


def login(rig: ExchangeRig) -> RigReply:
    return rig.login()


def failed_login(rig: ExchangeRig) -> RigReply:
    return rig.login(password="wrong")


def no_token(rig: ExchangeRig) -> RigReply:
    return rig.call("GET", "carrier")


def carrier(**body: object) -> Callable[[ExchangeRig], RigReply]:
    return lambda rig: rig.call("GET", "carrier", body, by=rig.forwarder)


def without_content_type(rig: ExchangeRig) -> RigReply:
    token = rig.exchange.token(rig.forwarder, NOW)
    return rig.send("POST", "quote/getrequests", b"{}", token=token, content_type=None)


def forwarder_publishes(rig: ExchangeRig) -> RigReply:
    return rig.call("POST", "quote/submitrequest", PUBLISH, by=rig.forwarder)


def old_lookup(**body: object) -> Scene:
    old = does(lambda rig: rig.exchange.publish(rig.shipper, NOW - 9000))
    return scene(old, search(index=1), search(index=1, secondsSinceUpdate=60))


def two_logins(rig: ExchangeRig) -> list[RigReply]:
    first, second = rig.login(), rig.login()
    token = first.json["user"]["access_token"]
    return [first, second, rig.send("GET", "carrier", token=token)]


ONE = requests(1)
BACKDATED = does(lambda rig: rig.exchange.publish(rig.shipper, NOW - 600))
OFFERED = does(lambda rig: rig.offer())
RIVALLED = does(lambda rig: rig.offer(rig.rival))
APPROVED = does(lambda rig: rig.respond(5001))
DECLINED = does(lambda rig: rig.respond(5001, 0))

SCENES: Mapping[str, Scene] = {
    "collection_shape": scene(requests(4), search()),
    "empty_collection": scene(search()),
    "empty_offer": scene(ONE, offers),
    "empty_map": scene(ONE, submit(rates=None)),
    "offer_shape": scene(ONE, OFFERED, offers),
    "selected_offer_shape": scene(ONE, OFFERED, RIVALLED, APPROVED, offers),
    "offer_id_key": scene(ONE, OFFERED, offers),
    "approval_offer_id_key": scene(ONE, OFFERED, approve()),
    "submit_offer_id_key": scene(ONE, submit()),
    "offer_id_type": scene(ONE, submit()),
    "offer_currency_key": scene(ONE, OFFERED, offers),
    "submit_currency_key": scene(ONE, submit()),
    "bid_currency_key": scene(ONE, OFFERED, bids),
    "bid_offer": scene(ONE, OFFERED, bids),
    "approval_contacts": scene(ONE, OFFERED, approve()),
    "listing_contacts": scene(ONE, OFFERED, APPROVED, offers),
    "bid_contacts": scene(ONE, OFFERED, APPROVED, bids),
    "pending_contacts": scene(ONE, OFFERED, bids),
    "carrier_key": scene(routes),
    "vessel_key": scene(routes),
    "route_time_keys": scene(routes),
    "route_write": scene(route()),
    "route_text_match": scene(lambda rig: rig.call("GET", "route", {"origin": "hong"}, by=rig.shipper)),
    "number_form": scene(published),
    "hazardous_form": scene(published),
    "enabled_form": scene(login),
    "company_index": scene(login),
    "word_case": scene(published),
    "unknown_words": scene(published),
    "date_form": scene(published),
    "extra_keys": scene(published),
    "optional_fields": scene(published),
    "poison": scene(requests(3), search()),
    "bom": scene(carrier()),
    "content_type": scene(carrier()),
    "published_dimensions": scene(published),
    "published_date": scene(published),
    "published_weight": scene(published),
    "published_notes": scene(published),
    "rates_sum": scene(ONE, submit()),
    "amount_rounding": scene(ONE, submit(offer=1840.567)),
    "order": scene(requests(6), BACKDATED, does(lambda rig: rig.exchange.touch(3, NOW)), search()),
    "rows_clamp": scene(requests(12), search(offset=0, rowsperpage=12)),
    "clamp_stride": scene(requests(12), search(offset=1, rowsperpage=5)),
    "clamp_change": scene(requests(25), *(search(offset=0, rowsperpage=25) for _ in range(4))),
    "rows_limit": scene(requests(3), search(offset=0, rowsperpage=21)),
    "over_limit": scene(requests(3), search(offset=0, rowsperpage=21)),
    "rights": scene(ONE, OFFERED, RIVALLED, one_bid),
    "hidden": scene(requests(12), search(), search(index=3), search(index=10)),
    "reference_rows": scene(currencies),
    "default_rows": scene(requests(3), offers),
    "offset_ignored": scene(requests(3), search(offset=1, rowsperpage=2)),
    "lone_offset": scene(ONE, search(rowsperpage=2)),
    "past_end": scene(requests(3), search(offset=9, rowsperpage=2)),
    "nothing_found": scene(search()),
    "lookup_missing": scene(search(index=9)),
    "late_visibility": scene(published, search()),
    "since_lookup": old_lookup(),
    "since_out_of_range": scene(ONE, search(secondsSinceUpdate=432001)),
    "search_default": scene(ONE, OFFERED, APPROVED, search()),
    "pending_means": scene(ONE, OFFERED, search(type="pending")),
    "bid_default": scene(ONE, OFFERED, DECLINED, bids),
    "get_body": scene(carrier(index=7)),
    "index_type": scene(carrier(index=7), carrier(index="7")),
    "currency_field": scene(ONE, submit(), submit(currencyIndex=None, currencyId=840)),
    "carrier_field": scene(route(), route(carrier=None, carrierId=1)),
    "content_type_check": scene(without_content_type),
    "roles": scene(forwarder_publishes),
    "selected_status": scene(ONE, OFFERED, approve()),
    "decline_outcome": scene(ONE, OFFERED, lambda rig: rig.respond(5001, 0)),
    "decline_reply": scene(ONE, OFFERED, lambda rig: rig.respond(5001, 0)),
    "second_approval": scene(ONE, OFFERED, RIVALLED, APPROVED, approve(5001), approve(5002)),
    "second_offer": scene(ONE, OFFERED, submit(), bids),
    "late_offer": scene(ONE, RIVALLED, APPROVED, submit()),
    "failed_login_status": scene(failed_login),
    "failed_login_key": scene(failed_login),
    "unauthorized_status": scene(no_token),
    "unauthorized_key": scene(login, carrier(), published),
    "bad_request_body": scene(carrier(index="x")),
    "unknown_id_status": scene(submit(requestIndex=99)),
    "write_status": scene(published),
    "expires_key": scene(login),
    "expires_form": scene(login),
    "token_lifetime": scene(login),
    "token_form": scene(login),
    "tokens": two_logins,
    "latency": scene(carrier()),
}
# Profiles without which a quirk has no effect.
BESIDE: Mapping[str, Profile] = {"clamp_stride": Profile(rows_clamp=3), "over_limit": Profile(rows_limit=20)}


def test_every_quirk_has_a_scene_other_values_and_a_meaning() -> None:
    assert set(SCENES) == {knob.name for knob in Profile.knobs()} == {field.name for field in attrs.fields(Profile)}
    for knob in Profile.knobs():
        assert knob.values, knob.name
        assert knob.default not in knob.values, knob.name
        assert knob.meaning, knob.name


@pytest.mark.parametrize("knob", Profile.knobs(), ids=lambda knob: knob.name)
def test_every_value_of_a_quirk_gives_other_replies(knob: Knob) -> None:
    plain = BESIDE.get(knob.name, Profile())

    def replies(profile: Profile) -> list[Reply]:
        return [seen.reply for seen in SCENES[knob.name](ExchangeRig(profile))]

    found = [replies(plain), *(replies(attrs.evolve(plain, **{knob.name: value})) for value in knob.values)]
    assert all(found[i] != found[j] for i in range(len(found)) for j in range(i))
    assert found[0] == replies(plain)


def test_unknown_value_of_a_quirk_is_refused() -> None:
    with pytest.raises(ValueError, match="order"):
        Profile(order="alphabetical")  # type: ignore[arg-type]  # the mistake under test


def test_profile_can_be_replaced_at_run_time() -> None:
    rig = ExchangeRig()
    assert rig.call("GET", "quote/request", by=rig.forwarder).reply.body == b'{"raterequests":{}}'
    rig.exchange.profile = Profile(empty_collection="list")
    assert rig.call("GET", "quote/request", by=rig.forwarder).reply.body == b'{"raterequests":[]}'


@pytest.mark.parametrize(
    ("value", "body"),
    [
        ("object", b'{"raterequests":{}}'),
        ("list", b'{"raterequests":[]}'),
        ("null", b'{"raterequests":null}'),
        ("bare_object", b"{}"),
        ("bare_list", b"[]"),
        ("bare_null", b"null"),
    ],
)
def test_empty_collection_has_the_form_of_the_profile(value: str, body: bytes) -> None:
    rig = ExchangeRig(Profile(empty_collection=value))  # type: ignore[arg-type]  # parametrised words
    assert rig.call("GET", "quote/request", by=rig.forwarder).reply.body == body


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", b'"qty":4,"packaging":"Pallet","measureUnit":"m","width":1,"height":0.75'),
        ("string", b'"qty":"4","packaging":"Pallet","measureUnit":"m","width":"1","height":"0.75"'),
        ("padded", b'"qty":4.00,"packaging":"Pallet","measureUnit":"m","width":1.00,"height":0.75'),
        ("exponent", b'"qty":4E+0,"packaging":"Pallet","measureUnit":"m","width":1E+0,"height":7.5E-1'),
    ],
)
def test_numbers_have_the_form_of_the_profile(value: str, text: bytes) -> None:
    rig = ExchangeRig(Profile(number_form=value))  # type: ignore[arg-type]  # parametrised words
    assert text in published(rig).reply.body


def test_collections_have_the_shape_of_the_profile() -> None:
    seen = {}
    for value in ("gaps", "shuffled", "list"):
        rig = ExchangeRig(Profile(collection_shape=value))
        requests(3)(rig)
        seen[value] = search()(rig).json["raterequests"]
    assert list(seen["gaps"]) == ["2", "5", "8"]
    assert list(seen["shuffled"]) == ["1", "2", "0"]
    assert [seen["shuffled"][key]["index"] for key in ("0", "1", "2")] == [3, 2, 1]
    assert [record["index"] for record in seen["list"]] == [3, 2, 1]
