"""Tests of counting the waiting deliveries: rarely, where a count takes long."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

import anyio
import pytest
from tests.old.rig import new_bot

from freight_exchange.bot.unit_of_work import UnitOfWork
from freight_exchange.store import Store
from freight_exchange.store.sqlite.feed import SQLiteFeed
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time

COUNT_TIME = 2.0


async def test_counts_take_a_small_share_of_the_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox, bot, counts = Sandbox(), new_bot(store, concurrency=1), list[float]()
    count, read = SQLiteFeed.count_overdue, UnitOfWork.read

    def noted_count(self: SQLiteFeed, *, now: float, limit: int, handlers: Collection[str] | None = None) -> Any:
        counts.append(now)
        assert limit == 10_000, "the status says so"
        return count(self, now=now, limit=limit, handlers=handlers)

    async def slow_read(self: UnitOfWork, work: Any) -> Any:
        before = len(counts)
        result = await read(self, work)
        await anyio.sleep(COUNT_TIME * (len(counts) - before))
        return result

    monkeypatch.setattr(SQLiteFeed, "count_overdue", noted_count)
    monkeypatch.setattr(UnitOfWork, "read", slow_read)

    @bot.on_new
    async def handle(request: Any, ctx: Any) -> None:
        await anyio.sleep(1)

    for _ in range(200):
        sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
    between = [later - earlier for earlier, later in pairwise(counts) if later - earlier < 200]
    # Between the first count and the last one of the queue; an empty queue is counted once more.
    assert 2 <= len(between) <= 8
    assert min(between[:-1]) >= 20 * COUNT_TIME
