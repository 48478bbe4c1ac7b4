"""Tests of standby: a feed waits for another holder, and never for its own process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from tests.unit.store.rows import BINDING, LEASE

from freight_exchange import HeldError
from freight_exchange.feed.lease import Lease
from freight_exchange.store import MemoryStore, SQLiteStore, Store
from freight_exchange.store.protocol import Binding, FeedStore, HeldHereError
from freight_exchange.testing import Sandbox

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]

MANY = 500.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "feed.db"


@pytest.fixture
def reported(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return the log lines of a feed on standby."""
    caplog.set_level(logging.INFO, "freight_exchange.feed")
    return lambda: [record.getMessage() for record in caplog.records if "stands by" in record.msg]


class Occupied(MemoryStore):
    """Store that two other processes hold one after the other, and then this one for some seconds."""

    def __init__(self, here: float) -> None:
        super().__init__()
        self._began = anyio.current_time()
        self._here = here

    def open(self, binding: Binding, *, lease: float) -> FeedStore:  # type: ignore[override]
        passed = anyio.current_time() - self._began
        if passed < 2 * MANY:
            raise HeldError("the store is held", holder=f"process {7 + passed // MANY:g} on pod-b")
        if passed < 2 * MANY + self._here:
            raise HeldHereError("the store is open already", holder="this process")
        return super().open(binding, lease=lease)


async def test_another_process_is_waited_for_and_reported_once(reported: Callable[[], list[str]]) -> None:
    hold = Lease(Occupied(here=0), closes_store=True)
    await hold.take(BINDING, lease=LEASE, standby=True)
    assert hold.is_held
    assert reported() == ["the feed 'requests' stands by: it is held by process 7 on pod-b"]
    await hold.release()


@pytest.mark.parametrize(("here", "taken"), [(3, True), (MANY, False)])
async def test_standby_waits_for_a_feed_of_this_process_only_while_that_is_ending(here: float, taken: bool) -> None:
    hold = Lease(Occupied(here), closes_store=True)
    with nullcontext() if taken else pytest.raises(HeldError, match="already"):
        await hold.take(BINDING, lease=LEASE, standby=True)
    assert hold.is_held is taken
    await hold.release()


async def test_another_path_to_the_file_in_the_same_program_is_refused(
    path: Path, reported: Callable[[], list[str]]
) -> None:
    sandbox = Sandbox()
    async with sandbox.client() as exchange, exchange.watch(store=SQLiteStore(path, inline=True), standby=True):
        assert reported() == []
        second = exchange.watch(store=SQLiteStore(path, inline=True), name="another", standby=True)
        with anyio.fail_after(MANY), pytest.raises(HeldError, match="share one SQLiteStore object") as refusal:
            await second.__aenter__()
        assert "is open already in this process" in str(refusal.value)
        assert len(reported()) == 1


async def test_the_same_name_in_the_same_store_is_refused(store: Store) -> None:
    first, second = (Lease(store, closes_store=False) for _ in range(2))
    await first.take(BINDING, lease=LEASE, standby=True)
    with anyio.fail_after(MANY), pytest.raises(HeldError, match="its own name"):
        await second.take(BINDING, lease=LEASE, standby=True)
    await first.release()
    await second.take(BINDING, lease=LEASE, standby=True)
    await second.release()


async def test_a_feed_that_is_being_left_is_waited_for(path: Path) -> None:
    first, second = (Lease(SQLiteStore(path, inline=True), closes_store=True) for _ in range(2))
    await first.take(BINDING, lease=LEASE, standby=False)
    async with anyio.create_task_group() as tasks:

        async def leave() -> None:
            await anyio.sleep(3)
            await first.release()

        tasks.start_soon(leave)
        with anyio.fail_after(MANY):
            await second.take(BINDING, lease=LEASE, standby=True)
    assert second.is_held
    await second.release()


@pytest.mark.parametrize("interval", [1, 30, 3600])
async def test_the_lease_of_a_feed_outlasts_the_pause_between_two_polls(interval: int) -> None:
    """Otherwise another process would take over between the polls."""
    leases = list[float]()

    class Noted(MemoryStore):
        def open(self, binding: Binding, *, lease: float) -> FeedStore:  # type: ignore[override]
            leases.append(lease)
            return super().open(binding, lease=lease)

    async with Sandbox().client() as exchange, exchange.watch(store=Noted(), interval=timedelta(seconds=interval)):
        pass
    assert leases == [max(90.0, 3.0 * interval)]
