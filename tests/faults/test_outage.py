"""Tests of the retry budget in an outage."""

from __future__ import annotations

import anyio
import pytest
from tests.faults.support import Kind, arm, outcome, patient, stocked, unkept

from freight_exchange.testing import Sandbox

CALLS = 1_000

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize(
    ("fault", "at_once"),
    [("unavailable_forever", False), ("refused", False), ("stall", True), ("throttled", False), ("throttled", True)],
)
async def test_requests_under_a_total_outage_are_bounded(fault: str, at_once: bool) -> None:
    sandbox = stocked(Sandbox())
    async with unkept(sandbox) as http_client, patient(sandbox, http_client=http_client, deadline=1e6) as exchange:
        await exchange.login()
        arm(sandbox, fault, Kind.READ, times=None)

        async def call() -> None:
            assert await outcome(exchange, Kind.READ) != "ok"

        async with anyio.create_task_group() as tasks:
            for _ in range(CALLS):
                tasks.start_soon(call) if at_once else await call()
        sent = len(sandbox.audit_log.calls_to("POST", Kind.READ.value))
        print(f"{fault}, {CALLS} calls: {sent / CALLS:.3f} of the traffic")  # noqa: T201 - the figure, for `-s`
        assert CALLS < sent <= CALLS * (1.10 if fault == "throttled" else 1.05)

        # The outage ends; successes fill the budget again, and a single failure is retried once more.
        sandbox.exchange.faults.clear()
        for _ in range(20):
            assert await outcome(exchange, Kind.READ) == "ok"
        arm(sandbox, "unavailable", Kind.READ)
        assert await outcome(exchange, Kind.READ) == "ok"
