"""Tests of group commit: steps that wait for the disk share the next commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.to_thread
import pytest
from tests.unit.store.rows import BINDING, LEASE, effect

from freight_exchange.bot.failpoints import no_failpoints
from freight_exchange.bot.unit_of_work import UnitOfWork
from freight_exchange.errors import StoreAwayError, StoreError
from freight_exchange.feed.lease import Lease
from freight_exchange.store import SQLiteStore
from freight_exchange.store.sqlite import connection, feed
from freight_exchange.store.sqlite.feed import SQLiteFeed
from freight_exchange.store.work import WorkStore

ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)


class Rig:
    """Unit of work on a file, with a step that blocks on request, and a count of commits."""

    def __init__(self, hold: Lease) -> None:
        self.hold = hold
        self.unit_of_work = UnitOfWork(cast("Any", SimpleNamespace(lease=hold)), no_failpoints)
        self.commits = 0
        self.go_on, self.begun = threading.Event(), threading.Event()

    async def put(self, key: str) -> bool:
        return await self.unit_of_work.write("effect", lambda store: store.put_effect(effect(key), expected_state=None))

    async def keep_busy(self) -> bool:
        def slow(store: WorkStore) -> bool:
            self.begun.set()
            assert self.go_on.wait(30)
            return store.put_effect(effect("slow"), expected_state=None)

        return await self.unit_of_work.write("effect", slow)

    async def busy(self) -> None:
        await anyio.to_thread.run_sync(self.begun.wait, 30)

    async def keys(self) -> set[str]:
        return {one.key for one in await self.unit_of_work.read(lambda store: store.effects())}


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    hold = Lease(SQLiteStore(tmp_path / "bot.db"), closes_store=True)
    await hold.take(BINDING, lease=LEASE, standby=False)
    made, real = Rig(hold), connection.transaction

    def counted(*args: Any) -> Any:
        made.commits += 1
        return real(*args)

    monkeypatch.setattr(feed, "transaction", counted)
    yield made
    made.go_on.set()
    if hold.is_held:
        await hold.release()


async def call_while_busy(rig: Rig, *calls: Callable[[], Any]) -> None:
    """Start a slow step, then the calls while it runs, and let it finish."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.keep_busy)
        await rig.busy()
        for call in calls:
            tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        rig.go_on.set()


@pytest.mark.anyio
async def test_waiting_steps_share_commit(rig: Rig) -> None:
    written: list[bool] = []

    async def put(number: int) -> None:
        written.append(await rig.put(f"{number}"))

    await call_while_busy(rig, *[lambda number=number: put(number % 7) for number in range(8)])
    # The eighth has the key of the first, and gets that error.
    assert sorted(written) == [False, *[True] * 7]
    assert rig.commits == 2
    assert await rig.keys() == {"slow", *"0123456"}


@pytest.mark.anyio
async def test_failed_step_spoils_no_other(rig: Rig) -> None:
    failed: list[str] = []

    async def fail() -> None:
        def work(store: WorkStore) -> None:
            store.put_effect(effect("half"), expected_state=None)
            raise StoreError("no")

        try:
            await rig.unit_of_work.write("effect", work)
        except StoreError as error:
            failed.append(str(error))

    await call_while_busy(rig, lambda: rig.put("a"), fail, lambda: rig.put("b"))
    assert failed == ["no"]
    # What it wrote in a transaction of its own is there: that was one step, and this another.
    assert await rig.keys() == {"slow", "a", "b", "half"}


@pytest.mark.anyio
async def test_steps_do_not_run_again_after_lost_reply_to_their_commit(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be committed. A second run would take what they wrote for another process's."""
    real = SQLiteFeed.transaction

    @contextmanager
    def cut(store: SQLiteFeed) -> Iterator[None]:
        with real(store):
            yield
        raise StoreAwayError("no reply")

    async def put(key: str) -> None:
        with pytest.raises(StoreAwayError):
            await rig.put(key)

    monkeypatch.setattr(SQLiteFeed, "transaction", cut)
    await call_while_busy(rig, lambda: put("a"), lambda: put("b"))
    assert await rig.keys() == {"slow", "a", "b"}


@pytest.mark.anyio
async def test_cancelled_waiting_step_writes_nothing(rig: Rig) -> None:
    scope = anyio.CancelScope()

    async def leave() -> None:
        with scope:
            await rig.put("left")

    async def cancel() -> None:
        scope.cancel()

    await call_while_busy(rig, leave, lambda: rig.put("a"), cancel)
    assert await rig.keys() == {"slow", "a"}


@ON_ASYNCIO
@pytest.mark.anyio
async def test_cancelled_commit_is_finished_by_others(rig: Rig) -> None:
    """A native cancellation ignores shields: the thread continues, and the other steps wait for it."""
    torn = asyncio.create_task(rig.keep_busy())
    await rig.busy()
    others = [asyncio.create_task(rig.put(name)) for name in "ab"]
    await anyio.wait_all_tasks_blocked()
    torn.cancel()
    await asyncio.wait([torn])
    rig.go_on.set()
    with anyio.fail_after(60):
        assert await asyncio.gather(*others) == [True, True]
    assert await rig.keys() == {"slow", "a", "b"}


@pytest.mark.anyio
async def test_released_store_raises_for_each_step(rig: Rig) -> None:
    await rig.hold.release()
    for _ in range(2):
        with pytest.raises(Exception, match="closed"):
            await rig.put("a")
