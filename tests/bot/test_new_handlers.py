"""Backfill of handlers with `from_start`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.bot.recorders import hearing
from tests.bot.rig import HOUR, new_bot, other, run_until_idle

from freight_exchange import Bot
from freight_exchange.store import Store
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("start", ["now", "backfill"])
async def test_known_requests_are_delivered_once(store: Store, start: str) -> None:
    sandbox, old, fresh = Sandbox(), list[int](), list[int]()

    def make_bot(**options: Any) -> Bot:
        return hearing(new_bot(store, start=start), fresh, id="fresh", from_start=True, **options)

    known = [sandbox.publish() for _ in range(3)]
    options = {"start": start, "interval": timedelta(minutes=1), "allowance": timedelta(seconds=1)}
    async with sandbox.running(hearing(new_bot(store, **options), old)) as trial:
        await trial.idle()
        gone = sandbox.publish()
        await trial.idle()
        sandbox.exchange.withdraw(gone, sandbox.now())
        await anyio.sleep(2 * HOUR)
        sandbox.exchange.update(known[0], sandbox.now(), other("Ningbo"))
        await trial.idle()
    assert sorted(old) == [*([] if start == "now" else known), gone]

    for _ in range(3):
        await run_until_idle(sandbox, make_bot())
    assert sorted(fresh) == known
    async with sandbox.running(make_bot()) as trial:
        late = sandbox.publish()
        await trial.idle()
    assert sorted(fresh) == [*known, late]


async def test_first_run_delivers_nothing_twice(store: Store) -> None:
    sandbox, fresh = Sandbox(), list[int]()
    known = [sandbox.publish() for _ in range(3)]
    for _ in range(2):
        await run_until_idle(sandbox, hearing(new_bot(store), fresh, from_start=True))
    assert sorted(fresh) == known


async def test_handler_without_deliveries_gets_nothing(store: Store) -> None:
    sandbox, old, received = Sandbox(), list[int](), list[int]()
    known = sandbox.publish()

    def make_bot(**options: Any) -> Bot:
        return hearing(hearing(new_bot(store), old), received, id="choosy", **options)

    await run_until_idle(sandbox, make_bot(origin="Ningbo"))
    await run_until_idle(sandbox, make_bot(from_start=True))
    assert (old, received) == ([known], [])


async def test_backfill_follows_the_filter_of_the_handler(store: Store) -> None:
    sandbox, kinds = Sandbox(), list[tuple[str, str, Any]]()
    sandbox.publish()
    sandbox.publish(other("Ningbo"))
    await run_until_idle(sandbox, hearing(new_bot(store), []))

    bot = new_bot(store)

    @bot.on_new(id="fresh", origin="Ningbo", from_start=True)
    async def fresh(request: Any, ctx: Any) -> None:
        kinds.append((ctx.event.kind, request.origin, ctx.event.observed_between[0]))

    await run_until_idle(sandbox, bot)
    assert kinds == [("new", "Ningbo", None)]
