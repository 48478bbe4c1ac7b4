"""Fault script, and every fault of the catalogue: it strikes, is recorded, and changes the reply."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable

import pytest
from tests.unit.sandbox.rig import NOW, OFFER, ExchangeRig, RigReply

from freight_sandbox import FAULTS, Call, Cut, Fault, Fired, Profile, Reply, WireFault

CASES = [(name, phase) for name, factory in FAULTS.items() for phase in factory.phases]


def busy_rig() -> ExchangeRig:
    rig = ExchangeRig(Profile(order="updated"))
    for number in range(3):
        rig.exchange.publish(rig.shipper, NOW - 10 + number)
    return rig


def submit(rig: ExchangeRig) -> RigReply:
    return rig.call("POST", "quote/submitoffer", OFFER, by=rig.forwarder)


def search(rig: ExchangeRig) -> RigReply:
    return rig.call("POST", "quote/getrequests", {}, by=rig.forwarder)


def approve(rig: ExchangeRig) -> RigReply:
    return rig.respond(rig.exchange.offer(rig.forwarder, 1, NOW - 5))


def struck(name: str, act: Callable[[ExchangeRig], RigReply] = search) -> Reply:
    rig = busy_rig()
    rig.exchange.faults.add(*FAULTS[name]())
    seen = act(rig)
    assert [fired.name for fired in rig.exchange.faults.fired] == [name]
    return seen.reply


class TestScript:
    def test_fault_matches_by_method_path_condition_skip_and_times(self) -> None:
        rig = busy_rig()
        fault = Fault(
            name="f",
            method="POST",
            path="quote/getrequests",
            when=lambda call: call.body != b"{}",
            skip=1,
            times=2,
            processed=False,
            wire=WireFault(Cut.STALL),
        )
        rig.exchange.faults.add(fault)

        def met(**body: object) -> bool:
            return rig.call("POST", "quote/getrequests", body, by=rig.forwarder).reply.wire is not None

        assert [met(), met(type="all"), met(), met(type="all"), met(type="all"), met(type="all")] == [
            False,
            False,
            False,
            True,
            True,
            False,
        ]
        assert rig.exchange.faults.fired == [Fired("f", 4, False), Fired("f", 5, False)]
        assert rig.exchange.faults.waiting == ()

    def test_first_matching_fault_strikes(self) -> None:
        rig = busy_rig()
        rig.exchange.faults.add(*FAULTS["stall"](skip=1), *FAULTS["drip"](times=None), *FAULTS["dns"]())
        cuts = [search(rig).reply.wire for _ in range(3)]
        assert [wire.cut for wire in cuts if wire is not None] == [Cut.DRIP, Cut.STALL, Cut.DRIP]
        rig.exchange.faults.clear()
        assert search(rig).reply.wire is None
        assert len(rig.exchange.faults.fired) == 3

    def test_peek_does_not_count(self) -> None:
        rig = busy_rig()
        call = Call("POST", "quote/getrequests")
        rig.exchange.faults.add(*FAULTS["refused"](skip=1))
        assert rig.exchange.faults.peek(call) is None
        search(rig)
        assert [rig.exchange.faults.peek(call) is not None for _ in range(3)] == [True] * 3
        assert rig.exchange.faults.fired == []
        wire = search(rig).reply.wire
        assert wire is not None
        assert wire.cut is Cut.REFUSED

    def test_fired_processed_means_took_effect(self) -> None:
        rig = busy_rig()
        rig.exchange.faults.add(*FAULTS["reset_after_processing"](times=2))
        submit(rig)
        rig.call("POST", "quote/submitoffer", {**OFFER, "offer": -1}, by=rig.forwarder)
        assert [fired.processed for fired in rig.exchange.faults.fired] == [True, False]
        assert len(rig.exchange.audit_log.offers) == 1

    def test_fault_without_reply_or_cut_is_refused(self) -> None:
        with pytest.raises(ValueError, match="without a cut"):
            Fault(name="silent", processed=False)

    def test_unsupported_phase_is_refused(self) -> None:
        with pytest.raises(ValueError, match="refused cannot strike after"):
            FAULTS["refused"](processed=True)


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_every_fault_fires_in_each_of_its_phases(name: str, phase: bool) -> None:
    rig = busy_rig()
    factory = FAULTS[name]
    assert factory.meaning
    is_login = factory.path == "login"
    act: Callable[[ExchangeRig], RigReply] = (
        ExchangeRig.login if is_login else search if factory.change is not None else submit
    )
    act = approve if factory.path == "quote/approveoffer" else act
    plain = act(busy_rig()).reply
    rig.exchange.faults.add(*factory(processed=phase))
    seen = act(rig)
    # The fault revokes the token before the call that carries it is handled.
    took_effect = phase and name != "tokens_revoked"
    assert rig.exchange.faults.fired == [Fired(name, 1, took_effect)]
    record = rig.exchange.audit_log.calls[0]
    assert (record.fault, record.processed) == (name, took_effect)
    if act is submit:
        assert len(rig.exchange.audit_log.offers) == took_effect
    assert seen.reply != plain


def test_every_cut_is_in_the_catalogue() -> None:
    for cut in Cut:
        factory = FAULTS[cut.value]
        assert factory.cut is cut
        if cut.early:
            assert factory.phases == (False,)
        assert all(fault.early == cut.early for fault in factory(processed=factory.phases[-1]))


def test_early_cuts_have_no_reply() -> None:
    for cut in Cut:
        reply = struck(cut.value, submit)
        assert reply.wire is not None
        if cut.early or cut is Cut.RESET_AFTER_SEND:
            assert (reply.status, reply.body) == (0, b"")
        else:
            assert reply.status == 200


def test_truncation_without_processing_cuts_a_placeholder() -> None:
    rig = busy_rig()
    rig.exchange.faults.add(*FAULTS["truncated_length"](processed=False))
    reply = submit(rig).reply
    assert reply.status == 500
    assert len(reply.body) > 100


def test_gzip_bombs_are_small_and_decompress_to_50_mb() -> None:
    bomb = struck("gzip_bomb")
    assert dict(bomb.headers)["content-encoding"] == "gzip"
    assert len(bomb.body) < 60_000
    inflated = gzip.decompress(bomb.body)
    assert len(inflated) > 50_000_000
    assert json.loads(inflated) == {}
    twice = struck("gzip_bomb_twice")
    assert dict(twice.headers)["content-encoding"] == "gzip, gzip"
    assert len(twice.body) < 1000
    assert gzip.decompress(twice.body) == bomb.body


def test_gzip_and_charset_faults() -> None:
    plain = search(busy_rig()).reply.body
    assert gzip.decompress(struck("gzip").body) == plain
    assert gzip.decompress(gzip.decompress(struck("double_gzip").body)) == plain
    assert struck("false_gzip").body == plain
    short = zlib.decompressobj(wbits=31)
    short.decompress(struck("short_gzip").body)
    assert not short.eof
    assert dict(struck("wrong_charset").headers)["content-type"] == "application/json; charset=utf-16"


def test_body_faults_change_the_body_as_they_say() -> None:
    assert struck("deep_json").body.count(b"[") == 100_000
    assert b'"index":' + b"7" * 5000 + b"," in struck("long_integer").body
    assert b'"index":NaN,' in struck("nan").body
    assert b'"index":1e999,' in struck("huge_exponent").body
    assert struck("duplicate_keys").body.startswith(b'{"raterequests":{},"raterequests":{"0"')
    assert b'"commodityname":"\\ud800Electronics"' in struck("lone_surrogate").body
    assert b'"commodityname":"\xe9\xffElectronics"' in struck("invalid_utf8").body
    assert struck("bom").body.startswith(b"\xef\xbb\xbf{")
    assert struck("array_200").body == b"[1,2,3]"
    assert struck("empty_200").body == b""
    assert struck("html_200").body.startswith(b"<!DOCTYPE html>")
    with pytest.raises(ValueError, match="line 1"):
        json.loads(struck("half_json").body + b"!")


def test_number_fault_without_a_number_makes_an_object() -> None:
    rig = ExchangeRig()
    rig.exchange.faults.add(*FAULTS["nan"]())
    assert search(rig).reply.body == b'{"index":NaN}'


def test_poison_record_breaks_one_record_only() -> None:
    records = json.loads(struck("poison_record").body)["raterequests"].values()
    assert [isinstance(record, str) for record in records].count(True) == 1
    assert len(records) == 3


def test_throttling_faults_have_their_retry_after() -> None:
    def retry_after(name: str) -> str | None:
        reply = struck(name)
        assert reply.status == 429
        return dict(reply.headers).get("retry-after")

    assert retry_after("throttled") is None
    assert retry_after("throttled_seconds") == "1"
    assert retry_after("throttled_date") == "Sun, 17 Mar 2030 17:46:41 GMT"
    assert retry_after("throttled_negative") == "-5"
    assert retry_after("throttled_huge") == "1000000000000"
    rig = busy_rig()
    rig.exchange.faults.add(*FAULTS["unavailable_retry_after"](seconds=7))
    reply = search(rig).reply
    assert (reply.status, dict(reply.headers)["retry-after"]) == (503, "7")


def test_lasting_faults_strike_until_cleared() -> None:
    for name, status in (("unavailable_forever", 503), ("unauthorized_forever", 401)):
        rig = busy_rig()
        rig.exchange.faults.add(*FAULTS[name]())
        assert {search(rig).status for _ in range(20)} == {status}
        rig.exchange.faults.clear()
        assert search(rig).status == 200


def test_bad_request_after_commit_answers_500_then_400() -> None:
    rig = busy_rig()
    rig.exchange.faults.add(*FAULTS["bad_request_after_commit"](path="quote/submitoffer", skip=1))
    assert [submit(rig).status for _ in range(4)] == [200, 500, 400, 200]
    assert len(rig.exchange.audit_log.offers) == 3
    assert [(fired.call, fired.processed) for fired in rig.exchange.faults.fired] == [(2, True), (3, False)]


def test_tokens_revoked_ends_every_login() -> None:
    rig = busy_rig()
    tokens = [rig.login().json["user"]["access_token"] for _ in range(3)]
    rig.exchange.faults.add(*FAULTS["tokens_revoked"](path="carrier"))
    assert [rig.send("GET", "carrier", token=token).status for token in tokens] == [401] * 3
    assert rig.send("GET", "carrier", token=rig.login().json["user"]["access_token"]).status == 200


def test_slow_reply_is_unchanged_but_late() -> None:
    rig = busy_rig()
    rig.exchange.faults.add(*FAULTS["slow"](seconds=4))
    plain = search(busy_rig()).reply
    slow = search(rig).reply
    assert (slow.body, slow.delay, plain.delay) == (plain.body, 4, 0)


def test_login_faults_change_the_reply_to_a_login() -> None:
    def user(name: str) -> dict[str, object]:
        user: dict[str, object] = json.loads(struck(name, ExchangeRig.login).body)["user"]
        return user

    for status in (200, 400, 401, 403, 422, 500):
        reply = struck(f"login_message_{status}", ExchangeRig.login)
        assert (reply.status, list(json.loads(reply.body))) == (status, ["message"])
    assert struck("login_html", ExchangeRig.login).body.startswith(b"<!DOCTYPE")
    assert dict(struck("login_redirect", ExchangeRig.login).headers)["location"].startswith(
        "https://elsewhere.example/"
    )
    assert user("login_expires_zero")["expires_on"] == 0
    assert user("login_expires_epoch")["expires_on"] == NOW + 3600
    assert user("login_expires_string")["expires_on"] == "3600"
    assert "expires_on" not in user("login_expires_missing")
    assert "access_token" not in user("login_without_token")
    hung = struck("login_hung", ExchangeRig.login).wire
    assert hung is not None
    assert hung.cut is Cut.STALL


def test_row_faults_change_later_pages() -> None:
    def pages(name: str) -> list[int]:
        rig = ExchangeRig(Profile(order="updated"))
        for number in range(6):
            rig.exchange.publish(rig.shipper, NOW - 10 + number)
        rig.exchange.faults.add(*FAULTS[name](skip=1))
        found = []
        for offset in range(3):
            body = {"offset": offset, "rowsperpage": 2}
            found += rig.indexes(rig.call("POST", "quote/getrequests", body, by=rig.forwarder))
        return found

    assert pages("rows_inserted") == [6, 5, 5, 4, 3, 2]
    assert pages("rows_removed") == [6, 5, 3, 2, 1]
    assert pages("rows_touched") == [6, 5, 5, 4, 3, 2]
    assert pages("rows_reordered")[:2] == [6, 5]
    assert pages("rows_reordered")[2:] != [4, 3, 2, 1]
