"""Cancellations by a handler's own code are failures of the handler."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.bot.rig import HOUR, Calls, new_bot, other, run_until_idle

from freight_exchange.store import Store
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time
ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)


async def test_failure_during_cancellation_ends_no_bot(store: Store) -> None:
    """The task group raises the cancellation and the failure in one exception group."""
    sandbox, attempts = Sandbox(), list[int]()

    def make_bot() -> Any:
        bot = new_bot(store, drain=timedelta(seconds=5))

        @bot.on_new(retries=1)
        async def careless(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            if len(attempts) > 1:
                return

            async def closing_badly() -> None:
                try:
                    await anyio.sleep(HOUR)
                finally:
                    raise OSError("cannot close")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(closing_badly)
                tasks.start_soon(anyio.sleep, HOUR)

        return bot

    sandbox.publish()
    async with sandbox.running(make_bot()):
        await anyio.sleep(60)
    await run_until_idle(sandbox, make_bot())
    assert len(attempts) == 2


@ON_ASYNCIO  # only asyncio's tasks can be cancelled by anybody
async def test_handler_that_awaits_cancelled_task_fails(store: Store) -> None:
    """The handler's own task is cancelled, and the bot continues."""
    sandbox, calls = Sandbox(), Calls()
    bot = new_bot(store)

    @bot.on_new(retries=1)
    async def entangled(request: Any, ctx: Any) -> None:
        calls.note("entangled", ctx, request.index)
        if request.origin == "Ningbo":
            job = asyncio.create_task(asyncio.sleep(HOUR))
            job.cancel()
            await job

    sandbox.publish(other("Ningbo"))
    async with sandbox.running(bot) as trial:
        await trial.idle()
        index = sandbox.publish()
        await trial.idle()
        (dead,) = await bot.dead_letters()
    assert dead.attempts == 2
    assert "cancelled" in (dead.error or "")
    assert calls.of("entangled")[-1] == (index, 1)


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(HOUR)


async def cancels_itself_twice_and_swallows_one() -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await cancels_itself()
    await cancels_itself()


async def is_cancelled_by_another() -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(5, task.cancel)
    await asyncio.sleep(HOUR)


async def cancels_its_own_group() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancels_itself)
        await cancels_itself()


@pytest.mark.parametrize(
    "way", [cancels_itself, cancels_itself_twice_and_swallows_one, is_cancelled_by_another, cancels_its_own_group]
)
@ON_ASYNCIO  # only asyncio's tasks can be cancelled by anybody
async def test_handler_whose_task_is_cancelled_fails(store: Store, way: Callable[[], Awaitable[None]]) -> None:
    """A library that the handler calls may cancel its task."""
    sandbox, calls = Sandbox(), Calls()
    bot = new_bot(store, concurrency=1)

    @bot.on_new(retries=2)
    async def quote(request: Any, ctx: Any) -> None:
        calls.note("quote", ctx, request.index)
        if request.origin == "Ningbo":
            await way()

    bad = sandbox.publish(other("Ningbo"))
    async with sandbox.running(bot) as trial:
        await trial.idle()
        good = sandbox.publish()
        await trial.idle()
        (dead,) = await bot.dead_letters()
    assert calls.of("quote") == [(bad, 1), (bad, 2), (bad, 3), (good, 1)]
    assert (dead.request, dead.attempts) == (bad, 3)
    assert "cancelled" in (dead.error or "")


async def test_log_keeps_own_fields_of_handler(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, bot = Sandbox(), new_bot(store)

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        ctx.log.info("priced", extra={"price": "1840.50", "request": "none of the handler's business"})
        ctx.log.info("plainly", extra=None)

    index = sandbox.publish()
    with caplog.at_level(logging.INFO, "freight_exchange.bot"):
        await run_until_idle(sandbox, bot)
    records: list[Any] = [record for record in caplog.records if record.getMessage() in ("priced", "plainly")]
    assert [(one.event, one.handler, one.request, one.attempt) for one in records] == [("new", "quote", index, 1)] * 2
    assert records[0].price == "1840.50"
