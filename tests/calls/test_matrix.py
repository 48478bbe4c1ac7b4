"""Tests of every fault with every kind of call: its outcome, the calls received and the calls carried out."""

from __future__ import annotations

import re

import pytest
from tests.calls.support import BRISK, QUICK, CallResult, Kind, arm, call_result, client, over_sockets, stocked, unkept

from freight_exchange.testing import FAULTS, Sandbox

# Outcome, calls received, calls carried out. `-`: the fault has no meaning for that kind of call.
# `Unknown` is OutcomeUnknownError, `Status` any other APIStatusError; the rest are errors without their last word.
# `or` stands between two outcomes that the promises allow alike.
TABLE = """
fault                       read                      login                   write

refused                     ok 2/1                    ok 2/1                  ok 2/1
dns                         ok 2/1                    ok 2/1                  ok 2/1
connect_stall               ok 2/1                    ok 2/1                  ok 2/1
tls_stall                   ok 2/1                    ok 2/1                  ok 2/1
bad_certificate             Transport 1/0             Transport 1/0           Transport 1/0
pool_exhausted              DeadlineExceeded 1/0 or ok 2/1  DeadlineExceeded 1/0 or ok 2/1  Unknown 1/0 or ok 2/1

reset_before_headers        ok 2/1                    ok 2/1                  Unknown 1/0
reset_mid_body              ok 2/1                    ok 2/1                  Unknown 1/0
reset_after_send            ok 2/1                    ok 2/1                  Unknown 1/0
reset_after_processing      ok 2/2                    ok 2/2                  Unknown 1/1
reset_mid_reply             ok 2/2                    ok 2/2                  Unknown 1/1
fin_no_bytes                ok 2/2                    ok 2/2                  Unknown 1/1
stall                       ok 2/2                    ok 2/2                  Unknown 1/1
stall_mid_reply             ok 2/2                    ok 2/2                  Unknown 1/1
drip                        ok 1/1                    ok 1/1                  ok 1/1
truncated_length            ok 2/2                    ok 2/2                  Unknown 1/1
truncated_chunks            ok 2/2                    ok 2/2                  Unknown 1/1
garbage_status              ok 2/2                    ok 2/2                  Unknown 1/1
header_flood                ok 2/2                    ok 2/2                  Unknown 1/1
bytes_after_reply           ok 1/1                    ok 1/1                  ok 1/1
idle_fin                    ok 1/1                    ok 1/1                  ok 1/1

gzip_bomb                   ok 2/2                    Decode 1/1              Unknown 1/1
gzip_bomb_twice             ok 2/2                    Decode 1/1              Unknown 1/1
gzip                        ok 1/1                    ok 1/1                  ok 1/1
double_gzip                 ok 2/2                    Decode 1/1              Unknown 1/1
false_gzip                  ok 2/2                    Decode 1/1              Unknown 1/1
short_gzip                  ok 2/2                    ok 2/2                  Unknown 1/1
deep_json                   ok 2/2                    Decode 1/1              Unknown 1/1
deep_object                 ok 2/2                    Decode 1/1              Unknown 1/1
long_integer                Decode 1/1 or ok 2/2      ok 1/1                  Unknown 1/1
nan                         Decode 1/1 or ok 2/2      ok 1/1                  Unknown 1/1
infinity                    Decode 1/1 or ok 2/2      ok 1/1                  Unknown 1/1
huge_exponent               Decode 1/1 or ok 2/2      ok 1/1                  Unknown 1/1
duplicate_keys              ok 1/1                    ok 1/1                  ok 1/1
lone_surrogate              ok 1/1                    Decode 1/1              ok 1/1
invalid_utf8                ok 1/1                    Decode 1/1              ok 1/1
bom                         ok 1/1                    ok 1/1                  ok 1/1
wrong_charset               ok 1/1                    ok 1/1                  ok 1/1
unknown_charset             ok 1/1                    ok 1/1                  ok 1/1
half_json                   ok 2/2                    Decode 1/1              Unknown 1/1
html_200                    ok 2/2                    Decode 1/1              Unknown 1/1
empty_200                   ok 2/2                    Decode 1/1              Unknown 1/1
array_200                   ok 2/2                    Decode 1/1              Unknown 1/1
scalar_200                  ok 2/2                    Decode 1/1              Unknown 1/1
maintenance_200             ok 2/2                    LoginRejected 1/1       Unknown 1/1
poison_record               Decode 1/1                -                       -

slow                        ok 1/1                    ok 1/1                  ok 1/1
throttled                   ok 2/1                    RateLimited 1/0         RateLimited 1/0
throttled_seconds           ok 2/1                    ok 2/1                  ok 2/1
throttled_date              ok 2/1                    ok 2/1                  ok 2/1
throttled_negative          ok 2/1                    RateLimited 1/0         RateLimited 1/0
throttled_huge              RateLimited 1/0           RateLimited 1/0         RateLimited 1/0
throttled_nonsense          ok 2/1                    RateLimited 1/0         RateLimited 1/0
unavailable                 ok 2/1                    ok 2/1                  Unknown 1/0
unavailable_forever         Server 3/0                Server 2/0              Unknown 1/0
unavailable_retry_after     ok 2/1                    ok 2/1                  Unknown 1/0
server_error                ok 2/1                    ok 2/1                  Unknown 1/0
server_error_after_commit   ok 2/2                    ok 2/2                  Unknown 1/1
bad_gateway                 ok 2/1                    ok 2/1                  Unknown 1/0
request_timeout             ok 2/1                    ok 2/1                  Unknown 1/0
not_found_page              NotFound 1/0              NotFound 1/0            NotFound 1/0
bad_request_after_commit    BadRequest 2/1            LoginRejected 2/1       Unknown 1/1
redirect                    Status 1/0                Status 1/0              Unknown 1/0
unauthorized_once           ok 2/1                    LoginRejected 1/0       ok 2/1
unauthorized_forever        Authentication 2/0        LoginRejected 1/0       Authentication 2/0
unauthorized_200            ok 2/1                    LoginRejected 1/0       ok 2/1
tokens_revoked              ok 2/1                    ok 1/1                  ok 2/1
success_with_unauthorized   ok 1/1                    ok 1/1                  ok 1/1

reply_of_another_request    -                         -                       Unknown 1/1
reply_with_another_amount   -                         -                       Unknown 1/1
reply_with_another_currency -                         -                       Unknown 1/1
approval_of_another_offer   -                         -                       -

login_message_200           -                         LoginRejected 1/0       -
login_message_400           -                         LoginRejected 1/0       -
login_message_401           -                         LoginRejected 1/0       -
login_message_403           -                         LoginRejected 1/0       -
login_message_422           -                         LoginRejected 1/0       -
login_message_500           -                         ok 2/1                  -
login_html                  -                         Decode 1/0              -
login_redirect              -                         Status 1/0              -
login_without_token         -                         Decode 1/1              -
login_expires_zero          -                         ok 1/1                  -
login_expires_epoch         -                         ok 1/1                  -
login_expires_string        -                         ok 1/1                  -
login_expires_missing       -                         ok 1/1                  -
login_hung                  -                         ok 2/1                  -

rows_inserted               ok 1/1                    -                       -
rows_removed                ok 1/1                    -                       -
rows_touched                ok 1/1                    -                       -
rows_reordered              ok 1/1                    -                       -
"""

