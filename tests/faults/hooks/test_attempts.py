"""Tests of the number of attempts in errors and records."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest
from tests.faults.support import BRISK, Kind, arm, patient, perform, stocked

from freight_exchange import (
    APIStatusError,
    BadRequestError,
    DeadlineExceededError,
    FreightExchangeError,
    NotFoundError,
    Request,
    Response,
    RetryPolicy,
    ServerError,
)
from freight_exchange.hooks import Attempt, Event, Retry
from freight_exchange.testing import Sandbox
from freight_exchange.transport.call import Next

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]

ONCE = RetryPolicy(attempts=1)
KINDS = [Kind.READ, Kind.WRITE]


def service(*statuses: int) -> httpx.AsyncClient:
    """Serve logins, and answer all other requests with these statuses in turn."""
    left = list(statuses)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/login"):
            return httpx.Response(200, json={"user": {"access_token": f"token{len(left)}", "expires_on": 3600}})
        return httpx.Response(left.pop(0), json={})

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


async def failed(kind: Kind, *statuses: int, **options: Any) -> tuple[FreightExchangeError, list[Event]]:
    events: list[Event] = []
    async with patient(Sandbox(), http_client=service(*statuses), hooks=[events.append], **options) as exchange:
        with pytest.raises(FreightExchangeError) as caught:
            await perform(exchange, kind)
    return caught.value, [event for event in events if getattr(event, "path", None) == kind.value]


def numbers(events: list[Event]) -> list[int]:
    return [event.number for event in events if isinstance(event, Attempt)]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_replay_after_a_new_login_is_another_sending(kind: Kind) -> None:
    error, events = await failed(kind, 401, 400, retries=ONCE)
    assert isinstance(error, BadRequestError)
    assert (error.attempts, numbers(events)) == (2, [1, 2])
    assert "2 attempts" in str(error)


async def test_records_are_numbered_through_attempts_and_replays() -> None:
    error, events = await failed(Kind.READ, 500, 401, 503, 500, retries=BRISK)
    assert isinstance(error, ServerError)
    assert (error.attempts, numbers(events)) == (4, [1, 2, 3, 4])
    assert [event.number for event in events if isinstance(event, Retry)] == [1, 3]


async def test_a_middleware_that_sends_twice_is_counted_twice() -> None:
    async def again(request: Request, call_next: Next) -> Response:
        await call_next(request)
        return await call_next(request)

    error, events = await failed(Kind.READ, 200, 400, middleware=[again], retries=ONCE)
    assert (error.attempts, numbers(events)) == (2, [1, 2])


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_of_a_middleware_was_never_sent(kind: Kind) -> None:
    async def answers(request: Request, call_next: Next) -> Response:
        return Response(status=409, content=b"{}", attempt=7)

    error, events = await failed(kind, middleware=[answers])
    assert type(error) is APIStatusError
    assert (error.attempts, events) == (0, [])


async def test_lookup_that_a_middleware_answers_counts_no_attempt() -> None:
    async def answers(request: Request, call_next: Next) -> Response:
        return Response(status=200, content=b"{}") if request.path == Kind.READ.value else await call_next(request)

    error, events = await failed(Kind.READ, middleware=[answers])
    assert isinstance(error, NotFoundError)
    assert (error.attempts, error.status, events) == (0, 200, [])


@pytest.mark.parametrize("kind", KINDS)
async def test_call_that_ends_in_the_login_counts_no_attempt(kind: Kind) -> None:
    sandbox = stocked(Sandbox())
    arm(sandbox, "stall", Kind.LOGIN)
    async with sandbox.http_client() as http_client, patient(sandbox, http_client=http_client, deadline=5) as exchange:
        with pytest.raises(DeadlineExceededError) as caught:
            await perform(exchange, kind)
    assert (caught.value.attempts, caught.value.path) == (0, kind.value)


@pytest.mark.parametrize("kind", KINDS)
async def test_call_that_ends_in_the_queue_counts_no_attempt(kind: Kind) -> None:
    sandbox = stocked(Sandbox())
    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client, max_connections=1) as exchange,
        anyio.create_task_group() as tasks,
    ):
        await exchange.login()
        arm(sandbox, "stall", Kind.READ)
        tasks.start_soon(perform, exchange, Kind.READ)
        await anyio.sleep(1)
        with pytest.raises(DeadlineExceededError) as caught:
            await perform(exchange.with_options(deadline=5), kind)
        assert caught.value.attempts == 0
        tasks.cancel_scope.cancel()
