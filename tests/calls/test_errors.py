"""Tests of the errors: each pickles, copies and prints one sentence, and has the facts of its call."""

from __future__ import annotations

import copy
import logging
import pickle
from decimal import Decimal
from typing import Any

import httpx
import pytest
from tests.calls.support import BRISK, ONCE, PASSWORD, REQUEST, Kind, attempts, perform, reply, scripted, stranger

import freight_exchange
from freight_exchange import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    DecodeError,
    FreightExchangeError,
    NotFoundError,
    OfferInDoubtError,
    OutcomeUnknownError,
    RateLimitedError,
    ServerError,
    errors,
)
from freight_exchange.hooks import Event, Retry
from freight_exchange.models import SubmitOffer

CALL: dict[str, Any] = {
    "method": "POST", "path": "quote/bid", "status": 418, "attempts": 2, "elapsed": 1.5, "body": {"a": [1]},
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "ValidationError": {"field": "amount"},
    "TransportError": CALL | {"unsent": True, "permanent": True},
    "RateLimitedError": CALL | {"retry_after": 7.5},
    "DecodeError": CALL | {"path": "raterequests.3.weight", "request_path": "quote/offer", "raw": "x"},
    "HeldError": {"holder": "process 7"},
    "OutcomeUnknownError": CALL | {"write": SubmitOffer(4, Decimal("1840.50"), 840)},
    **{
        f"{name}Error": {"request": 4} for name in ("AlreadyApproved", "AlreadyOffered", "OfferChanged", "OfferInDoubt")
    },
}
KINDS: list[type[FreightExchangeError]] = [getattr(errors, name) for name in errors.__all__]


def example(kind: type[FreightExchangeError]) -> FreightExchangeError:
    return kind("something is wrong", **OWN.get(kind.__name__, CALL))


def test_hierarchy_is_public() -> None:
    assert {name for name in freight_exchange.__all__ if name.endswith("Error")} == set(errors.__all__)
    for kind in KINDS:
        assert issubclass(kind, FreightExchangeError)
        assert getattr(freight_exchange, kind.__name__) is kind


@pytest.mark.parametrize("kind", KINDS)
def test_error_survives_copying_and_pickling(kind: type[FreightExchangeError]) -> None:
    error = example(kind)
    pickled = [pickle.loads(pickle.dumps(error, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for twin in (copy.copy(error), copy.deepcopy(error), *pickled):
        assert type(twin) is kind
        assert twin is not error
        assert (str(twin), twin.args, vars(twin)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (APIStatusError("no", **CALL), "no [POST quote/bid, status 418, 2 attempts, 1.50 s]"),
        (APIStatusError("no", method="GET", path="carrier", attempts=1), "no [GET carrier]"),
        (APIStatusError("no"), "no"),
        (
            DecodeError("no number", path="bids.0", method="GET", request_path="quote/bid"),
            "no number at bids.0 [GET quote/bid]",
        ),
        (DecodeError("no JSON"), "no JSON"),
    ],
    ids=str,
)
def test_sentence_ends_with_the_facts_of_the_call(error: FreightExchangeError, text: str) -> None:
    assert str(error) == text


def test_only_doubtful_effects_may_have_taken_effect() -> None:
    assert {kind for kind in KINDS if kind.may_have_taken_effect} == {OutcomeUnknownError, OfferInDoubtError}


# Statuses and bodies


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (300, APIStatusError), (307, APIStatusError), (400, BadRequestError), (401, AuthenticationError),
        (402, APIStatusError), (403, APIStatusError), (404, NotFoundError), (405, APIStatusError),
        (408, APIStatusError), (409, APIStatusError), (413, BadRequestError), (422, BadRequestError),
        (429, RateLimitedError), (500, ServerError), (503, ServerError), (599, ServerError),
    ],
)  # fmt: skip
@pytest.mark.parametrize("body", [b"", {"message": "no such port"}, b"<html>oops</html>", [1, 2, 3]], ids=str)
async def test_status_has_its_class_with_any_body(status: int, kind: type[APIStatusError], body: Any) -> None:
    with scripted(reply(status, body)):
        async with stranger(retries=ONCE) as exchange:
            with pytest.raises(APIStatusError) as caught:
                await exchange.request("GET", "quote/offer")
    error = caught.value
    assert type(error) is kind
    assert (error.method, error.path, error.status) == ("GET", "quote/offer", status)
    if body == {"message": "no such port"} and status >= 400:
        assert "no such port" in error.message
        assert error.body == body
    assert "<html>" not in str(error)


