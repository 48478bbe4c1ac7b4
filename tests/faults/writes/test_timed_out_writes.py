"""Tests of writes that a caller's timeout cuts off: they are recorded, and can be reconciled."""

from __future__ import annotations

import asyncio
import pickle

import anyio
import pytest
from tests.faults.support import REQUEST, Kind, arm, patient, perform, stocked, unkept

from freight_exchange import Applied, FreightExchange, NotApplied, OutcomeUnknownError
from freight_exchange.hooks import Attempt, Event
from freight_exchange.models import SubmitOffer
from freight_exchange.testing import Sandbox

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]


async def cut_by_anyio(exchange: FreightExchange, seconds: float) -> None:
    with anyio.fail_after(seconds):
        await perform(exchange, Kind.WRITE)


async def cut_by_asyncio(exchange: FreightExchange, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await perform(exchange, Kind.WRITE)


async def find(fault: str, cut: object, *, processed: bool) -> None:
    sandbox, seen = stocked(Sandbox()), list[Attempt]()

    def keep(event: Event) -> None:
        if isinstance(event, Attempt) and event.abandoned and event.may_have_taken_effect:
            seen.append(event)

    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client, deadline=20, hooks=[keep]) as exchange,
    ):
        await exchange.login()
        arm(sandbox, fault, Kind.WRITE, seconds=5.0, processed=processed)
        with pytest.raises(TimeoutError):
            await cut(exchange, 2)  # type: ignore[operator]  # one of the two above
        await anyio.sleep(20)
        [attempt] = seen
        assert isinstance(attempt.write, SubmitOffer)
        assert attempt.write.request == REQUEST
        found = await exchange.reconcile(attempt.write)
        assert isinstance(found, Applied if processed else NotApplied)
        kept = pickle.loads(pickle.dumps(OutcomeUnknownError(write=attempt.write)))
        assert isinstance(await kept.reconcile(exchange), type(found))
    assert len(sandbox.audit_log.offers) == int(processed)


CASES = [("slow", True), ("stall", True), ("stall", False)]


@pytest.mark.parametrize(("fault", "processed"), CASES)
async def test_a_submit_cut_off_by_fail_after_is_found_and_reconciled(fault: str, processed: bool) -> None:
    await find(fault, cut_by_anyio, processed=processed)


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize(("fault", "processed"), CASES)
async def test_a_submit_cut_off_by_asyncio_timeout_is_found_and_reconciled(fault: str, processed: bool) -> None:
    await find(fault, cut_by_asyncio, processed=processed)


async def test_submit_that_was_cancelled_before_it_left_has_no_write_record() -> None:
    sandbox, seen = stocked(Sandbox()), list[Event]()
    async with (
        unkept(sandbox) as http_client,
        patient(sandbox, http_client=http_client, deadline=20, hooks=[seen.append]) as exchange,
    ):
        await exchange.login()
        seen.clear()
        arm(sandbox, "connect_stall", Kind.WRITE)
        with pytest.raises(TimeoutError):
            await cut_by_anyio(exchange, 2)
        await anyio.sleep(20)
    assert not any(isinstance(event, Attempt) and event.may_have_taken_effect for event in seen)
    assert not sandbox.audit_log.offers
