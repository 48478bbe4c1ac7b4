"""A cancellation by asyncio itself does not stop the store's thread, which goes on alone."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from freight_exchange import RequestEvent
from freight_exchange.store import SQLiteStore
from freight_exchange.store.protocol import Binding
from freight_exchange.testing import Sandbox


class Slow(SQLiteStore):
    """Its reads take a while, as on a busy disk."""

    def open(self, binding: Binding, *, lease: float) -> Any:
        feed = super().open(binding, lease=lease)
        pending = feed.pending

        def slowly(**named: Any) -> Any:
            time.sleep(0.1)
            return pending(**named)

        feed.pending = slowly  # type: ignore[method-assign]  # for this one
        return feed


pytestmark = [pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True), pytest.mark.both_backends]


async def test_who_is_cancelled_natively_gets_nothing_twice(tmp_path: Path) -> None:
    sandbox = Sandbox()
    for _ in range(150):
        sandbox.publish()
    handed: list[int] = []
    store = Slow(tmp_path / "feed.db")
    async with sandbox.client() as exchange, exchange.watch(store=store, start="backfill") as feed:
        while len(handed) < 100:
            handed += [event.request.index for event in [await anext(feed)] if isinstance(event, RequestEvent)]
        for _ in range(2):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(anext(feed), 0.03)
        while len(set(handed)) < 150:
            handed += [event.request.index for event in [await anext(feed)] if isinstance(event, RequestEvent)]
    store.close()
    assert len(handed) == 150


async def test_who_is_cancelled_natively_while_he_enters_leaves_nothing_held(tmp_path: Path) -> None:
    sandbox = Sandbox()
    store = SlowToOpen(tmp_path / "feed.db")
    async with sandbox.client() as exchange:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(exchange.watch(store=store).__aenter__(), 0.05)
        async with exchange.watch(store=store) as feed:
            assert feed.status().state == "live"
    store.close()


class SlowToOpen(SQLiteStore):
    def open(self, binding: Binding, *, lease: float) -> Any:
        time.sleep(0.2)
        return super().open(binding, lease=lease)