LOGIN = "https://elsewhere.example/login?secret=4711"


@pytest.mark.parametrize("location", [LOGIN, "https://me:4711@elsewhere.example/", "/v2/api/login", None])
async def test_redirect_is_an_error_that_names_its_target(location: str | None) -> None:
    with scripted(reply(307, {}, {} if location is None else {"Location": location})) as service:
        async with stranger() as exchange:
            with pytest.raises(APIStatusError, match="redirect") as caught:
                await perform(exchange, Kind.READ)
    assert len(service.requests) == 1
    assert "4711" not in str(caught.value)
    assert ("to https://elsewhere.example," in str(caught.value)) == (location == LOGIN)


# Ids and headers

HEADERS = {"X-Request-Id": "r-17", "Set-Cookie": "sid=c00kie", "Date": "Sun, 06 Nov 1994 08:49:37 GMT"}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"message": "no"}, APIStatusError), (404, {"message": "nothing"}, NotFoundError),
        (200, {"raterequests": {}}, NotFoundError), (200, {"raterequests": 7}, DecodeError), (200, [1], DecodeError),
        (500, {}, ServerError),
    ],
)  # fmt: skip
async def test_error_has_headers_and_the_request_id(status: int, body: Any, kind: type[FreightExchangeError]) -> None:
    with scripted(reply(status, body, HEADERS)):
        async with stranger(retries=ONCE) as exchange:
            with pytest.raises(kind) as caught:
                await perform(exchange, Kind.READ)
    error = caught.value
    assert error.headers["date"] == error.headers["DATE"] == HEADERS["Date"]
    assert "set-cookie" not in error.headers
    assert "c00kie" not in repr(error.headers)
    assert error.request_id == "r-17"
    assert "r-17" in str(error)
    assert pickle.loads(pickle.dumps(error)).headers == error.headers


async def test_attempts_retries_logs_and_the_error_share_an_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "freight_exchange")
    seen: list[Event] = []
    with scripted(reply(500, {"message": "down"}, HEADERS)) as service:
        async with stranger(hooks=[seen.append], retries=BRISK) as exchange:
            ids = []
            for _ in range(2):
                seen.clear()
                caplog.clear()
                with pytest.raises(ServerError) as caught:
                    await perform(exchange, Kind.READ)
                made, retries = attempts(seen, Kind.READ), [event for event in seen if isinstance(event, Retry)]
                assert (len(made), len(retries)) == (3, 2)
                call_id = caught.value.call_id
                assert call_id
                assert {it.call_id for it in made} == {it.call_id for it in retries} == {call_id}
                assert {it.request_id for it in made} == {"r-17"}
                assert sum(call_id in line for line in caplog.messages) >= 2
                ids.append(call_id)
        assert not any(name in request.headers for request in service.requests for name in ("x-call-id",))
    assert len(set(ids)) == 2


async def test_doubt_has_the_write_and_the_facts_of_its_attempt() -> None:
    seen: list[Event] = []
    with scripted(reply(500, {"message": "down"}, HEADERS)):
        async with stranger(hooks=[seen.append]) as exchange:
            with pytest.raises(OutcomeUnknownError) as caught:
                await perform(exchange, Kind.WRITE)
    error = caught.value
    [attempt] = attempts(seen, Kind.WRITE)
    assert isinstance(error.write, SubmitOffer)
    assert (error.write.request, error.write.amount, error.write.currency) == (REQUEST, Decimal("1840.50"), 840)
    assert attempt.write == error.write
    assert (attempt.call_id, attempt.may_have_taken_effect) == (error.call_id, True)
    assert (error.status, error.attempts, error.request_id) == (500, 1, "r-17")
    assert "down" in str(error)
    twin = pickle.loads(pickle.dumps(error))
    assert twin.write == error.write


@pytest.mark.parametrize("before", [8_190, 65_530], ids=["where the text is cut", "where reading ends"])
async def test_secret_at_the_end_of_a_long_body_is_not_shown_in_part(before: int) -> None:
    body = "x" * before + PASSWORD + "y" * 70_000
    with scripted(httpx.Response(500, text=body)):
        async with stranger(retries=ONCE) as exchange:
            with pytest.raises(ServerError) as caught:
                await exchange.requests.get(REQUEST)
    shown = f"{caught.value}{caught.value!r}{caught.value.body}"
    assert "xxx" in shown
    assert PASSWORD[:2] not in shown.partition("xxx")[2]
