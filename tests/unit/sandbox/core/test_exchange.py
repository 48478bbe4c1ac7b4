"""Tests of POST login, tokens, and access (service document, 4.1 and 5)."""

from __future__ import annotations

import pytest
from tests.unit.sandbox.rig import ExchangeRig

from freight_sandbox import Profile


def test_login_returns_the_user() -> None:
    rig = ExchangeRig()
    seen = rig.login("shipper")
    assert seen.status == 200
    token = seen.json["user"].pop("access_token")
    assert len(token) >= 32
    assert seen.json == {
        "user": {
            "expires_on": 3600,
            "firstname": "Sylvia",
            "middlename": "",
            "lastname": "Ship",
            "email": "shipper@demo.example",
            "title": "Manager",
            "enabled": "TRUE",
            "lastlogin": "2029-12-31 08:00:00",
            "imageUrl": "https://images.example/avatars/11.png",
            "company": {
                "name": "Ship & Co. Ltd",
                "address1": "1 Harbour Road",
                "city": "Hong Kong",
                "state": "",
                "postal": "00852",
                "country": "Hong Kong",
                "phone": "+852 5550 0100",
                "otilicense": "012345F",
            },
        }
    }
    assert rig.login("shipper").json["user"]["lastlogin"] == "2030-03-17 17:46:40"


@pytest.mark.parametrize(("name", "password"), [("shipper", "wrong"), ("unknown", "unknown")])
def test_failed_login_gets_401_with_a_message(name: str, password: str) -> None:
    rig = ExchangeRig()
    seen = rig.login(name, password)
    assert seen.status == 401
    assert seen.json == {"message": "The user name or password is invalid."}
    assert [(login.email, login.accepted) for login in rig.exchange.audit_log.logins] == [
        (f"{name}@demo.example", False)
    ]


@pytest.mark.parametrize("body", [{}, {"email": "shipper@demo.example"}, {"email": 4, "password": "shipper"}])
def test_invalid_login_body_gets_400(body: dict[str, object]) -> None:
    assert ExchangeRig().call("POST", "login", body).status == 400


def test_token_expires_after_its_lifetime() -> None:
    rig = ExchangeRig(Profile(token_lifetime=60))
    token = rig.login().json["user"]["access_token"]
    rig.now += 59.9
    assert rig.send("GET", "carrier", token=token).status == 200
    rig.now += 0.1
    assert rig.send("GET", "carrier", token=token).status == 401


def test_several_tokens_are_valid_at_once_and_expire_by_hand() -> None:
    rig = ExchangeRig()
    first, second = (rig.login().json["user"]["access_token"] for _ in range(2))
    assert first != second
    assert rig.send("GET", "carrier", token=first).status == 200
    assert rig.send("GET", "carrier", token=second).status == 200
    rig.exchange.expire_tokens(rig.shipper)
    assert rig.send("GET", "carrier", token=first).status == 200
    rig.exchange.expire_tokens()
    assert rig.send("GET", "carrier", token=first).status == 401


def test_added_account_has_both_roles() -> None:
    rig = ExchangeRig(Profile(roles="enforced"))
    both = rig.exchange.add_account("both@demo.example", "secret", firstname="Bo", lastname="Both")
    assert rig.login("both", "secret").json["user"]["company"]["name"] == "Both & Co. Ltd"
    for path in ("quote/getoffers", "quote/getrequests"):
        assert rig.call("POST", path, {}, by=both).status == 200
    assert rig.call("POST", "quote/getoffers", {}, by=rig.forwarder).status == 403
    assert rig.call("POST", "quote/getrequests", {}, by=rig.shipper).status == 403


def test_same_seed_issues_same_tokens() -> None:
    assert ExchangeRig().login().reply.body == ExchangeRig().login().reply.body


@pytest.mark.parametrize("token", [None, "", "nonsense"])
@pytest.mark.parametrize(("method", "path"), [("GET", "currency"), ("POST", "quote/submitoffer"), ("PUT", "route")])
def test_call_without_valid_token_gets_401(token: str | None, method: str, path: str) -> None:
    seen = ExchangeRig().send(method, path, token=token)
    assert seen.status == 401
    assert list(seen.json) == ["Unauthorized"]


def test_unknown_address_gets_404_and_unknown_method_405() -> None:
    rig = ExchangeRig()
    assert rig.call("GET", "quote/nothing", by=rig.shipper).status == 404
    assert rig.call("DELETE", "route", by=rig.shipper).status == 405
    assert rig.call("GET", "login").status == 405
    assert rig.call("POST", "carrier", {}, by=rig.shipper).status == 405
