"""Replica that follows: another one scans, and the store has deliveries that are due."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
from tests.unit.bot.rig import new_bot, offers
from tests.unit.bot.runtime.fleet.one_of_two import OneOfTwo

from freight_exchange import Bot, RetryLater
from freight_exchange.testing import Sandbox

__all__ = ["claims", "follower", "waiting_store"]


async def waiting_store(sandbox: Sandbox, count: int = 1) -> tuple[OneOfTwo, Sequence[int]]:
    """Return a store that another replica scans for, and the requests whose deliveries are due."""
    store = OneOfTwo()
    indexes = [sandbox.publish() for _ in range(count)]
    bot = new_bot(store)

    @bot.on_new(id="quote")
    async def postpone(request: Any, ctx: Any) -> None:
        raise RetryLater(timedelta(seconds=1))

    async with sandbox.running(bot):
        await anyio.sleep(60)
    store.is_free = False
    return store, indexes


@asynccontextmanager
async def follower(sandbox: Sandbox, store: OneOfTwo, handle: Any = None, **options: Any) -> AsyncIterator[Bot]:
    """Run a replica that follows during the block."""
    bot = new_bot(store, **options)
    bot.on_new(id="quote")(handle or offers())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bot.serve, exchange=sandbox.client()))
        yield bot
        bot.stop()


def claims(store: OneOfTwo) -> int:
    """Return the number of attempts that count."""
    connection = store._database._connection
    assert connection is not None
    ((attempts,),) = connection.execute("SELECT sum(attempts) FROM delivery")
    return int(attempts)
