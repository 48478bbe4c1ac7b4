"""Tests of the deadline: one limit over attempts, waits, queues and logins, and what is true when it has passed."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import anyio
import httpx
import pytest
from tests.calls.support import (
    BID,
    BRISK,
    FOUND,
    LOGGED_IN,
    QUICK,
    REQUEST,
    Kind,
    arm,
    client,
    logins,
    outcome,
    perform,
    reply,
    scripted,
    stocked,
    stranger,
    unkept,
)

from freight_exchange import DeadlineExceededError, OutcomeUnknownError, RetryPolicy, Timeouts
from freight_exchange.testing import FAULTS

KINDS = [Kind.READ, Kind.WRITE]


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("fault", ["drip", "stall", "stall_mid_reply", "throttled_seconds", "unavailable_retry_after"])
async def test_deadline_bounds_attempts_waits_and_the_login_together(fault: str, kind: Kind) -> None:
    """Each attempt times out after 2 s, or never because bytes keep coming. The call ends after 5 s."""
    sandbox = stocked()
    if kind is not Kind.LOGIN:
        arm(sandbox, "slow", Kind.LOGIN, seconds=1.5)
    arm(sandbox, fault, kind, times=None, seconds=1.0)
    retries = RetryPolicy(attempts=100, base=0.5)
    async with client(sandbox, timeouts=Timeouts(read=2), retries=retries, deadline=5) as exchange:
        started = anyio.current_time()
        ended = await outcome(exchange, kind)
        elapsed = anyio.current_time() - started
    assert elapsed <= 5.05
    assert ended != "ok"
    if fault == "drip":
        assert ended == ("OutcomeUnknownError" if kind is Kind.WRITE else "DeadlineExceededError")
        assert elapsed == pytest.approx(5)
    assert len(sandbox.audit_log.offers) <= 1


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", list(Kind))
async def test_call_without_a_connection_ends_at_its_deadline_without_effect(kind: Kind) -> None:
    sandbox = stocked()
    options: dict[str, Any] = {"timeouts": Timeouts(connect=60), "middleware": [unkept]}
    async with client(sandbox, **options) as exchange:
        if kind is not Kind.LOGIN:
            await exchange.login()
        arm(sandbox, "connect_stall", kind, times=None)
        started = anyio.current_time()
        with pytest.raises(DeadlineExceededError) as caught:
            await perform(exchange.with_options(deadline=5), kind)
        assert anyio.current_time() - started == pytest.approx(5)
    assert not caught.value.may_have_taken_effect
    assert not sandbox.audit_log.offers


@pytest.mark.virtual_time
async def test_write_past_its_deadline_is_unknown_with_its_facts() -> None:
    sandbox = stocked()
    arm(sandbox, "stall", Kind.WRITE)
    async with client(sandbox) as exchange:
        with pytest.raises(OutcomeUnknownError, match="deadline") as caught:
            await perform(exchange.with_options(deadline=5), Kind.WRITE)
    error = caught.value
    assert error.elapsed == pytest.approx(5)
    assert (error.method, error.path, error.attempts) == ("POST", Kind.WRITE.value, 1)
    assert error.write is not None
    assert len(sandbox.audit_log.offers) == 1


@pytest.mark.virtual_time
async def test_refused_write_that_waits_for_a_new_login_has_not_happened() -> None:
    sandbox = stocked()
    async with client(sandbox) as exchange:
        await exchange.login()
        arm(sandbox, "unauthorized_once", Kind.WRITE)
        arm(sandbox, "login_hung", Kind.LOGIN, times=None)
        with pytest.raises(DeadlineExceededError):
            await perform(exchange.with_options(deadline=5), Kind.WRITE)
    assert not sandbox.audit_log.offers


@pytest.mark.virtual_time
async def test_caller_leaves_a_hung_login_at_its_own_deadline() -> None:
    sandbox = stocked()
    arm(sandbox, "login_hung", Kind.LOGIN)
    async with client(sandbox) as exchange, anyio.create_task_group() as tasks:
        tasks.start_soon(perform, exchange, Kind.READ)
        await anyio.sleep(0.1)
        started = anyio.current_time()
        for kind in Kind:
            with pytest.raises(DeadlineExceededError):
                await perform(exchange.with_options(deadline=1), kind)
        assert anyio.current_time() - started == pytest.approx(3)
    # Who stays gets through: the hung login ended by the timeout of the network, and was tried once more.
    assert logins(sandbox) == 2


@pytest.mark.virtual_time
async def test_deadline_bounds_the_look_up_of_a_currency_and_the_offer_together() -> None:
    sandbox = stocked()
    sandbox.strike(*FAULTS["slow"](path="currency", seconds=3), *FAULTS["slow"](path=Kind.WRITE.value, seconds=4))
    async with client(sandbox, deadline=5) as exchange:
        await exchange.login()
        started = anyio.current_time()
        with pytest.raises(OutcomeUnknownError):
            await exchange.bids.submit(REQUEST, amount=1840, currency="USD")
        assert anyio.current_time() - started == pytest.approx(5)


# The queue for a connection


@pytest.mark.virtual_time
@pytest.mark.parametrize(("kind", "option"), [(Kind.READ, "max_connections"), (Kind.WRITE, "max_writes")])
async def test_call_that_waits_past_its_deadline_was_not_sent_and_names_the_option(kind: Kind, option: str) -> None:
    sandbox = stocked()
    async with client(sandbox, max_connections=1, max_writes=1) as exchange, anyio.create_task_group() as tasks:
        await exchange.login()
        arm(sandbox, "stall", kind)
        patient = exchange.with_options(timeouts=Timeouts(read=59))
        tasks.start_soon(outcome, patient, kind)
        await anyio.sleep(1)
        sent = len(sandbox.audit_log.calls_to("POST", kind.value))
        with pytest.raises(DeadlineExceededError, match=option) as caught:
            await perform(exchange.with_options(deadline=3), kind)
        assert caught.value.attempts == 0
        assert len(sandbox.audit_log.calls_to("POST", kind.value)) == sent
        tasks.cancel_scope.cancel()


def slowly(seconds: float, running: Counter[str], most: Counter[str]) -> Any:
    """Make a reply to each kind of call that takes its time, and count the requests under way."""

    async def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/")
        running[path] += 1
        most[path] = max(most[path], running[path])
        try:
            await anyio.sleep(seconds)
        finally:
            running[path] -= 1
        return reply(200, {**FOUND, **BID})

    return answer


@pytest.mark.virtual_time
@pytest.mark.parametrize(("kind", "places"), [(Kind.READ, 1), (Kind.READ, 7), (Kind.WRITE, 1), (Kind.WRITE, 3)])
async def test_never_more_requests_in_flight_than_the_options_allow(kind: Kind, places: int) -> None:
    most = Counter[str]()
    with scripted(slowly(1.0, Counter(), most)):
        async with stranger(max_connections=places, max_writes=places) as exchange:
            await exchange.login()
            began = anyio.current_time()
            async with anyio.create_task_group() as tasks:
                for _ in range(4 * places):
                    tasks.start_soon(perform, exchange, kind)
            assert anyio.current_time() - began == pytest.approx(4)
    assert most[kind.value] == places


@pytest.mark.virtual_time
async def test_reads_do_not_keep_writes_waiting() -> None:
    with scripted(slowly(30.0, Counter(), Counter()), login=reply(200, LOGGED_IN)) as service:
        async with stranger(max_connections=1) as exchange, anyio.create_task_group() as tasks:
            tasks.start_soon(perform, exchange, Kind.READ)
            await anyio.sleep(1)
            service.answers = [reply(200, BID)]
            assert await outcome(exchange.with_options(deadline=5), Kind.WRITE) == "ok"
            tasks.cancel_scope.cancel()


@pytest.mark.virtual_time
async def test_no_write_leaves_the_queue_too_late_to_be_answered() -> None:
    """A reply takes a second. What could not be answered in time is not sent, rather than left in doubt."""
    ended: Counter[str] = Counter()
    with scripted(slowly(1.0, Counter(), Counter())) as service:
        async with stranger(max_writes=2, deadline=8) as exchange:
            await exchange.login()
            await perform(exchange, Kind.WRITE)
            sent = len(service.requests)

            async def call() -> None:
                ended[await outcome(exchange, Kind.WRITE)] += 1

            async with anyio.create_task_group() as tasks:
                for _ in range(40):
                    tasks.start_soon(call)
            assert set(ended) == {"ok", "DeadlineExceededError"}
            assert ended["ok"] == len(service.requests) - sent >= 10


# A loop that stands still


@pytest.mark.parametrize("kind", list(Kind))
async def test_loop_that_was_blocked(kind: Kind) -> None:
    """The loop stands still for longer than timeouts and deadline while calls are in flight."""
    sandbox = stocked()
    options: dict[str, Any] = {"timeouts": QUICK, "retries": BRISK, "deadline": 0.25, "max_writes": 10}
    ended: Counter[str] = Counter()
    async with client(sandbox, **options) as exchange:
        if kind is not Kind.LOGIN:
            await exchange.with_options(deadline=5).login()
        arm(sandbox, "slow", kind, times=10, seconds=0.05)

        async def call() -> None:
            ended[await outcome(exchange, kind)] += 1

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(call)
            await anyio.sleep(0.02)
            time.sleep(0.3)  # noqa: ASYNC251 - what a program of the user's does to its loop
        assert set(ended) <= {"ok", "DeadlineExceededError", *(["OutcomeUnknownError"] if kind is Kind.WRITE else [])}
        # A write that had not left before the loop stood still never leaves.
        left = ended.total() - ended["DeadlineExceededError"] if kind is Kind.WRITE else 0
        assert len(sandbox.audit_log.offers) <= left
        for after in (Kind.READ, Kind.WRITE):
            assert await outcome(exchange.with_options(deadline=5), after) == "ok"
