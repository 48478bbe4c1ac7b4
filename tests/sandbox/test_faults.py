"""Fault script, and every fault of the catalogue: it strikes, is recorded, and changes the reply."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.sandbox.rig import NOW, OFFER, ExchangeRig, RigReply

from freight_sandbox import FAULTS, Call, Cut, Fault, Fired, Profile, Reply, WireFault

Act = Callable[[ExchangeRig], RigReply]


def busy_rig() -> ExchangeRig:
    rig = ExchangeRig(Profile(order="updated"))
    for number in range(3):
        rig.exchange.publish(rig.shipper, NOW - 10 + number)
    return rig


def submit(rig: ExchangeRig) -> RigReply:
    return rig.call("POST", "quote/submitoffer", OFFER, by=rig.forwarder)


def search(rig: ExchangeRig, **body: object) -> RigReply:
    return rig.call("POST", "quote/getrequests", body, by=rig.forwarder)


def approve(rig: ExchangeRig) -> RigReply:
    return rig.respond(rig.exchange.offer(rig.forwarder, 1, NOW - 5))


def struck(name: str, act: Act = search, **options: Any) -> Reply:
    rig = busy_rig()
    rig.exchange.faults.add(*FAULTS[name](**options))
    return act(rig).reply


def test_script_matches_by_address_condition_skip_and_times() -> None:
    rig = busy_rig()
    faults = rig.exchange.faults
    how: dict[str, Any] = {"when": lambda call: call.body != b"{}", "skip": 1, "times": 2, "wire": WireFault(Cut.STALL)}
    fault = Fault(name="f", method="POST", path="quote/getrequests", processed=False, **how)
    faults.add(fault, *FAULTS["drip"](path="carrier", times=None))
    bodies: list[dict[str, Any]] = [{}, {"type": "all"}, {}, {"type": "all"}, {"type": "all"}, {"type": "all"}]
    assert [search(rig, **body).reply.wire is not None for body in bodies] == [False, False, False, True, True, False]
    assert faults.fired == [Fired("f", 4, False), Fired("f", 5, False)]
    assert [waiting.name for waiting in faults.waiting] == ["drip"]
    assert [faults.peek(Call("GET", "carrier")) is not None for _ in range(2)] == [True, True]
    faults.disarm(*faults.waiting)
    assert faults.peek(Call("GET", "carrier")) is None
    with pytest.raises(ValueError, match="without a cut"):
        Fault(name="silent", processed=False)
    with pytest.raises(ValueError, match="refused cannot strike after"):
        FAULTS["refused"](processed=True)


@pytest.mark.parametrize(("name", "phase"), [(name, phase) for name in FAULTS for phase in FAULTS[name].phases])
def test_every_fault_fires_in_each_of_its_phases(name: str, phase: bool) -> None:
    rig, factory = busy_rig(), FAULTS[name]
    acts: dict[str | None, Act] = {"login": ExchangeRig.login, "quote/getrequests": search}
    acts["quote/approveoffer"] = approve
    act = acts.get(factory.path, submit)
    plain = act(busy_rig()).reply
    rig.exchange.faults.add(*factory(processed=phase))
    reply = act(rig).reply
    # The fault revokes the token before the call that carries it is handled.
    took_effect = phase and name != "tokens_revoked"
    assert rig.exchange.faults.fired == [Fired(name, 1, took_effect)]
    (call,) = rig.exchange.audit_log.calls
    assert (call.fault, call.processed, bool(factory.meaning)) == (name, took_effect, True)
    if act is submit:
        assert len(rig.exchange.audit_log.offers) == took_effect
    assert reply != plain
    if factory.cut is not None:
        assert reply.wire is not None
        assert (reply.wire.cut, not (factory.cut.early and phase)) == (factory.cut, True)


def test_every_cut_is_in_the_catalogue() -> None:
    assert {FAULTS[cut.value].cut for cut in Cut} == set(Cut)
    assert len(struck("truncated_length", submit, processed=False).body) > 100, "a reply to cut short"


PLAIN = search(busy_rig()).reply.body
BODIES: dict[str, Callable[[bytes], bool]] = {
    "gzip": lambda body: gzip.decompress(body) == PLAIN,
    "double_gzip": lambda body: gzip.decompress(gzip.decompress(body)) == PLAIN,
    "gzip_bomb": lambda body: len(body) < 60_000 and len(gzip.decompress(body)) > 50_000_000,
    "gzip_bomb_twice": lambda body: len(body) < 1_000 and len(gzip.decompress(gzip.decompress(body))) > 50_000_000,
    "false_gzip": lambda body: body == PLAIN,
    "deep_json": lambda body: body.count(b"[") == 100_000,
    "long_integer": lambda body: b'"index":' + b"7" * 5000 + b"," in body,
    "nan": lambda body: b'"index":NaN,' in body,
    "duplicate_keys": lambda body: body.startswith(b'{"raterequests":{},"raterequests":{"0"'),
    "lone_surrogate": lambda body: b'"commodityname":"\\ud800Electronics"' in body,
    "invalid_utf8": lambda body: b'"commodityname":"\xe9\xffElectronics"' in body,
    "bom": lambda body: body == b"\xef\xbb\xbf" + PLAIN,
    "half_json": lambda body: body == PLAIN[: len(PLAIN) // 2],
    "poison_record": lambda body: body.count(b'"Undefined index: refId"') == 1 and body.count(b'"qty"') == 2,
}


@pytest.mark.parametrize("name", BODIES)
def test_body_faults_change_the_body_as_they_say(name: str) -> None:
    assert BODIES[name](struck(name).body)


def test_faults_of_statuses_and_logins() -> None:
    headers = {name: dict(struck(name).headers).get("retry-after") for name in FAULTS if name.startswith("throttled")}
    assert list(headers.values()) == [None, "1", "Sun, 17 Mar 2030 17:46:41 GMT", "-5", "1000000000000", "soon"]
    assert dict(struck("unavailable_retry_after", seconds=7).headers)["retry-after"] == "7"
    assert struck("slow", seconds=4).delay == 4
    for status in (200, 400, 401, 403, 422, 500):
        assert struck(f"login_message_{status}", ExchangeRig.login).status == status
    users = {name: json.loads(struck(name, ExchangeRig.login).body)["user"] for name in FAULTS if "login_exp" in name}
    assert [user.get("expires_on") for user in users.values()] == [0, NOW + 3600, "3600", None]
    assert "access_token" not in json.loads(struck("login_without_token", ExchangeRig.login).body)["user"]


def test_faults_of_several_calls() -> None:
    rig = busy_rig()
    rig.exchange.faults.add(*FAULTS["bad_request_after_commit"](path="quote/submitoffer", skip=1))
    assert [submit(rig).status for _ in range(4)] == [200, 500, 400, 200]
    assert [(fired.call, fired.processed) for fired in rig.exchange.faults.fired] == [(2, True), (3, False)]
    rig.exchange.faults.add(*FAULTS["unauthorized_forever"]())
    assert {search(rig).status for _ in range(9)} == {401}
    rig.exchange.faults.clear()
    assert search(rig).status == 200


@pytest.mark.parametrize(
    ("name", "pages"),
    [("rows_inserted", [6, 5, 5, 4, 3, 2]), ("rows_removed", [6, 5, 3, 2, 1]), ("rows_touched", [6, 5, 5, 4, 3, 2])],
)
def test_listings_move_between_pages(name: str, pages: list[int]) -> None:
    rig = busy_rig()
    for number in range(3):
        rig.exchange.publish(rig.shipper, NOW - 5 + number)
    rig.exchange.faults.add(*FAULTS[name](skip=1))
    bodies = [{"offset": offset, "rowsperpage": 2} for offset in range(3)]
    assert [index for body in bodies for index in rig.listed("POST quote/getrequests", body)] == pages


def test_contradictory_replies_are_about_another_write() -> None:
    bid = submit(busy_rig()).json["bid"]
    assert json.loads(struck("reply_of_another_request", submit).body)["bid"]["index"] == bid["index"] + 1
    amount = json.loads(struck("reply_with_another_amount", submit).body)["bid"]["offer"]["offerAmount"]
    currency = json.loads(struck("reply_with_another_currency", submit).body)["bid"]["offer"]["currencyIndex"]
    (listing,) = json.loads(struck("approval_of_another_offer", approve).body)["offers"].values()
    assert (amount, currency, listing["offer"]["offerIndex"]) == (2840.5, 978, "5002")
