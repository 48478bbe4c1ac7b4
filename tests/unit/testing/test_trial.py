"""Trial of a bot in a test."""

from __future__ import annotations

from typing import Any

import anyio.lowlevel
import pytest
from tests.bot.rig import INTERVAL, eventually, new_bot, offering_bot

from freight_exchange import Bot
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Sandbox

pytestmark = pytest.mark.virtual_time


async def test_idle_covers_publication_at_time_of_last_scan(sandbox: Sandbox) -> None:
    bot = offering_bot(None)
    async with sandbox.running(bot) as trial:
        while trial.status.feed is None or trial.status.feed.cover_age is None:
            await anyio.lowlevel.checkpoint()
        index, began = sandbox.publish(), anyio.current_time()
        await trial.idle()
        assert len(sandbox.audit_log.offers_on(index)) == 1
        assert anyio.current_time() - began < 2 * INTERVAL


async def test_nothing_is_durable_after_crash(sandbox: Sandbox) -> None:
    """A crash also ends concurrent deliveries."""
    store = MemoryStore()
    for _ in range(6):
        sandbox.publish()
    async with sandbox.running(offering_bot(store), crash_at="after send", times=2) as trial:
        await trial.crashed()
    # The next run learns nothing new.
    sandbox.strike(*FAULTS["unavailable_forever"](path="quote/bid", times=None))
    later = offering_bot(store)
    async with sandbox.running(later) as trial:
        await eventually(lambda: trial.status.state == "running")
        query = "SELECT count(*) FROM effect WHERE state = 'confirmed'"
        assert await store.run(lambda db: db.run(query).fetchone()) == (1,)


class _OfItsOwn(BaseException):
    pass


@pytest.mark.parametrize("where", ["idle", "leaving", "beside"])
@pytest.mark.parametrize(
    "error",
    [pytest.fail.Exception("must not be called"), SystemExit(3), _OfItsOwn("gone")],
    ids=["fail", "exit", "own"],
)
async def test_base_exception_reaches_caller(sandbox: Sandbox, error: BaseException, where: str) -> None:
    bot = Bot(sandbox.client(), store=None, start="backfill") if where == "beside" else new_bot(None)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        raise error

    async def run() -> None:
        if where == "beside":
            async with bot:
                await anyio.sleep(60)
        else:
            async with sandbox.running(bot) as trial:
                await (trial.idle() if where == "idle" else anyio.sleep(60))

    sandbox.publish()
    with pytest.raises(type(error)) as raised:
        await run()
    assert raised.value is error


async def test_update_reaches_the_handler_of_updates(sandbox: Sandbox) -> None:
    bot, received = new_bot(None), list[tuple[int, Any]]()

    @bot.on_updated
    async def requote(request: Any, ctx: Any) -> None:
        received.append((request.index, request.quantity))

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
        sandbox.update(index, quantity=30)
        await trial.idle()
    assert received == [(index, 30)]
