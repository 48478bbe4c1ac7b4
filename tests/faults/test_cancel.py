"""Tests of cancellation at every await, and of closing with calls in flight."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from tests.faults.support import REQUEST, Kind, arm, is_on_asyncio, outcome, patient, perform, stocked, unkept

from freight_exchange import FreightExchange, FreightExchangeError, RetryPolicy
from freight_exchange.hooks import Attempt, Event
from freight_exchange.testing import Sandbox
from freight_sandbox.server import Server, serve

pytestmark = pytest.mark.both_backends

Cancel = Callable[[Callable[[], Awaitable[object]], int], Awaitable[bool]]

_MOST_STEPS = 400
# While the test counts turns, a clock that jumps never gets to: waiting must take no time at all.
_AT_ONCE = RetryPolicy(base=1e-300)


async def in_a_scope(work: Callable[[], Awaitable[object]], steps: int) -> bool:
    """Start the work and cancel its scope after some turns of the loop; return whether it had ended before."""
    done = False
    scope = anyio.CancelScope()

    async def run() -> None:
        nonlocal done
        with scope:
            await work()
            done = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await turns(steps)
        scope.cancel()
    return done


async def natively(work: Callable[[], Awaitable[object]], steps: int, *, times: int = 1) -> bool:
    """Start the work and cancel its task after some turns of the loop, and again during the first cancellation."""
    task = asyncio.ensure_future(work())
    await turns(steps)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    try:
        await task
    except asyncio.CancelledError:
        return False
    return True


async def twice(work: Callable[[], Awaitable[object]], steps: int) -> bool:
    return await natively(work, steps, times=2)


async def turns(count: int) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def no_task_left() -> AsyncIterator[None]:
    """Check that no task is left after the client has closed."""
    before = await count_tasks()
    yield
    assert await count_tasks() == before


@asynccontextmanager
async def all_closed(face: Server) -> AsyncIterator[None]:
    """Check that the server has no connection left after the client has closed."""
    yield
    with anyio.fail_after(5):
        while face.open_connections:  # noqa: ASYNC110 - the sandbox has no event to wait for
            await anyio.sleep(0.01)


async def count_tasks() -> int:
    # What has just ended is counted until the loop has turned.
    await turns(3)
    if is_on_asyncio():
        return len(asyncio.all_tasks())
    import trio

    return trio.lowlevel.current_statistics().tasks_living


def ways() -> list[Cancel]:
    return [in_a_scope, natively, twice] if is_on_asyncio() else [in_a_scope]


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
    sandbox = stocked(Sandbox())
    seen: list[Event] = []
    await anyio.sleep(1)
    async with (
        no_task_left(),
        unkept(sandbox) as http_client,
        patient(sandbox, http_client=http_client, max_connections=1, hooks=[seen.append], retries=_AT_ONCE) as exchange,
    ):
        if kind is Kind.READ:
            # The others begin without a token, so that the login before them is met by the cancellation as well.
            await exchange.login()
        if fault is not None:
            arm(sandbox, fault, kind)
        ended = await cancel(lambda: outcome(exchange, kind), steps)
        # With one connection, one that was lost would be all of them.
        for after in (Kind.READ, Kind.WRITE):
            result = await outcome(exchange.with_options(deadline=5), after)
            assert result == "ok" or (result, fault, after) == ("OutcomeUnknownError", fault, kind)
    made = [call for call in sandbox.audit_log.calls if call.path == Kind.WRITE.value]
    assert len(sandbox.audit_log.offers) <= 2, f"after {steps} steps"
    if kind is Kind.WRITE and not ended and len(sandbox.audit_log.offers) == 2:
        reported = [event for event in seen if isinstance(event, Attempt) and event.path == Kind.WRITE.value]
        assert len(reported) == len(made), "an abandoned attempt is on record all the same"
    return ended


@pytest.mark.parametrize("kind", list(Kind))
async def test_cancelled_at_any_moment_over_sockets(kind: Kind) -> None:
    sandbox = stocked(Sandbox())
    async with (
        serve(sandbox.exchange) as face,
        all_closed(face),
        patient(sandbox, url=face.url, max_connections=1) as exchange,
    ):
        await exchange.login()
        for number, (cancel, steps) in enumerate(itertools.product(ways(), range(0, 120, 3)), start=1):

            async def work(amount: int = number) -> None:
                if kind is Kind.WRITE:
                    await exchange.bids.submit(REQUEST, amount=amount, currency=840)
                else:
                    await perform(exchange, kind)

            await cancel(work, steps)
        for after in Kind:
            assert await outcome(exchange.with_options(deadline=5), after) == "ok"
    assert not sandbox.audit_log.duplicate_offers()


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", list(Kind))
async def test_closing_ends_the_calls_in_flight_with_a_true_error(kind: Kind) -> None:
    """Each call ends at once, with an error that states whether the write was sent."""
    sandbox = stocked(Sandbox())
    ended: list[FreightExchangeError] = []
    exchange = sandbox.client()
    await exchange.__aenter__()
    if kind is not Kind.LOGIN:
        await exchange.login()
    arm(sandbox, "stall", kind, times=None)

    async def call(client: FreightExchange) -> None:
        with pytest.raises(FreightExchangeError) as caught:
            await perform(client, kind)
        ended.append(caught.value)

    async with no_task_left(), anyio.create_task_group() as tasks:
        # More than there are connections: some are on their way, the others wait for a place.
        for _ in range(30):
            tasks.start_soon(call, exchange)
        await anyio.sleep(1)
        started = anyio.current_time()
        await exchange.aclose()
        assert anyio.current_time() - started < 0.01
    sent = len(sandbox.audit_log.calls_to("POST", kind.value))
    doubted = [error for error in ended if error.may_have_taken_effect]
    assert len(ended) == 30
    assert len(doubted) == (sent if kind is Kind.WRITE else 0)
    assert len(sandbox.audit_log.offers) == len(doubted)


@pytest.mark.virtual_time
async def test_closed_while_a_call_waits_to_try_again() -> None:
    sandbox = stocked(Sandbox())
    async with (
        sandbox.http_client() as http_client,
        anyio.create_task_group() as tasks,
        patient(sandbox, http_client=http_client) as exchange,
    ):
        await exchange.login()
        arm(sandbox, "throttled_seconds", Kind.READ, seconds=30.0)

        async def call() -> None:
            with pytest.raises(FreightExchangeError, match="closed"):
                await perform(exchange, Kind.READ)

        tasks.start_soon(call)
        await anyio.sleep(1)
    assert len(sandbox.audit_log.calls_to("POST", Kind.READ.value)) == 1
