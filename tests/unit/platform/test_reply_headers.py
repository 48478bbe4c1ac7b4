"""Tests of reply headers in errors and records."""

from __future__ import annotations

import copy
import pickle

import pytest

from freight_exchange.platform.reply_headers import NO_HEADERS, REQUEST_ID_HEADERS, ReplyHeaders
from freight_exchange.transport.redact import reply_headers
from freight_exchange.transport.redact import Redactor, Secret

TOKEN = "c4nary-t0ken-of-some-length"


def kept_headers(headers: dict[str, str], *, login: bool = False) -> dict[str, str]:
    redactor = Redactor()
    redactor.add_token(Secret(TOKEN))
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    return dict(reply_headers(pairs, redactor, login=login))


def test_names_ignore_case() -> None:
    headers = ReplyHeaders({"X-Cache": "MISS"})
    assert headers["x-cache"] == headers["X-CACHE"] == "MISS"
    assert headers.get("absent") is None
    assert "X-cache" in headers


def test_headers_copy_pickle_and_compare() -> None:
    headers = ReplyHeaders({"a": "1"})
    assert copy.copy(headers) is headers
    assert copy.deepcopy(headers) is headers
    assert pickle.loads(pickle.dumps(headers)) == headers
    assert hash(headers) == hash(ReplyHeaders({"A": "1"}))
    assert headers != NO_HEADERS


@pytest.mark.parametrize("name", REQUEST_ID_HEADERS)
def test_the_request_id_is_found(name: str) -> None:
    assert ReplyHeaders({"via": "x", name.upper(): "r-1"}).request_id == "r-1"
    assert name in kept_headers({name: "r-1"}, login=True)


def test_the_most_specific_id_wins() -> None:
    assert ReplyHeaders({"cf-ray": "b", "x-request-id": "a"}).request_id == "a"
    assert NO_HEADERS.request_id is None


@pytest.mark.parametrize(
    "name",
    [
        "Set-Cookie",
        "Authorization",
        "Proxy-Authorization",
        "X-Auth-Token",
        "X-Access-Token",
        "X-Api-Key",
        "X-Session-Id",
    ],
)
def test_headers_that_grant_access_are_left_out(name: str) -> None:
    assert kept_headers({name: "unknown-secret"}) == {}


def test_secrets_are_masked() -> None:
    assert kept_headers({"x-echo": f"you sent {TOKEN}"}) == {"x-echo": "you sent ***"}
    assert kept_headers({TOKEN: "1"}) == {}


def test_login_shows_only_well_known_headers() -> None:
    assert kept_headers({"x-debug": "a-new-token", "retry-after": "a-new-token", "via": "1.1 gw"}, login=True) == {
        "via": "1.1 gw"
    }


def test_number_and_length_are_bounded() -> None:
    many = kept_headers({f"x-{number}": "v" * 300 for number in range(1000)})
    assert len(many) == 32
    assert {len(value) for value in many.values()} == {203}
    assert kept_headers({"x": "v" * 100_000}) == {"x": "(100000 characters)"}


def test_a_secret_at_the_cut_is_masked_whole() -> None:
    value = kept_headers({"x": "v" * 190 + TOKEN})["x"]
    assert value == "v" * 190 + "***"
