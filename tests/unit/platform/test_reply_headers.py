"""Tests of reply headers in errors and records."""

from __future__ import annotations

import pytest

from freight_exchange.base import NO_HEADERS, REQUEST_ID_HEADERS, ReplyHeaders
from freight_exchange.transport.redact import Redactor, Secret, reply_headers

TOKEN = "c4nary-t0ken-of-some-length"


def kept_headers(headers: dict[str, str], *, login: bool = False) -> dict[str, str]:
    redactor = Redactor()
    redactor.add_token(Secret(TOKEN))
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    return dict(reply_headers(pairs, redactor, login=login))


@pytest.mark.parametrize("name", REQUEST_ID_HEADERS)
def test_the_request_id_is_found(name: str) -> None:
    assert ReplyHeaders({"via": "x", name.upper(): "r-1"}).request_id == "r-1"
    assert name in kept_headers({name: "r-1"}, login=True)


def test_the_most_specific_id_wins() -> None:
    assert ReplyHeaders({"cf-ray": "b", "x-request-id": "a"}).request_id == "a"
    assert NO_HEADERS.request_id is None


@pytest.mark.parametrize("name", ["Content-Type", "Date", "Server", "Via", "Retry-After", "X-RateLimit-Reset"])
def test_only_headers_that_help_to_find_a_fault_are_shown(name: str) -> None:
    assert kept_headers({"Set-Cookie": "a", "X-Api-Key": "b", "X-Debug": "c", name: "d"}) == {name.lower(): "d"}


def test_secrets_are_masked() -> None:
    assert kept_headers({"server": f"you sent {TOKEN}", TOKEN: "1"}) == {"server": "you sent ***"}


def test_login_shows_no_header_of_its_calls() -> None:
    assert kept_headers({"retry-after": "a-new-token", "via": "1.1 gw"}, login=True) == {"via": "1.1 gw"}


def test_length_is_bounded_and_a_secret_at_the_cut_is_masked_whole() -> None:
    assert kept_headers({"via": "v" * 100_000})["via"] == "v" * 200 + "..."
    assert kept_headers({"via": "v" * 190 + TOKEN})["via"] == "v" * 190 + "***"
