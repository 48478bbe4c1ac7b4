"""Quirks of a profile: each value of each changes the replies of a tour, and some rules behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pytest
from tests.sandbox.rig import NOW, OFFER, PUBLISH, ROUTE, ExchangeRig, RigReply

from freight_sandbox import Knob, Profile


def tour(rig: ExchangeRig) -> Iterator[RigReply]:
    """Yield the replies to a sequence of calls in which every value of every quirk shows."""

    def ask(address: str, body: Mapping[str, Any] | None = None, **changes: object) -> RigReply:
        by = rig.shipper if address in (PUBLISHED, OFFERS) else rig.forwarder
        sent = {key: value for key, value in {**(body or {}), **changes}.items() if value is not None}
        return rig.at(address, sent or None, by=by)

    for address in (SEARCH, OFFERS, "GET carrier", "GET currency", "GET route"):
        yield ask(address)
    publish(rig, 14)
    rig.exchange.publish(rig.shipper, NOW - 9000)
    rig.exchange.touch(5, NOW)
    yield ask(PUBLISHED, PUBLISH)
    yield rig.at(PUBLISHED, PUBLISH)
    searches: list[Any] = [{}, {"secondsSinceUpdate": 9999}, {"secondsSinceUpdate": 432001}]
    searches += [{"index": index} for index in (15, 3, 10, 99)] + [{"index": 15, "secondsSinceUpdate": 60}]
    searches += [{"offset": at, "rowsperpage": size} for at, size in ((0, 12), (1, 5), (9, 9), *[(0, 25)] * 4)]
    for body in [*searches, {"rowsperpage": 2}]:
        yield ask(SEARCH, body)
    for changes in ({}, {"requestIndex": 99}, {"rates": None}, {"currencyIndex": None, "currencyId": 840}):
        yield ask("POST quote/submitoffer", OFFER, **changes)
    yield ask("POST quote/submitoffer", OFFER, offer=1840.567, requestIndex=2)
    rig.exchange.offer(rig.rival, 1, NOW)
    yield ask(SEARCH, type="pending")
    yield from (ask("GET quote/bid"), ask("GET quote/bid", offset=0, rowsperpage=1), ask(OFFERS))
    offer = rig.exchange.offer(rig.forwarder, 6, NOW)
    yield from (rig.respond(offer, 0), ask("GET quote/bid"), ask(OFFERS))
    chosen, other = (rig.exchange.offer(by, 7, NOW) for by in (rig.forwarder, rig.rival))
    yield from (rig.respond(chosen), ask("GET quote/bid"), ask(OFFERS), ask(SEARCH))
    yield from (rig.respond(chosen), rig.respond(other), ask("POST quote/submitoffer", OFFER, requestIndex=7))
    for field in ("carrier", "carrierId"):
        yield ask("POST route", {**ROUTE, "carrier": None, field: 1})
    yield from (ask("GET route", origin="hong"), ask("GET carrier", index=7), ask("GET carrier", index="7"))
    yield from (ask("GET carrier", index="x"), rig.call("GET", "carrier"), rig.login(password="wrong"), rig.login())
    token = rig.login().json.get("user", {}).get("access_token")
    yield rig.login()
    yield rig.send("POST", "quote/getrequests", b"{}", token=token, content_type=None)


SEARCH, OFFERS, PUBLISHED = "POST quote/getrequests", "GET quote/offer", "POST quote/submitrequest"
BESIDE: Mapping[str, Profile] = {"clamp_stride": Profile(rows_clamp=3), "over_limit": Profile(rows_limit=20)}
"""Profiles without which a quirk has no effect."""


def publish(rig: ExchangeRig, count: int) -> None:
    for number in range(count):
        rig.exchange.publish(rig.shipper, NOW - count + number)


@pytest.mark.parametrize("knob", Profile.knobs(), ids=lambda knob: knob.name)
def test_every_value_of_a_quirk_gives_other_replies(knob: Knob) -> None:
    plain = BESIDE.get(knob.name, Profile())
    values = (knob.default, *knob.values)
    found = [list(tour(ExchangeRig(attrs.evolve(plain, **{knob.name: value})))) for value in values]
    assert all(found[at] != other for at in range(len(found)) for other in found[:at])
    assert len(found) > 1
    assert found[0] == list(tour(ExchangeRig(plain)))
    assert knob.meaning


def test_profile_is_checked_and_can_be_replaced() -> None:
    with pytest.raises(ValueError, match="order"):
        Profile(order="alphabetical")  # type: ignore[arg-type]  # the mistake under test
    rig = ExchangeRig()
    bodies: dict[Any, bytes] = {"object": b'{"raterequests":{}}', "list": b'{"raterequests":[]}', "bare_null": b"null"}
    for value, body in bodies.items():
        rig.exchange.profile = Profile(empty_collection=value)
        assert rig.at(SEARCH).reply.body == body
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
    publish(rig, 6)
    rig.exchange.touch(2, NOW)
    assert [rig.listed("POST quote/getrequests", {"offset": at, "rowsperpage": 3}) for at in range(4)] == pages


@pytest.mark.parametrize(("form", "shown"), [("int", "0"), ("string", "0"), ("bool", False)])
def test_quirks_of_one_field_agree(form: Any, shown: object) -> None:
    """A number that another quirk has made a text is no true."""
    rig = ExchangeRig(Profile(number_form="string", hazardous_form=form))
    publish(rig, 1)
    assert rig.at(SEARCH).json["raterequests"]["0"]["hazardous"] == shown


def test_only_a_404_says_that_nothing_was_found() -> None:
    """A client must not read the end of a listing in the words of another refusal."""
    for status in ("400", "404"):
        rig = ExchangeRig(Profile(past_end=status, lookup_missing=status))
        rig.publish()
        replies = [rig.at(SEARCH, body).json["message"] for body in ({"offset": 9, "rowsperpage": 9}, {"index": 99})]
        assert ["No records" in message for message in replies] == [status == "404"] * 2


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
    publish(rig, 9)
    first, again = (rig.listed("GET quote/request") for _ in range(2))
    rig.exchange.reorder()
    assert first == again != rig.listed("GET quote/request") == rig.listed("GET quote/request")
    assert sorted(first) == list(range(1, 10))
