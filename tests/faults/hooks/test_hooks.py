"""Tests of hooks that close their client or fail, and of middleware without a result."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import anyio
import pytest
from tests.faults.support import Kind, arm, outcome, patient, perform, stocked

from freight_exchange import (
    ConfigurationError,
    FreightExchange,
    OutcomeUnknownError,
    Request,
)
from freight_exchange.hooks import Attempt, Event, Login
from freight_exchange.testing import Sandbox
from freight_exchange.transport.call import Next

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]


class Closing:
    """Hook that closes its client at an event of its kind."""

    def __init__(self, kind: type[Event], path: str = "") -> None:
        self._kind = kind
        self._path = path
        self.exchange: FreightExchange
        self.closed_after: list[float] = []

    async def __call__(self, event: Event) -> None:
        if isinstance(event, self._kind) and (not self._path or getattr(event, "path", "") == self._path):
            began = anyio.current_time()
            await self.exchange.aclose()
            self.closed_after.append(anyio.current_time() - began)


@pytest.mark.parametrize("kind", [Kind.READ, Kind.WRITE])
async def test_a_client_closed_by_its_own_hook_closes_at_once_and_the_reply_counts(kind: Kind) -> None:
    sandbox, hook = stocked(Sandbox()), Closing(Attempt, kind.value)
    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client, hooks=[hook]) as exchange,
    ):
        hook.exchange = exchange
        await perform(exchange, kind)
        assert hook.closed_after == [0]
        with pytest.raises(ConfigurationError, match="closed"):
            await perform(exchange, Kind.READ)


async def test_a_client_closed_by_a_hook_of_the_login() -> None:
    sandbox, hook = stocked(Sandbox()), Closing(Login)
    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client, hooks=[hook]) as exchange,
    ):
        hook.exchange = exchange
        with pytest.raises(ConfigurationError, match="closed"):
            await perform(exchange, Kind.READ)
        assert hook.closed_after == [0]


async def test_closing_in_a_hook_cancels_other_calls() -> None:
    sandbox, hook, ended = stocked(Sandbox()), Closing(Attempt, Kind.WRITE.value), list[str]()
    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client, hooks=[hook]) as exchange,
    ):
        hook.exchange = exchange
        await exchange.login()
        arm(sandbox, "slow", Kind.READ, seconds=30.0)

        async def read() -> None:
            ended.append(await outcome(exchange, Kind.READ))

        started = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.sleep(1)
            await perform(exchange, Kind.WRITE)
        assert ended == ["TransportError"]
        assert hook.closed_after == [0]
        assert anyio.current_time() - started < 2


@pytest.mark.parametrize("kind", [Kind.READ, Kind.WRITE])
async def test_a_reply_counts_though_the_client_is_closed_while_a_hook_hangs(kind: Kind) -> None:
    sandbox, hanging, outcomes = stocked(Sandbox()), anyio.Event(), list[str]()

    async def hook(event: Event) -> None:
        if isinstance(event, Attempt) and event.path == kind.value:
            hanging.set()
            await anyio.sleep(3)

    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client, hooks=[hook]) as exchange,
        anyio.create_task_group() as tasks,
    ):

        async def call() -> None:
            outcomes.append(await outcome(exchange, kind))

        tasks.start_soon(call)
        await hanging.wait()
        await exchange.aclose()
    assert outcomes == ["ok"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("kind", [Kind.READ, Kind.WRITE])
async def test_reply_counts_if_a_hook_awaits_a_cancelled_task(kind: Kind) -> None:
    sandbox = stocked(Sandbox())

    async def hook(event: Event) -> None:
        if isinstance(event, Attempt):
            report = asyncio.get_running_loop().create_future()
            report.cancel()
            await report

    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client, hooks=[hook]) as exchange,
    ):
        assert await outcome(exchange, kind) == "ok"


async def test_a_bug_in_a_hook_is_not_lost_when_the_caller_leaves_in_the_same_tick(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sandbox, caller = stocked(Sandbox()), anyio.CancelScope()

    def hook(event: Event) -> None:
        if isinstance(event, Attempt) and event.path == Kind.READ.value:
            caller.cancel()
            raise KeyError("bug")

    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client, hooks=[hook]) as exchange,
    ):
        with caller:
            await perform(exchange, Kind.READ)
    assert caller.cancelled_caught
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.exc_info[0] for record in errors if record.exc_info] == [KeyError]


async def forgetful(request: Request, call_next: Next) -> Any:
    """Return `None` instead of the response."""
    response = await call_next(request)
    return None if request.path in (Kind.READ.value, Kind.WRITE.value) else response


async def test_a_middleware_that_returns_nothing_is_named_and_a_write_stays_in_doubt() -> None:
    sandbox = stocked(Sandbox())
    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client, middleware=[forgetful]) as exchange,
    ):
        with pytest.raises(ConfigurationError, match=r"the middleware forgetful must .* not NoneType"):
            await perform(exchange, Kind.READ)
        with pytest.raises(OutcomeUnknownError, match=r"the middleware forgetful must .* not NoneType") as caught:
            await perform(exchange, Kind.WRITE)
    assert caught.value.write is not None
    assert len(sandbox.audit_log.offers) == 1
