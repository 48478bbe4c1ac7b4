"""Tests of cancellation at every await, of floods of cancelled calls, and of closing with calls in flight."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from tests.calls.support import (
    REQUEST,
    Face,
    Kind,
    arm,
    attempts,
    client,
    is_on_asyncio,
    outcome,
    patient,
    perform,
    served,
    stocked,
    unkept,
)

from freight_exchange import (
    Applied,
    FreightExchange,
    FreightExchangeError,
    NotApplied,
    OutcomeUnknownError,
    RetryPolicy,
)
from freight_exchange.hooks import Attempt, Event
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.both_backends

Work = Callable[[], Awaitable[object]]
Cancel = Callable[[Work, Work], Awaitable[bool]]
"""Starts the work, cancels it after a pause, and returns whether it had ended before."""

_MOST_STEPS = 400
# While the test counts turns, a clock that jumps never gets to: waiting must take no time at all.
_AT_ONCE = RetryPolicy(base=1e-300)


async def in_a_scope(work: Work, pause: Work) -> bool:
    done = False
    scope = anyio.CancelScope()

    async def run() -> None:
        nonlocal done
        with scope:
            await work()
            done = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await pause()
        scope.cancel()
    return done


async def natively(work: Work, pause: Work, *, times: int = 1) -> bool:
    """Cancel the task of the work, perhaps again during the first cancellation."""
    task = asyncio.ensure_future(work())
    await pause()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    try:
        await task
    except asyncio.CancelledError:
        return False
    return True


async def turns(count: int) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


def ways() -> list[Cancel]:
    return [in_a_scope, natively, partial(natively, times=2)] if is_on_asyncio() else [in_a_scope]


@contextlib.asynccontextmanager
async def no_task_left() -> AsyncIterator[None]:
    """Check that no task is left after the client has closed."""
    before = await _count_tasks()
    yield
    assert await _count_tasks() == before


async def _count_tasks() -> int:
    # What has just ended is counted until the loop has turned.
    await turns(3)
    if is_on_asyncio():
        return len(asyncio.all_tasks())
    import trio

    return trio.lowlevel.current_statistics().tasks_living


@contextlib.asynccontextmanager
async def all_closed(face: Face) -> AsyncIterator[None]:
    """Check that the server has no connection left after the client has closed."""
    yield
    with anyio.fail_after(5):
        while face.open_connections:  # noqa: ASYNC110 - the sandbox has no event to wait for
            await anyio.sleep(0.01)


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("fault", [None, "reset_after_send", "tokens_revoked", "unavailable"])
async def test_cancelled_at_every_await(kind: Kind, fault: str | None) -> None:
    for cancel in ways():
        for steps in range(_MOST_STEPS):
            if await _survives(cancel, steps, kind, fault):
                break
        else:
            pytest.fail("the call never ended by itself")


async def _survives(cancel: Cancel, steps: int, kind: Kind, fault: str | None) -> bool:
    sandbox, seen = stocked(), list[Event]()
    await anyio.sleep(1)
    options: dict[str, Any] = {"middleware": [unkept], "max_connections": 1, "max_writes": 1, "retries": _AT_ONCE}
    async with no_task_left(), client(sandbox, hooks=[seen.append], **options) as exchange:
        if kind is Kind.READ:
            # The others begin without a token, so that the login before them is met by the cancellation as well.
            await exchange.login()
        if fault is not None:
            arm(sandbox, fault, kind)
        ended = await cancel(lambda: outcome(exchange, kind), lambda: turns(steps))
        # With one connection, one that was lost would be all of them.
        for after in (Kind.READ, Kind.WRITE):
            result = await outcome(exchange.with_options(deadline=5), after)
            assert result == "ok" or (result, fault, after) == ("OutcomeUnknownError", fault, kind)
    offers = sandbox.audit_log.offers
    assert len(offers) <= 2, f"after {steps} steps"
    if kind is Kind.WRITE and not ended and len(offers) == 2:
        made = sandbox.audit_log.calls_to("POST", Kind.WRITE.value)
        assert len(attempts(seen, kind)) == len(made), "an abandoned attempt is on record all the same"
    return ended


# A write that its caller leaves


async def cut_off(exchange: FreightExchange, seconds: float) -> None:
    with anyio.fail_after(seconds):
        await perform(exchange, Kind.WRITE)


@pytest.mark.virtual_time
@pytest.mark.parametrize(("fault", "processed"), [("slow", True), ("stall", True), ("stall", False)])
async def test_write_that_is_cut_off_is_on_record_and_can_be_reconciled(fault: str, processed: bool) -> None:
    sandbox, seen = stocked(), list[Event]()
    async with client(sandbox, deadline=20, hooks=[seen.append]) as exchange:
        await exchange.login()
        arm(sandbox, fault, Kind.WRITE, seconds=5.0, processed=processed)
        with pytest.raises(TimeoutError):
            await cut_off(exchange, 2)
        await anyio.sleep(20)
        [attempt] = attempts(seen, Kind.WRITE)
        assert attempt.abandoned
        assert attempt.may_have_taken_effect
        assert attempt.write is not None
        found = await exchange.reconcile(attempt.write)
        assert isinstance(found, Applied if processed else NotApplied)
        error: OutcomeUnknownError[Any] = OutcomeUnknownError(write=attempt.write)
        assert isinstance(await error.reconcile(exchange), type(found))
    assert len(sandbox.audit_log.offers) == int(processed)


@pytest.mark.virtual_time
async def test_write_that_is_cut_off_before_it_left_is_no_doubt() -> None:
    sandbox, seen = stocked(), list[Event]()
    async with client(sandbox, deadline=20, middleware=[unkept], hooks=[seen.append]) as exchange:
        await exchange.login()
        arm(sandbox, "connect_stall", Kind.WRITE)
        with pytest.raises(TimeoutError):
            await cut_off(exchange, 2)
        await anyio.sleep(20)
    assert not any(isinstance(event, Attempt) and event.may_have_taken_effect for event in seen)
    assert not sandbox.audit_log.offers


# Floods

CONNECTIONS = 5
_TOGETHER = 100

BACKENDS: list[Any] = [pytest.param("asyncio", id="asyncio"), pytest.param("trio", id="trio")]
if importlib.util.find_spec("uvloop") is not None:  # it does not exist everywhere
    BACKENDS.append(pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"))


@contextlib.asynccontextmanager
async def no_descriptor_left() -> AsyncIterator[None]:
    # A loop may keep a descriptor of its own from its first connection on: that one is not a leak.
    async with served(Sandbox()) as face, httpx.AsyncClient(trust_env=False) as http_client:
        await http_client.get(face.url)
    before = _descriptors()
    yield
    await anyio.lowlevel.checkpoint()
    assert _descriptors() == before


def _descriptors() -> int:
    """Return the number of open descriptors, where the system shows it."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


