"""POST login, tokens, and who is let in (service document, 4.1 and 5)."""

from __future__ import annotations

import pytest
from tests.unit.sandbox.desk import Desk

from freight_exchange.sandbox import Profile


def test_login_gives_the_user() -> None:
    desk = Desk()
    seen = desk.login("shipper")
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
    assert desk.login("shipper").json["user"]["lastlogin"] == "2030-03-17 17:46:40"


@pytest.mark.parametrize(("name", "password"), [("shipper", "wrong"), ("nobody", "nobody")])
def test_failed_login_has_a_message(name: str, password: str) -> None:
    desk = Desk()
    seen = desk.login(name, password)
    assert seen.status == 401
    assert seen.json == {"message": "The user name or password is invalid."}
    assert [(login.email, login.accepted) for login in desk.exchange.audit_log.logins] == [
        (f"{name}@demo.example", False)
    ]


@pytest.mark.parametrize("body", [{}, {"email": "shipper@demo.example"}, {"email": 4, "password": "shipper"}])
def test_login_body_is_checked(body: dict[str, object]) -> None:
    assert Desk().call("POST", "login", body).status == 400


def test_a_token_lasts_as_long_as_it_says() -> None:
    desk = Desk(Profile(token_lifetime=60))
    token = desk.login().json["user"]["access_token"]
    desk.now += 59.9
    assert desk.send("GET", "carrier", token=token).status == 200
    desk.now += 0.1
    assert desk.send("GET", "carrier", token=token).status == 401


def test_several_tokens_are_valid_at_once_and_expire_by_hand() -> None:
    desk = Desk()
    first, second = (desk.login().json["user"]["access_token"] for _ in range(2))
    assert first != second
    assert desk.send("GET", "carrier", token=first).status == 200
    assert desk.send("GET", "carrier", token=second).status == 200
    desk.exchange.expire_tokens(desk.shipper)
    assert desk.send("GET", "carrier", token=first).status == 200
    desk.exchange.expire_tokens()
    assert desk.send("GET", "carrier", token=first).status == 401


def test_an_added_account_may_do_both_sides() -> None:
    desk = Desk(Profile(roles="enforced"))
    both = desk.exchange.add_account("both@demo.example", "secret", firstname="Bo", lastname="Both")
    assert desk.login("both", "secret").json["user"]["company"]["name"] == "Both & Co. Ltd"
    for path in ("quote/getoffers", "quote/getrequests"):
        assert desk.call("POST", path, {}, by=both).status == 200
    assert desk.call("POST", "quote/getoffers", {}, by=desk.forwarder).status == 403
    assert desk.call("POST", "quote/getrequests", {}, by=desk.shipper).status == 403


def test_tokens_come_from_the_seed() -> None:
    assert Desk().login().reply.body == Desk().login().reply.body


@pytest.mark.parametrize("token", [None, "", "nonsense"])
@pytest.mark.parametrize(("method", "path"), [("GET", "currency"), ("POST", "quote/submitoffer"), ("PUT", "route")])
def test_without_a_valid_token_nothing_is_let_in(token: str | None, method: str, path: str) -> None:
    seen = Desk().send(method, path, token=token)
    assert seen.status == 401
    assert list(seen.json) == ["Unauthorized"]


def test_addresses_and_methods_that_do_not_exist() -> None:
    desk = Desk()
    assert desk.call("GET", "quote/nothing", by=desk.shipper).status == 404
    assert desk.call("DELETE", "route", by=desk.shipper).status == 405
    assert desk.call("GET", "login").status == 405
    assert desk.call("POST", "carrier", {}, by=desk.shipper).status == 405
