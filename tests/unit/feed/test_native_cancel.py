"""Tests of cancellations by asyncio itself, which do not stop the store's thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from freight_exchange import RequestEvent
from freight_exchange.store import SQLiteStore
from freight_exchange.store.protocol import Binding
from freight_exchange.testing import Sandbox


class Slow(SQLiteStore):
    """Store with slow reads, as on a busy disk."""

    def open(self, binding: Binding, *, lease: float) -> Any:
        feed = super().open(binding, lease=lease)
        pending = feed.pending

        def slowly(**named: Any) -> Any:
            time.sleep(0.1)
            return pending(**named)

        feed.pending = slowly  # type: ignore[method-assign]  # for this one
        return feed


pytestmark = [pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True), pytest.mark.both_backends]


async def test_native_cancellation_delivers_no_event_twice(tmp_path: Path) -> None:
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
                # After a pause of the machine, the event may come before the timeout.
                event = await asyncio.wait_for(anext(feed), 0.03)
                handed += [event.request.index] if isinstance(event, RequestEvent) else []
        while len(set(handed)) < 150:
            handed += [event.request.index for event in [await anext(feed)] if isinstance(event, RequestEvent)]
    store.close()
    assert len(handed) == 150


async def test_native_cancellation_on_entry_keeps_no_lease(tmp_path: Path) -> None:
    sandbox = Sandbox()
    store = SlowToOpen(tmp_path / "feed.db")
    async with sandbox.client() as exchange:
        entering = asyncio.create_task(exchange.watch(store=store).__aenter__())
        assert await asyncio.to_thread(store.begun.wait, 30)
        entering.cancel()
        asyncio.get_running_loop().call_later(0.1, store.go_on.set)
        await asyncio.wait([entering])
        assert entering.cancelled()
        async with exchange.watch(store=store) as feed:
            assert feed.status().state == "live"
    store.close()


class SlowToOpen(SQLiteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def open(self, binding: Binding, *, lease: float) -> Any:
        self.begun.set()
        assert self.go_on.wait(30)
        return super().open(binding, lease=lease)
