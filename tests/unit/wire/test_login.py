"""Tests of logins and refusals: no token stays where it could be seen."""

from __future__ import annotations

import pickle
import traceback
from datetime import datetime
from decimal import Decimal
from typing import Any

import attrs
import pytest

from freight_exchange import wire
from freight_exchange.errors import DecodeError
from freight_exchange.models import Company, User

CANARY = "canary-5f1c"
REPLY: dict[str, Any] = {
    "user": {
        "access_token": CANARY,
        "expires_on": 3600,
        "firstname": "Ada",
        "middlename": "",
        "lastname": "Lovelace",
        "email": "ada@co.example",
        "title": "Ms",
        "enabled": "TRUE",
        "lastlogin": "2025-03-01 08:00:00",
        "imageUrl": "https://host.example/ada.png",
        "company": {"index": 3, "name": "Co", "postal": "01234", "otilicense": "007"},
    }
}


def login(**changes: object) -> wire.Login:
    return wire.decode_login({"user": {**REPLY["user"], **changes}})


def test_documented_reply_gives_token_lifetime_and_user() -> None:
    found = wire.decode_login(REPLY)
    assert found.token == CANARY
    assert (found.lifetime, found.expires_at) == (3600, None)
    assert found.user == User(
        first_name="Ada",
        middle_name="",
        last_name="Lovelace",
        email="ada@co.example",
        title="Ms",
        enabled=True,
        last_login=datetime(2025, 3, 1, 8),
        image_url="https://host.example/ada.png",
        company=Company(index=3, name="Co", postal="01234", oti_license="007"),
    )


@pytest.mark.parametrize("key", ["expires_on", "expires_in"])
@pytest.mark.parametrize(
    ("value", "lifetime", "expires_at"),
    [
        (3600, 3600.0, None),
        ("3600", 3600.0, None),
        (Decimal("1.5"), 1.5, None),
        (0, 0.0, None),
        (-5, 0.0, None),
        (10**9, 1e9, None),
        (1_900_000_000, None, 1.9e9),
        ("1900000000", None, 1.9e9),
        (None, None, None),
        ("", None, None),
        ("soon", None, None),
        ({}, None, None),
        (True, None, None),
        (10**100, None, None),
    ],
)
def test_07_lifetime_is_read_from_each_documented_field(
    key: str, value: object, lifetime: float | None, expires_at: float | None
) -> None:
    user = {name: held for name, held in REPLY["user"].items() if name != "expires_on"}
    found = wire.decode_login({"user": {**user, key: value}})
    assert (found.lifetime, found.expires_at) == (lifetime, expires_at)
    beside = wire.decode_login({"user": user, key: value})
    assert (beside.lifetime, beside.expires_at) == (lifetime, expires_at)


def test_07_reply_may_lack_a_lifetime() -> None:
    found = wire.decode_login({"user": {"access_token": "t"}})
    assert (found.lifetime, found.expires_at) == (None, None)


def test_07_the_token_is_opaque() -> None:
    # Claims that would expire it at once, if anyone read them.
    expired = "eyJhbGciOiJub25lIn0.eyJleHAiOjF9."
    assert login(access_token=expired).token == expired
    assert login(access_token=expired).lifetime == 3600


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("firstname", "first_name"),
        ("middlename", "middle_name"),
        ("lastname", "last_name"),
        ("email", "email"),
        ("title", "title"),
        ("enabled", "enabled"),
        ("lastlogin", "last_login"),
        ("imageUrl", "image_url"),
    ],
)
def test_no_field_about_the_person_costs_a_good_token(key: str, field: str) -> None:
    whole = wire.decode_login(REPLY).user
    for odd, kept in (([], ()), ({"apiToken": CANARY, "a": [1]}, {"a": (1,)})):
        found = login(**{key: odd})
        assert (found.token, found.lifetime) == (CANARY, 3600)
        assert found.user == attrs.evolve(whole, **{field: None}, extra={key: kept})


@pytest.mark.parametrize("odd", ["x", 3, ["Co"], True])
def test_a_company_that_is_none_costs_no_good_token(odd: object) -> None:
    found = login(company=odd, phone=[])
    assert (found.token, found.user.first_name, found.user.company) == (CANARY, "Ada", None)
    assert found.user.extra == {"company": tuple(odd) if isinstance(odd, list) else odd, "phone": ()}


@pytest.mark.parametrize("nothing", [None, {}, [], "", False])
def test_user_may_have_no_company(nothing: object) -> None:
    found = login(company=nothing)
    assert (found.user.company, found.user.extra) == (None, {})


def test_company_keeps_its_readable_fields() -> None:
    found = login(company={"index": "abc", "name": "Co", "phone": [], "fax": {"password": CANARY, "n": 1}, "new": 2})
    assert found.token == CANARY
    extra = {"index": "abc", "phone": (), "fax": {"n": 1}, "new": 2}
    assert found.user.company == Company(name="Co", extra=extra)
    assert found.user.extra == {}


