"""Tests of the deadline, and of a loop that stands still."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import anyio
import pytest
from tests.faults.support import BRISK, QUICK, Kind, arm, outcome, patient, perform, stocked

from freight_exchange import DeadlineExceededError, OutcomeUnknownError, RetryPolicy, Timeouts
from freight_exchange.testing import Sandbox
from freight_sandbox.server import serve

pytestmark = pytest.mark.both_backends


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("fault", ["drip", "stall", "stall_mid_reply", "throttled_seconds", "unavailable_retry_after"])
async def test_the_deadline_bounds_all_attempts_and_waits(fault: str, kind: Kind) -> None:
    """Each attempt times out after 2 s, or never because bytes keep coming. The call ends after 5 s."""
    sandbox = stocked(Sandbox())
    if kind is not Kind.LOGIN:
        # The time of the login counts as well.
        arm(sandbox, "slow", Kind.LOGIN, seconds=1.5)
    arm(sandbox, fault, kind, times=None, seconds=1.0)
    retries = RetryPolicy(attempts=100, base=0.5)
    options = {"timeouts": Timeouts(read=2), "retries": retries, "deadline": 5}
    async with sandbox.http_client() as http_client, patient(sandbox, http_client=http_client, **options) as exchange:
        started = anyio.current_time()
        ended = await outcome(exchange, kind)
        elapsed = anyio.current_time() - started
    assert elapsed <= 5.05
    assert ended != "ok"
    if fault == "drip":
        assert ended == ("OutcomeUnknownError" if kind is Kind.WRITE else "DeadlineExceededError")
        assert elapsed == pytest.approx(5)
    if kind is Kind.WRITE:
        assert len(sandbox.audit_log.offers) <= 1


@pytest.mark.virtual_time
async def test_a_write_that_waits_for_a_place_was_not_sent() -> None:
    sandbox = stocked(Sandbox())
    arm(sandbox, "stall", Kind.READ, times=None)
    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client, max_connections=1) as exchange,
        anyio.create_task_group() as tasks,
    ):
        await exchange.login()
        tasks.start_soon(outcome, exchange.with_options(timeouts=Timeouts(read=59)), Kind.READ)
        await anyio.sleep(1)
        with pytest.raises(DeadlineExceededError):
            await perform(exchange.with_options(deadline=3), Kind.WRITE)
        tasks.cancel_scope.cancel()
    assert not sandbox.audit_log.calls_to("POST", Kind.WRITE.value)


@pytest.mark.parametrize("kind", list(Kind))
async def test_a_loop_that_was_blocked(kind: Kind) -> None:
    """The loop stands still for longer than timeouts and deadline while calls are in flight.

    Ten seconds are scaled down.
    """
    sandbox = stocked(Sandbox())
    options: dict[str, Any] = {"timeouts": QUICK, "retries": BRISK, "deadline": 0.25, "max_writes": 10}
    ended: Counter[str] = Counter()
    async with sandbox.http_client() as http_client, patient(sandbox, http_client=http_client, **options) as exchange:
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
        assert sum(ended.values()) == 10
        assert set(ended) <= {"ok", "DeadlineExceededError", *(["OutcomeUnknownError"] if kind is Kind.WRITE else [])}
        # A write that had not left before the loop stood still never leaves.
        left = ended.total() - ended["DeadlineExceededError"] if kind is Kind.WRITE else 0
        assert len(sandbox.audit_log.offers) <= left
        assert await outcome(exchange.with_options(deadline=5), Kind.READ) == "ok"
        assert await outcome(exchange.with_options(deadline=5), Kind.WRITE) == "ok"


@pytest.mark.virtual_time
async def test_a_write_past_its_deadline_is_unknown_and_reports_it() -> None:
    sandbox = stocked(Sandbox())
    arm(sandbox, "stall", Kind.WRITE)
    async with sandbox.client() as exchange:
        with pytest.raises(OutcomeUnknownError, match="deadline of 5 s") as caught:
            await perform(exchange.with_options(deadline=5), Kind.WRITE)
    assert caught.value.elapsed == pytest.approx(5)
    assert len(sandbox.audit_log.offers) == 1


@pytest.mark.long
@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("fault", ["drip", "stall", "stall_mid_reply", "header_flood", "reset_after_send"])
async def test_the_deadline_is_kept_over_sockets(fault: str, kind: Kind) -> None:
    """The limit allows for the lag of the loop, which a concurrent task measures."""
    sandbox = stocked(Sandbox())
    worst = lag = 0.0
    async with (
        serve(sandbox.exchange) as face,
        patient(
            sandbox, url=face.url, retries=RetryPolicy(attempts=1000, base=0.01, cap=0.01), deadline=0.5
        ) as exchange,
        anyio.create_task_group() as tasks,
    ):
        if kind is not Kind.LOGIN:
            await exchange.login()
        arm(sandbox, fault, kind, times=None, **({"seconds": 0.01} if fault == "drip" else {}))

        async def probe() -> None:
            nonlocal lag
            while True:
                wake_at = time.perf_counter() + 0.005
                await anyio.sleep(0.005)
                lag = max(lag, time.perf_counter() - wake_at)

        async def call() -> None:
            nonlocal worst
            started = time.perf_counter()
            ended = await outcome(exchange, kind)
            worst = max(worst, time.perf_counter() - started - 0.5)
            if fault in ("drip", "stall", "stall_mid_reply"):
                assert ended == ("OutcomeUnknownError" if kind is Kind.WRITE else "DeadlineExceededError")

        tasks.start_soon(probe)
        for _ in range(4):
            async with anyio.create_task_group() as calls:
                for _ in range(4):
                    calls.start_soon(call)
        tasks.cancel_scope.cancel()
    print(f"{fault}, {kind.name}: overshoot {worst * 1000:.1f} ms, lag of the loop {lag * 1000:.1f} ms")  # noqa: T201 - the figure, for `-s`
    assert worst - lag <= 0.05
