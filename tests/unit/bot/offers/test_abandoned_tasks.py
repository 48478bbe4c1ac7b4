"""Tests of tasks that outlive their handler: they make no offer."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.unit.bot.rig import (
    AMOUNT,
    BIDS,
    CURRENCIES,
    amounts_on,
    eventually,
    new_bot,
    sent,
    strike,
)

from freight_exchange import Bot, Drop
from freight_exchange.bot.handlers.context import Context
from freight_exchange.errors import ConfigurationError
from freight_exchange.store import SQLiteStore, Store
from freight_exchange.store.sqlite import feed as feeds
from freight_exchange.testing import Sandbox


@pytest.mark.virtual_time
class TestAbandonedTask:
    """The delivery is done, so that no call would repeat a failed offer."""

    @pytest.mark.parametrize("looks_up", [False, True])
    async def test_makes_no_offer(self, sandbox: Sandbox, store: Store, looks_up: bool) -> None:
        bot, errors = new_bot(store), list[str]()

        async def later(ctx: Any) -> None:
            if not looks_up:
                await anyio.sleep(1)
            try:
                await ctx.offer(amount=AMOUNT, currency="USD" if looks_up else 1)
            except ConfigurationError as error:
                errors.append(str(error))

        @bot.on_new(id="quote")
        async def quote(request: Any, ctx: Any) -> None:
            if not started:
                started.append(ctx)
                beside.start_soon(later, ctx)
                await anyio.lowlevel.checkpoint()
                if looks_up:
                    await anyio.sleep(0.5)

        started: list[Any] = []
        strike(sandbox, "slow", CURRENCIES, seconds=4.0)
        async with anyio.create_task_group() as beside, sandbox.running(bot) as trial:
            index = sandbox.publish()
            await trial.idle()
            await anyio.sleep(60)
            assert (sent(sandbox), trial.status.handled, trial.status.retried) == (0, 1, looks_up), (
                "one that had begun is called for again"
            )
        assert amounts_on(sandbox, index) == []
        (error,) = errors
        assert "the handler 'quote' has ended" in error

    async def test_makes_no_offer_after_reading_bids(self, sandbox: Sandbox, store: Store) -> None:
        bot, errors, began = new_bot(store), list[str](), anyio.Event()

        async def offer(ctx: Any) -> None:
            with pytest.raises(ConfigurationError) as error:
                await ctx.offer(amount=AMOUNT, currency=840, allow_existing=True)
            errors.append(str(error.value))

        @bot.on_new(id="quote")
        async def quote(request: Any, ctx: Any) -> None:
            if began.is_set():
                raise Drop
            began.set()
            beside.start_soon(offer, ctx)
            await anyio.sleep(1)

        strike(sandbox, "slow", BIDS, times=None)
        async with anyio.create_task_group() as beside, sandbox.running(bot) as trial:
            index = sandbox.publish()
            await anyio.sleep(60)
            assert (sent(sandbox), trial.status.handled, trial.status.offers) == (0, 1, {})
        assert amounts_on(sandbox, index) == []
        (error,) = errors
        assert "the handler 'quote' has ended" in error

    async def test_may_wait_for_earlier_offer(self, sandbox: Sandbox, store: Store) -> None:
        bot, bids = new_bot(store), list[Any]()

        async def slowly(ctx: Any) -> None:
            bids.append(await ctx.offer(amount=AMOUNT, currency=840))

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            if not bids:
                beside.start_soon(slowly, ctx)
                await eventually(lambda: sent(sandbox))

        strike(sandbox, "slow", seconds=4.0)
        async with anyio.create_task_group() as beside, sandbox.running(bot) as trial:
            index = sandbox.publish()
            await trial.idle()
            assert trial.status.handled == 1
        assert (amounts_on(sandbox, index), len(bids)) == ([AMOUNT], 1)


TIMEOUT = 30


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Event that is set once a handler has ended; offers are recorded only after that."""
    made, put, close = threading.Event(), feeds.SQLiteFeed.put_effect, Context.close

    def once_it_has(feed: Any, effect: Any, **expected: Any) -> bool:
        if effect.key.startswith("offer"):
            assert made.wait(TIMEOUT)
        return put(feed, effect, **expected)

    def ends(context: Context) -> None:
        close(context)
        made.set()

    monkeypatch.setattr(feeds.SQLiteFeed, "put_effect", once_it_has)
    monkeypatch.setattr(Context, "close", ends)
    return made


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize("drops", [True, False])
async def test_abandoned_task_leaves_intent_at_most(sandbox: Sandbox, tmp_path: Path, drops: bool) -> None:
    """The handler is called again, unless it drops the event, and makes the offer."""
    store, errors, attempts = SQLiteStore(tmp_path / "bot.db"), list[str](), list[int]()
    bot = Bot(store=store, start="backfill", interval=timedelta(seconds=1), settle=timedelta(0))
    is_written, intents = anyio.Event(), list[str]()

    async def offer(ctx: Any) -> None:
        with pytest.raises(ConfigurationError) as error:
            await ctx.offer(amount=AMOUNT, currency=840)
        errors.append(str(error.value))

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) > 1:
            await ctx.offer(amount=AMOUNT, currency=840)
            bot.stop()
            return
        beside.start_soon(offer, ctx)
        await is_written.wait()
        if drops:
            raise Drop

    def visit(point: str) -> None:
        if point == "before intent":
            is_written.set()
        elif point == "after intent":
            intents.append(point)
        elif point == "after settle" and drops:
            bot.stop()

    index = sandbox.publish()
    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as beside:
            await bot.serve(exchange=sandbox.client(), failpoints=visit)
    store.close()
    (error,) = errors
    assert "the handler 'quote' has ended" in error
    assert (len(attempts), len(intents)) == ((1, 1) if drops else (2, 2))
    assert sent(sandbox) == len(amounts_on(sandbox, index)) == (0 if drops else 1)