async def _flood(exchange: FreightExchange, calls: int, chance: random.Random) -> None:
    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        for _ in range(_TOGETHER):
            tasks.start_soon(perform, exchange, Kind.READ)
    # Cut anywhere, on a machine of any speed: by then some calls have ended, and others wait for a connection.
    longest = (anyio.current_time() - began) / 3

    async def one(number: int) -> None:
        async def work() -> None:
            if number % 2:
                await exchange.bids.submit(REQUEST, amount=number, currency=840)
            else:
                await outcome(exchange, Kind.READ)

        await chance.choice(ways())(work, partial(anyio.sleep, chance.random() * longest))

    for batch in range(0, calls, _TOGETHER):
        async with anyio.create_task_group() as tasks:
            for number in range(batch + 1, min(batch + _TOGETHER, calls) + 1):
                tasks.start_soon(one, number)


@pytest.mark.parametrize("anyio_backend", BACKENDS)
@pytest.mark.parametrize("through", ["own", "httpx"])
async def test_flood_of_cancelled_calls(through: str, caplog: pytest.LogCaptureFixture) -> None:
    """All later calls work, and no task, connection or descriptor is left."""
    # Each abandoned write is a warning, as it should be: here there are hundreds.
    caplog.set_level("CRITICAL", logger="freight_exchange")
    sandbox, calls = stocked(), 600 if through == "own" else 300
    limits = httpx.Limits(max_connections=CONNECTIONS)
    endings: list[str] = []
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(no_descriptor_left())
        face = await stack.enter_async_context(served(sandbox))
        await stack.enter_async_context(no_task_left())
        await stack.enter_async_context(all_closed(face))
        options: dict[str, Any] = {"max_connections": CONNECTIONS}
        if through == "httpx":
            http_client = httpx.AsyncClient(trust_env=False, limits=limits)
            options["http_client"] = await stack.enter_async_context(http_client)
        exchange = await stack.enter_async_context(patient(sandbox, url=face.url, **options))
        await exchange.login()
        await _flood(exchange, calls, random.Random(calls))

        async def call(kind: Kind) -> None:
            endings.append(await outcome(exchange.with_options(deadline=20), kind))

        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(call, Kind.WRITE if number % 2 else Kind.READ)
    assert endings == ["ok"] * 100
    # How many calls are cancelled before they are sent depends on the machine.
    assert face.requests > 100 + calls / 100, "hardly a call got as far as the network"
    amounts = [record.offer.amount for record in sandbox.audit_log.offers if record.offer.amount != 1840.5]
    assert len(amounts) == len(set(amounts))


# Closing


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", list(Kind))
async def test_closing_ends_the_calls_in_flight_with_a_true_error(kind: Kind) -> None:
    sandbox = stocked()
    ended: list[FreightExchangeError] = []
    exchange = client(sandbox)
    await exchange.__aenter__()
    if kind is not Kind.LOGIN:
        await exchange.login()
    arm(sandbox, "stall", kind, times=None)

    async def call() -> None:
        with pytest.raises(FreightExchangeError) as caught:
            await perform(exchange, kind)
        ended.append(caught.value)

    async with no_task_left(), anyio.create_task_group() as tasks:
        # More than there are connections: some are on their way, the others wait for a place.
        for _ in range(30):
            tasks.start_soon(call)
        await anyio.sleep(1)
        started = anyio.current_time()
        await exchange.aclose()
        assert anyio.current_time() - started <= 1
    sent = len(sandbox.audit_log.calls_to("POST", kind.value))
    doubted = [error for error in ended if error.may_have_taken_effect]
    assert len(ended) == 30
    assert len(doubted) == (sent if kind is Kind.WRITE else 0)
    assert len(sandbox.audit_log.offers) == len(doubted)


@pytest.mark.virtual_time
async def test_closing_goes_on_when_its_caller_is_cancelled() -> None:
    sandbox = stocked()
    async with no_task_left():
        exchange = client(sandbox)
        await exchange.__aenter__()
        await exchange.login()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await exchange.aclose()
        with pytest.raises(FreightExchangeError, match="closed"):
            await perform(exchange, Kind.READ)