def test_no_model_and_no_repr_holds_the_token() -> None:
    found = login(refresh_token=CANARY, company={"name": "Co", "apiToken": CANARY}, history=[{"password": CANARY}])
    assert CANARY not in repr(found)
    assert CANARY not in repr(found.user)
    assert CANARY.encode() not in pickle.dumps(found.user)
    assert found.user.extra == {"history": ({},)}


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        CANARY,
        [CANARY],
        {"user": CANARY},
        {"user": {"email": CANARY}},
        {"user": {"access_token": [CANARY]}},
        {"user": {"access_token": ""}},
        {"user": {"access_token": f"{CANARY}\r\nX: y"}},
        {"user": {"access_token": f"{CANARY} two"}},
        {"user": {"access_token": f"{CANARY}é"}},
        {"access_token": CANARY},
        {"message": CANARY},
    ],
)
def test_no_frame_of_a_failed_login_holds_the_reply(data: object) -> None:
    with pytest.raises(DecodeError) as caught:
        wire.decode_login(data)
    error: BaseException = caught.value
    frames = list(traceback.walk_tb(error.__traceback__))[1:]
    assert frames
    for frame, _ in frames:
        assert CANARY not in repr(frame.f_locals)
    assert error.__context__ is None
    assert CANARY not in repr(vars(error)) + str(error)
    assert CANARY.encode() not in pickle.dumps(error)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"message": "The user name or password is invalid."}, "The user name or password is invalid."),
        ({"Unauthorized": "Access denied"}, "Access denied"),
        ({"message": None}, "the service gave no reason"),
        ({"user": {"email": "a"}, "message": "no"}, "no"),
        ({"user": None, "message": "no"}, "no"),
        ({"user": {"access_token": "t"}, "message": "welcome"}, None),
        ({"access_token": "t", "message": "welcome"}, None),
        ({"error": "maintenance"}, None),
        ({}, None),
        ([], None),
        (None, None),
        ("message", None),
    ],
)
def test_rejection_is_recognised_in_a_reply(data: object, message: str | None) -> None:
    assert wire.find_rejection(data) == message


@pytest.mark.parametrize(
    ("data", "at_success", "at_refusal"),
    [
        ({"Unauthorized": "Access denied"}, True, True),
        ({"Unauthorized": "Access denied", "message": "log in", "code": 401, "data": []}, True, True),
        ({"Unauthorized": None}, False, True),
        ({"Unauthorized": False}, False, True),
        ({"Unauthorized": "", "message": "fine"}, False, True),
        ({"Unauthorized": 0}, False, True),
        ({"Unauthorized": "Access denied", "success": True}, False, True),
        ({"Unauthorized": "Access denied", "success": False}, True, True),
        ({"Unauthorized": "Access denied", "id": 77}, False, True),
        (wire.parse(b'{"Unauthorized": "denied", "bid": {"index": 4}, "bid": null}'), False, True),
        ({"Unauthorized": "Access denied", "bid": {"index": 4}}, False, False),
        ({"Unauthorized": "Access denied", "routes": [{}]}, False, False),
        ({"Unauthorized": True, "index": 301, "origin": "Hong Kong"}, False, False),
        ({"message": "x"}, False, False),
        ([], False, False),
    ],
)
def test_reply_about_a_token_is_recognised(data: object, at_success: bool, at_refusal: bool) -> None:
    assert wire.is_unauthorized(data, success=True) is at_success
    assert wire.is_unauthorized(data, success=False) is at_refusal


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"message": "No records  found."}, "No records found."),
        ({"Message": "No"}, "No"),
        ({"error": "bad"}, "bad"),
        ({"error": {"code": 3, "message": "bad"}}, "bad"),
        ({"errors": [{"detail": "bad"}]}, "bad"),
        ({"errors": {"weight": ["must be positive"]}}, "weight: must be positive"),
        ({"errors": {"weight": "must be positive"}}, "weight: must be positive"),
        ({"weight": "must be positive"}, "weight: must be positive"),
        ({"success": False, "weight": ["", "must be positive"]}, "weight: must be positive"),
        ({"errors": [{"weight": "must be positive"}]}, "weight: must be positive"),
        ({"title": "Invalid", "errors": {"weight": ["must be positive"]}}, "weight: must be positive"),
        ({"status": "error", "data": {"message": "bad"}}, "bad"),
        ({"status": "error", "code": "E1"}, None),
        ({"index": 4, "commodityname": "Widgets"}, None),
        ({"detail": [{"loc": ["body", "weight"], "msg": "bad", "type": "x"}]}, "bad"),
        ({"detail": [{"loc": ["body", "weight"]}, {"loc": ["body"], "msg": "bad"}]}, "bad"),
        ({"detail": [{"fields": [["weight"]]}, {"msg": "bad"}]}, "bad"),
        ({"loc": ["body", "weight"]}, None),
        ({"msg": "bad"}, "bad"),
        ({"reason": "bad"}, "bad"),
        ({"Description": "bad"}, "bad"),
        ({"error": True, "message": 3}, None),
        ([True, 3, Decimal("1.5")], None),
        ({"a": {"b": {"c": {"d": {"e": {"message": "too deep"}}}}}}, None),
        ({"message": "", "error": "bad"}, "bad"),
        ({"status": 400, "body": {"message": "bad"}}, "bad"),
        ({"code": 3}, None),
        ("bad", "bad"),
        (" ", None),
        (["bad"], "bad"),
        (3, None),
        (None, None),
        ({"message": "x" * 1000}, "x" * 297 + "..."),
    ],
)
def test_first_sentence_of_a_reply_is_found(data: object, found: str | None) -> None:
    assert wire.find_sentence(data) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The offer is\n closed. ", "The offer is closed."),
        ("weight < 0", "weight < 0"),
        ("x" * 300, "x" * 300),
        ("x" * 301, None),
        ("", None),
        (" \r\n", None),
        ("<html>Bad Gateway</html>", None),
        ("Oops <BR> it failed", None),
        ("<!DOCTYPE html>", None),
        ("<?xml version='1.0'?>", None),
        ("\x00\x01binary", None),
    ],
)
def test_first_sentence_of_a_text_is_found(text: str, found: str | None) -> None:
    assert wire.find_sentence_in_text(text) == found
