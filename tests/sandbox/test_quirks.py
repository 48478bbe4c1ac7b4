"""Quirks of a profile: each value of each changes the replies of a scene, and some rules behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
from tests.sandbox.rig import NOW, OFFER, PUBLISH, ROUTE, ExchangeRig, RigReply

from freight_sandbox import Knob, Profile

Step = Callable[[ExchangeRig], object]
Scene = Callable[[ExchangeRig], list[RigReply]]


def scene(*steps: Step) -> Scene:
    """Make a scene of steps, whose replies are compared."""
    return lambda rig: [seen for seen in [step(rig) for step in steps] if isinstance(seen, RigReply)]


def requests(count: int) -> Step:
    return lambda rig: [rig.exchange.publish(rig.shipper, NOW - count + number) for number in range(count)]


def post(path: str, good: Mapping[str, Any], by: str = "forwarder") -> Callable[..., Callable[[ExchangeRig], RigReply]]:
    def with_changes(**changes: object) -> Callable[[ExchangeRig], RigReply]:
        body = {key: value for key, value in {**good, **changes}.items() if value is not None}
        return lambda rig: rig.call("POST", path, body, by=getattr(rig, by))

    return with_changes


def get(path: str, by: str = "forwarder", **body: object) -> Callable[[ExchangeRig], RigReply]:
    return lambda rig: rig.call("GET", path, body or None, by=getattr(rig, by))


def respond(offer: int = 5001, approved: int = 1) -> Callable[[ExchangeRig], RigReply]:
    return lambda rig: rig.respond(offer, approved)


def after_two_logins(rig: ExchangeRig) -> RigReply:
    first = rig.login().json["user"]["access_token"]
    rig.login()
    return rig.send("GET", "carrier", token=first)


def without_content_type(rig: ExchangeRig) -> RigReply:
    token = rig.exchange.token(rig.forwarder, NOW)
    return rig.send("POST", "quote/getrequests", b"{}", token=token, content_type=None)


search, submit, route = post("quote/getrequests", {}), post("quote/submitoffer", OFFER), post("route", ROUTE)
published, wrong_side = (post("quote/submitrequest", PUBLISH, by)() for by in ("shipper", "forwarder"))
offers, bids, routes, carriers = get("quote/offer", "shipper"), get("quote/bid"), get("route"), get("carrier")
login, failed_login = ExchangeRig.login, lambda rig: rig.login(password="wrong")
old: Step = lambda rig: rig.exchange.publish(rig.shipper, NOW - 9000)  # noqa: E731
ONE: Step = requests(1)
OFFERED: Step = lambda rig: rig.offer()  # noqa: E731
RIVALLED: Step = lambda rig: rig.offer(rig.rival)  # noqa: E731
APPROVED: Step = lambda rig: [rig.respond(5001)]  # noqa: E731
DECLINED: Step = lambda rig: [rig.respond(5001, 0)]  # noqa: E731

SCENES: Mapping[str, Scene] = {
    "collection_shape": scene(requests(4), search()),
    "empty_collection": scene(search()),
    "empty_offer": scene(ONE, offers),
    "empty_map": scene(ONE, submit(rates=None)),
    "offer_shape": scene(ONE, OFFERED, offers),
    "selected_offer_shape": scene(ONE, OFFERED, RIVALLED, APPROVED, offers),
    "offer_id_key": scene(ONE, OFFERED, offers),
    "approval_offer_id_key": scene(ONE, OFFERED, respond()),
    "submit_offer_id_key": scene(ONE, submit()),
    "offer_id_type": scene(ONE, submit()),
    "offer_currency_key": scene(ONE, OFFERED, offers),
    "submit_currency_key": scene(ONE, submit()),
    "bid_currency_key": scene(ONE, OFFERED, bids),
    "bid_offer": scene(ONE, OFFERED, bids),
    "approval_contacts": scene(ONE, OFFERED, respond()),
    "listing_contacts": scene(ONE, OFFERED, APPROVED, offers),
    "bid_contacts": scene(ONE, OFFERED, APPROVED, bids),
    "pending_contacts": scene(ONE, OFFERED, bids),
    **dict.fromkeys(("carrier_key", "vessel_key", "route_time_keys"), scene(routes)),
    "route_write": scene(route()),
    "route_text_match": scene(get("route", origin="hong")),
    "enabled_form": scene(login),
    "company_index": scene(login),
    **dict.fromkeys(("number_form", "hazardous_form", "word_case", "unknown_words", "date_form"), scene(published)),
    **dict.fromkeys(("extra_keys", "optional_fields", "write_status"), scene(published)),
    "poison": scene(requests(3), search()),
    **dict.fromkeys(("bom", "content_type", "latency"), scene(carriers)),
    **{f"published_{what}": scene(published) for what in ("dimensions", "date", "weight", "notes")},
    "rates_sum": scene(ONE, submit()),
    "amount_rounding": scene(ONE, submit(offer=1840.567)),
    "order": scene(requests(6), old, lambda rig: rig.exchange.touch(1, NOW), search(secondsSinceUpdate=9999)),
    "rows_clamp": scene(requests(12), search(offset=0, rowsperpage=12)),
    "clamp_stride": scene(requests(12), search(offset=1, rowsperpage=5)),
    "clamp_change": scene(requests(25), *[search(offset=0, rowsperpage=25)] * 4),
    **dict.fromkeys(("rows_limit", "over_limit"), scene(requests(3), search(offset=0, rowsperpage=21))),
    "rights": scene(ONE, OFFERED, RIVALLED, get("quote/bid", offset=0, rowsperpage=1)),
    "hidden": scene(requests(12), search(), search(index=3), search(index=10)),
    "reference_rows": scene(get("currency")),
    "default_rows": scene(requests(3), offers),
    "offset_ignored": scene(requests(3), search(offset=1, rowsperpage=2)),
    "lone_offset": scene(ONE, search(rowsperpage=2)),
    "past_end": scene(requests(3), search(offset=9, rowsperpage=2)),
    "nothing_found": scene(search()),
    "lookup_missing": scene(search(index=9)),
    "late_visibility": scene(published, search()),
    "since_lookup": scene(old, search(index=1), search(index=1, secondsSinceUpdate=60)),
    "since_out_of_range": scene(ONE, search(secondsSinceUpdate=432001)),
    "search_default": scene(ONE, OFFERED, APPROVED, search()),
    "pending_means": scene(ONE, OFFERED, search(type="pending")),
    "bid_default": scene(ONE, OFFERED, DECLINED, bids),
    "get_body": scene(get("carrier", index=7)),
    "index_type": scene(get("carrier", index=7), get("carrier", index="7")),
    "currency_field": scene(ONE, submit(), submit(currencyIndex=None, currencyId=840)),
    "carrier_field": scene(route(), route(carrier=None, carrierId=1)),
    "content_type_check": scene(without_content_type),
    "roles": scene(wrong_side),
    "selected_status": scene(ONE, OFFERED, respond()),
    **dict.fromkeys(("decline_outcome", "decline_reply"), scene(ONE, OFFERED, respond(approved=0))),
    "second_approval": scene(ONE, OFFERED, RIVALLED, APPROVED, respond(5001), respond(5002)),
    "second_offer": scene(ONE, OFFERED, submit(), bids),
    "late_offer": scene(ONE, RIVALLED, APPROVED, submit()),
    **dict.fromkeys(("failed_login_status", "failed_login_key"), scene(failed_login)),
    "unauthorized_status": scene(lambda rig: rig.call("GET", "carrier")),
    "unauthorized_key": scene(login, carriers, published),
    "bad_request_body": scene(get("carrier", index="x")),
    "unknown_id_status": scene(submit(requestIndex=99)),
    **dict.fromkeys(("expires_key", "expires_form", "token_lifetime", "token_form"), scene(login)),
    "tokens": scene(login, login, after_two_logins),
}
BESIDE: Mapping[str, Profile] = {"clamp_stride": Profile(rows_clamp=3), "over_limit": Profile(rows_limit=20)}
"""Profiles without which a quirk has no effect."""


@pytest.mark.parametrize("knob", Profile.knobs(), ids=lambda knob: knob.name)
def test_every_value_of_a_quirk_gives_other_replies(knob: Knob) -> None:
    plain = BESIDE.get(knob.name, Profile())
    values = (knob.default, *knob.values)
    found = [SCENES[knob.name](ExchangeRig(attrs.evolve(plain, **{knob.name: value}))) for value in values]
    assert all(found[at] != other for at in range(len(found)) for other in found[:at])
    assert len(found) > 1
    assert found[0] == SCENES[knob.name](ExchangeRig(plain))
    assert knob.meaning


def test_profile_is_checked_and_can_be_replaced() -> None:
    with pytest.raises(ValueError, match="order"):
        Profile(order="alphabetical")  # type: ignore[arg-type]  # the mistake under test
    rig = ExchangeRig()
    bodies: dict[Any, bytes] = {"object": b'{"raterequests":{}}', "list": b'{"raterequests":[]}', "bare_null": b"null"}
    for value, body in bodies.items():
        rig.exchange.profile = Profile(empty_collection=value)
        assert search()(rig).reply.body == body
    assert rig.exchange.profile.changes() == {"empty_collection": "bare_null"}


@pytest.mark.parametrize(
    ("profile", "pages"),
    [
        (Profile(rows_clamp=2), [[6, 5], [4, 3], [2, 1], []]),
        (Profile(rows_clamp=2, clamp_stride="asked"), [[6, 5], [3, 2], [], []]),
        (Profile(past_end="last_page"), [[6, 5, 4], [3, 2, 1], [3, 2, 1], [3, 2, 1]]),
        (Profile(offset_ignored=True), [[6, 5, 4]] * 4),
        (Profile(order="oldest"), [[1, 2, 3], [4, 5, 6], [], []]),
        (Profile(order="updated"), [[2, 6, 5], [4, 3, 1], [], []]),
        (Profile(hidden="rows"), [[5, 4, 2], [1], [], []]),
        (Profile(hidden="rows", rights="after_paging"), [[5, 4], [2, 1], [], []]),
        (Profile(clamp_change="lowered", rows_clamp=1), [[6, 5, 4], [3, 2, 1], [], [3]]),
        (Profile(clamp_change="raised", rows_clamp=1), [[6], [5], [4], []]),
        (Profile(clamp_change="alternating", rows_clamp=1), [[6, 5, 4], [5], [], [3]]),
    ],
)
def test_pages(profile: Profile, pages: list[list[int]]) -> None:
    rig = ExchangeRig(profile)
    requests(6)(rig)
    rig.exchange.touch(2, NOW)
    assert [rig.listed("POST quote/getrequests", {"offset": at, "rowsperpage": 3}) for at in range(4)] == pages


def test_late_visibility_shows_writes_later() -> None:
    rig = ExchangeRig(Profile(late_visibility=5.0))
    rig.publish()
    rig.offer()
    rig.now += 4.9
    assert rig.listed("GET quote/request") == rig.listed("GET quote/bid") == []
    assert rig.listed("GET quote/request", {"index": 1}) == []
    rig.now += 0.1
    assert rig.listed("GET quote/request") == rig.listed("GET quote/bid") == [1]


def test_random_order_stays_until_it_changes() -> None:
    rig = ExchangeRig(Profile(order="random"))
    requests(9)(rig)
    first, again = (rig.listed("GET quote/request") for _ in range(2))
    rig.exchange.reorder()
    assert first == again != rig.listed("GET quote/request") == rig.listed("GET quote/request")
    assert sorted(first) == list(range(1, 10))
