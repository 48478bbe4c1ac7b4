"""A handler that ends while its offer is being written down makes none, though the disk takes its time.

In real time, with a file: it is a thread that writes.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.unit.bot.ledger_rig import AMOUNT, amounts_on, sent

from freight_exchange import Bot, Drop
from freight_exchange.bot.delivery.context import Context
from freight_exchange.errors import ConfigurationError
from freight_exchange.store import SQLiteStore
from freight_exchange.store.sqlite import feed as feeds
from freight_exchange.testing import Sandbox

PATIENCE = 30

pytestmark = pytest.mark.anyio


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a handler has ended; no offer is written down before."""
    made, put, close = threading.Event(), feeds.SQLiteFeed.put_effect, Context.close

    def once_it_has(feed: Any, effect: Any, *, expected_state: Any) -> bool:
        if effect.key.startswith("offer"):
            assert made.wait(PATIENCE)
        return put(feed, effect, expected_state=expected_state)

    def ends(context: Context) -> None:
        close(context)
        made.set()

    monkeypatch.setattr(feeds.SQLiteFeed, "put_effect", once_it_has)
    monkeypatch.setattr(Context, "close", ends)
    return made


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize("drops", [True, False])
async def test_a_task_that_outlives_its_handler_leaves_an_intent_at_most(
    sandbox: Sandbox, tmp_path: Path, drops: bool
) -> None:
    """Unless its handler wants nothing more, it is called again, and its offer is made from what was left."""
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
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as beside:
            await bot.serve(exchange=sandbox.client(), failpoints=visit)
    store.close()
    (error,) = errors
    assert "the handler 'quote' has ended" in error
    assert (len(attempts), len(intents)) == ((1, 1) if drops else (2, 2))
    assert sent(sandbox) == len(amounts_on(sandbox, index)) == (0 if drops else 1)