_FULL_NAMES = {"ok": "ok", "Unknown": "OutcomeUnknownError", "Status": "APIStatusError"}


def _cell(text: str) -> list[CallResult]:
    found = []
    for alternative in text.split(" or "):
        name, received, processed = re.split(r"[ /]", alternative)
        found.append(CallResult(_FULL_NAMES.get(name, f"{name}Error"), int(received), int(processed)))
    return found


def _cells() -> dict[tuple[str, Kind], list[CallResult]]:
    cells: dict[tuple[str, Kind], list[CallResult]] = {}
    for line in TABLE.splitlines()[2:]:
        name, *texts = re.split(r"  +", line) if line else [""]
        cells |= {(name, kind): _cell(text) for kind, text in zip(Kind, texts, strict=False) if text != "-"}
    return cells


CELLS = _cells()
ROWS = [pytest.param(name, kind, id=f"{name}-{kind.name}") for name, kind in CELLS if name in FAULTS]


def test_table_has_every_fault() -> None:
    assert set(FAULTS) <= {line.split()[0] for line in TABLE.splitlines() if line}


@pytest.mark.virtual_time
@pytest.mark.parametrize(("name", "kind"), ROWS)
async def test_fault_has_its_documented_effect(name: str, kind: Kind) -> None:
    expected = CELLS[name, kind]
    for phase in FAULTS[name].phases:
        sandbox = stocked()
        async with client(sandbox, middleware=[unkept]) as exchange:
            if kind is not Kind.LOGIN:
                await exchange.login()
            arm(sandbox, name, kind, processed=phase)
            seen = await call_result(sandbox, exchange, kind)
        _check_struck(sandbox, name)
        if phase == FAULTS[name].phases[0]:
            assert seen in expected
        else:
            # Before or after the server did it: the client cannot know, and must not behave otherwise.
            assert seen[:2] in [result[:2] for result in expected]
        if kind is Kind.WRITE:
            assert len(sandbox.audit_log.offers_on(2)) == seen.processed <= 1


def _check_struck(sandbox: Sandbox, name: str) -> None:
    fired = sandbox.exchange.faults.fired
    assert fired, "the fault never struck"
    assert fired[0].name == name


# Each way in which bytes of a reply end early or are wrong, for a read and a write; what a login makes of some replies.
_ON_SOCKETS = [
    *(
        (name, kind)
        for name in (
            *("reset_before_headers", "reset_mid_body", "reset_after_send", "reset_after_processing"),
            *("reset_mid_reply", "fin_no_bytes", "stall", "stall_mid_reply", "drip", "truncated_length"),
            *("truncated_chunks", "garbage_status", "header_flood", "bytes_after_reply", "idle_fin"),
            *("gzip_bomb", "server_error_after_commit"),
        )
        for kind in (Kind.READ, Kind.WRITE)
    ),
    ("login_hung", Kind.LOGIN),
    ("login_redirect", Kind.LOGIN),
    ("login_message_200", Kind.LOGIN),
    ("unauthorized_once", Kind.WRITE),
    ("tokens_revoked", Kind.READ),
]
_SILENT = {"stall", "stall_mid_reply", "login_hung"}
"""Faults that only a time-out ends. The others have a long one, since a short one would measure the machine."""


@pytest.mark.parametrize(("name", "kind"), _ON_SOCKETS)
async def test_fault_has_the_same_effect_over_sockets(name: str, kind: Kind) -> None:
    sandbox = stocked()
    async with over_sockets(sandbox, retries=BRISK, timeouts=QUICK if name in _SILENT else None) as (_, exchange):
        if kind is not Kind.LOGIN:
            await exchange.login()
        arm(sandbox, name, kind, **({"seconds": 0.0002} if name == "drip" else {}))
        assert await call_result(sandbox, exchange, kind) in CELLS[name, kind]
    _check_struck(sandbox, name)
