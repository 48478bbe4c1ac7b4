"""Audit log: the content of each call, the records it created, and the times at which they were visible."""

from __future__ import annotations

from tests.unit.sandbox.rig import NOW, OFFER, PUBLISH, ExchangeRig

from freight_sandbox import FAULTS, Cargo, Profile


def test_calls_are_logged_with_their_parameters() -> None:
    rig = ExchangeRig()
    rig.call("GET", "route", {"origin": "Hong Kong"}, by=rig.shipper, query={"offset": "0", "rowsperpage": "5"})
    rig.now += 1
    rig.call("POST", "quote/submitrequest", PUBLISH, by=rig.shipper)
    rig.call("POST", "quote/submitoffer", {**OFFER, "offer": 0}, by=rig.forwarder)
    rig.call("GET", "carrier")
    first, second, third, fourth = rig.exchange.audit_log.calls
    assert (first.number, first.time, first.method, first.path) == (1, NOW, "GET", "route")
    assert first.query == {"offset": "0", "rowsperpage": "5"}
    assert first.parameters == {"offset": "0", "rowsperpage": "5", "origin": "Hong Kong"}
    assert (first.account, first.status, first.processed) == ("shipper@demo.example", 200, True)
    assert (second.time, b"Green tea" in second.body) == (NOW + 1, True)
    assert (third.account, third.status, third.processed) == ("forwarder@demo.example", 400, False)
    assert (fourth.account, fourth.status, fourth.fault) == (None, 401, None)
    assert rig.exchange.audit_log.calls_to("GET", "route") == [first]


def test_refusal_with_status_200_is_not_processed() -> None:
    rig = ExchangeRig(Profile(unauthorized_status=200, failed_login_status=200))
    assert rig.call("GET", "carrier").status == 200
    assert rig.login(password="wrong").status == 200
    assert [call.processed for call in rig.exchange.audit_log.calls] == [False, False]


def test_secrets_stay_out_of_the_repr() -> None:
    rig = ExchangeRig()
    rig.call("POST", "login", {"email": "shipper@demo.example", "password": "canary"})
    rig.login()
    token = rig.exchange.token(rig.forwarder, rig.now)
    call = rig.exchange.audit_log.calls[0]
    assert "canary" not in repr(call)
    assert token not in repr(rig.exchange.audit_log.calls)
    assert "'forwarder'" not in repr(rig.forwarder).replace("role='forwarder'", "")


def test_publications_changes_and_spans_are_logged() -> None:
    rig = ExchangeRig()
    rig.publish()
    audit_log = rig.exchange.audit_log
    assert [tuple(entry) for entry in audit_log.publications] == [(1, "shipper@demo.example", NOW, 1)]
    rig.exchange.update(1, NOW + 10, Cargo(origin="Busan"))
    rig.exchange.touch(1, NOW + 20)
    rig.now += 30
    rig.respond(rig.offer())
    rig.exchange.withdraw(1, NOW + 40)
    assert [(change.time - NOW, change.what) for change in audit_log.changes] == [
        (0, "published"),
        (10, "updated"),
        (20, "touched"),
        (30, "selected"),
        (40, "withdrawn"),
    ]
    spans = audit_log.spans(1, late=2)
    assert [(span.since - NOW, span.until and span.until - NOW, span.state.state) for span in spans] == [
        (2, 12, "open"),
        (12, 22, "open"),
        (22, 32, "open"),
        (32, 42, "selected"),
        (42, None, "withdrawn"),
    ]
    assert spans[1].state.cargo.origin == "Busan"


def test_offers_are_logged_with_their_calls() -> None:
    rig = ExchangeRig()
    rig.publish(2)
    rig.exchange.faults.add(*FAULTS["server_error_after_commit"](path="quote/submitoffer"))
    for _ in range(2):
        rig.call("POST", "quote/submitoffer", OFFER, by=rig.forwarder)
    rig.offer(rig.rival, requestIndex=2)
    rig.exchange.offer(rig.rival, 2, NOW)
    audit_log = rig.exchange.audit_log
    assert [record.call for record in audit_log.offers] == [3, 4, 5, None]
    assert [record.offer.index for record in audit_log.offers_on(1)] == [5001, 5002]
    assert audit_log.offers_on(1, "rival@demo.example") == []
    assert [[record.offer.index for record in group] for group in audit_log.duplicate_offers()] == [[5001, 5002]]


def test_logins_are_logged_until_forget() -> None:
    rig = ExchangeRig()
    rig.login()
    rig.login(password="wrong")
    audit_log = rig.exchange.audit_log
    assert [(login.accepted, login.call) for login in audit_log.logins] == [(True, 1), (False, 2)]
    audit_log.forget()
    assert (audit_log.calls, audit_log.logins) == ([], [])
    rig.login()
    assert audit_log.calls[0].number == 3
    assert audit_log is rig.exchange.audit_log
