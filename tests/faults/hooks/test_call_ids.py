"""Tests of call ids and reply headers in errors, records and log lines."""

from __future__ import annotations

import logging

import httpx
import pytest
from tests.faults.support import BRISK

from freight_exchange import (
    APIStatusError,
    DecodeError,
    FreightExchange,
    FreightExchangeError,
    NotFoundError,
    OutcomeUnknownError,
    Request,
    Response,
)
from freight_exchange.hooks import Attempt, BrokenRecord, Event, Retry
from freight_exchange.models import SubmitOffer
from freight_exchange.transport.call import Next

pytestmark = pytest.mark.virtual_time

HEADERS = {"X-Request-Id": "r-17", "Set-Cookie": "sid=secret", "X-Cache": "MISS"}
LOGIN = {"user": {"access_token": "t0ken-t0ken", "expires_on": 3600}}


class Service(httpx.AsyncBaseTransport):
    """Service that accepts each login, and gives one reply to all other requests."""

    def __init__(self, status: int, body: object) -> None:
        self.reply = (status, body)
        self.sent: list[str | None] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/login"):
            return httpx.Response(200, json=LOGIN)
        self.sent.append(request.headers.get("x-correlation-id"))
        return httpx.Response(self.reply[0], json=self.reply[1], headers=HEADERS)


async def failure(service: Service, seen: list[Event], method: str = "GET", **options: object) -> FreightExchangeError:
    async with (
        httpx.AsyncClient(transport=service) as http_client,
        FreightExchange(
            "http://127.0.0.1/api",
            email="me@co.example",
            password="canary-password",
            http_client=http_client,
            retries=BRISK,
            hooks=[seen.append],
            **options,  # type: ignore[arg-type]  # what a test adds
        ) as exchange,
    ):
        await exchange.login()
        seen.clear()
        try:
            if method == "GET":
                await exchange.requests.get(7)
            else:
                await exchange.bids.submit(2, amount=1, currency=840)
        except FreightExchangeError as error:
            return error
    raise AssertionError("the call succeeded")


async def test_attempts_retries_logs_and_the_error_share_an_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "freight_exchange")
    seen: list[Event] = []
    error = await failure(Service(500, {"message": "down"}), seen)
    attempts = [event for event in seen if isinstance(event, Attempt)]
    retries = [event for event in seen if isinstance(event, Retry)]
    assert len(attempts) == 3
    assert len(retries) == 2
    assert error.call_id
    assert {event.call_id for event in attempts} == {event.call_id for event in retries} == {error.call_id}
    assert {event.request_id for event in attempts} == {"r-17"}
    assert sum(error.call_id in line for line in caplog.messages) == 5
    other = await failure(Service(500, {}), seen)
    assert other.call_id != error.call_id


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"message": "no"}, APIStatusError),
        (404, {"message": "nothing"}, NotFoundError),
        (200, {"raterequests": {}}, NotFoundError),
        (200, {"raterequests": 7}, DecodeError),
        (200, [1], DecodeError),
    ],
)
async def test_errors_carry_headers_and_the_request_id(
    status: int, body: object, kind: type[FreightExchangeError]
) -> None:
    error = await failure(Service(status, body), [])
    assert isinstance(error, kind)
    assert error.headers["x-cache"] == "MISS"
    assert "set-cookie" not in error.headers
    assert error.request_id == "r-17"
    assert "request id r-17" in str(error)
    assert error.call_id


async def test_attempt_of_an_unknown_write_carries_the_write() -> None:
    seen: list[Event] = []
    error = await failure(Service(500, {}), seen, "POST")
    assert isinstance(error, OutcomeUnknownError)
    assert error.request_id == "r-17"
    [attempt] = [event for event in seen if isinstance(event, Attempt)]
    assert isinstance(attempt.write, SubmitOffer)
    assert attempt.write == error.write
    assert attempt.call_id == error.call_id


async def test_broken_record_carries_the_ids_of_its_call() -> None:
    seen: list[Event] = []
    service = Service(200, {"raterequests": [{"index": 7}, "broken"]})
    async with (
        httpx.AsyncClient(transport=service) as http_client,
        FreightExchange(
            "http://127.0.0.1/api", email="a@b.example", password="pw", http_client=http_client, hooks=[seen.append]
        ) as exchange,
    ):
        page = await anext(aiter(exchange.requests.search(page_size=10).pages()))
    assert page is not None
    broken = next(event for event in seen if isinstance(event, BrokenRecord))
    attempt = next(event for event in seen if isinstance(event, Attempt) and event.path != "login")
    assert broken.error.call_id == attempt.call_id
    assert broken.error.request_id == "r-17"


async def test_middleware_can_send_the_call_id() -> None:
    async def named(request: Request, call_next: Next) -> Response:
        return await call_next(request.with_header("X-Correlation-ID", request.call_id))

    service = Service(500, {})
    assert (await failure(service, [])).call_id not in service.sent
    error = await failure(service, [], middleware=[named])
    assert service.sent[-3:] == [error.call_id] * 3
