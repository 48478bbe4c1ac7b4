"""Backfills before the first scan is complete: the feed may report their requests as new later."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.old.delivery.recorders import hearing
from tests.old.rig import HOUR, eventually, new_bot, other

from freight_exchange import Bot
from freight_exchange.bot.delivery import routing
from freight_exchange.feed.core.first_scan import UNDECIDED
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time

PERIOD = HOUR / 4
NOW: dict[str, Any] = {"start": "now", "allowance": timedelta(minutes=10)}


async def leave_undecided(sandbox: Sandbox, store: MemoryStore, received: list[int]) -> list[int]:
    """Run a bot that ends during its first scan, and return the known requests. Whether the last is new is open."""
    known = [sandbox.publish() for _ in range(3)]
    async with sandbox.running(hearing(new_bot(store, **NOW), received, id="a")):
        await anyio.sleep(60)
    database = store._database._connection
    assert database is not None
    database.execute('UPDATE seen SET version = ? WHERE "index" = ?', (UNDECIDED, known[-1]))
    return known


def make_bot(store: Store, a: list[int], b: list[int]) -> Bot:
    """Make a bot with a known handler, and a new one with `from_start`."""
    return hearing(hearing(new_bot(store, **NOW), a, id="a"), b, id="b", from_start=True)


@pytest.mark.both_backends
@pytest.mark.parametrize("start", ["now", "backfill", timedelta(hours=1), timedelta(seconds=1)])
async def test_first_run_delivers_each_request_once(sandbox: Sandbox, store: Store, start: Any) -> None:
    received, known = list[int](), [sandbox.publish() for _ in range(3)]
    for _ in range(2):
        async with sandbox.running(hearing(new_bot(store, start=start), received, from_start=True)):
            await anyio.sleep(PERIOD)
            known.append(sandbox.publish())
            await anyio.sleep(PERIOD)
    assert sorted(received) == known


@pytest.mark.parametrize("start", [timedelta(hours=1), timedelta(days=5)])
@pytest.mark.parametrize("times", [1, 2, 3, 4])
@pytest.mark.parametrize("point", ["before deliver", "after deliver", "before known", "after known"])
async def test_crash_during_the_first_run_loses_and_repeats_nothing(
    sandbox: Sandbox, store: Store, start: timedelta, point: str, times: int
) -> None:
    """A scan over five days is the whole first scan."""
    received, known = list[int](), [sandbox.publish() for _ in range(3)]
    async with sandbox.running(
        hearing(new_bot(store, start=start), received, from_start=True), crash_at=point, times=times
    ) as trial:
        with anyio.move_on_after(PERIOD):
            await trial.crashed()
    for _ in range(2):
        async with sandbox.running(hearing(new_bot(store, start=start), received, from_start=True)):
            await anyio.sleep(PERIOD)
    assert sorted(received) == known


@pytest.mark.both_backends
async def test_undecided_request_is_delivered_once(sandbox: Sandbox, store: MemoryStore) -> None:
    a, b = list[int](), list[int]()
    known = await leave_undecided(sandbox, store, a)
    async with sandbox.running(make_bot(store, a, b)):
        await anyio.sleep(PERIOD)
        known.append(sandbox.publish())
        await anyio.sleep(PERIOD)
    assert (a, sorted(b)) == (known[2:], known)


@pytest.mark.parametrize("times", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("point", ["before deliver", "after deliver", "before known", "after known"])
async def test_crash_during_the_first_scan_loses_and_repeats_nothing(
    sandbox: Sandbox, store: MemoryStore, point: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "_BATCH", 2)
    a, b = list[int](), list[int]()
    known = await leave_undecided(sandbox, store, a)
    async with sandbox.running(make_bot(store, a, b), crash_at=point, times=times) as trial:
        with anyio.move_on_after(PERIOD):
            await trial.crashed()
    for _ in range(2):
        async with sandbox.running(make_bot(store, a, b)):
            await anyio.sleep(PERIOD)
    assert (a, sorted(b)) == (known[2:], known)


async def test_restart_without_the_option_repeats_nothing(sandbox: Sandbox, store: MemoryStore) -> None:
    a, b = list[int](), list[int]()
    known = await leave_undecided(sandbox, store, a)
    async with sandbox.running(make_bot(store, a, b)):
        await eventually(lambda: sorted(b) == known)
    assert a == []
    async with sandbox.running(hearing(hearing(new_bot(store, **NOW), a, id="a"), b, id="b")):
        await anyio.sleep(PERIOD)
    assert (a, sorted(b)) == (known[2:], known)


@pytest.mark.parametrize("hears_updates", [True, False])
@pytest.mark.parametrize("changes", [True, False])
async def test_handler_of_updates_learns_a_change_that_is_reported_as_new(
    sandbox: Sandbox, store: MemoryStore, changes: bool, hears_updates: bool
) -> None:
    received = list[tuple[str, int, str]]()
    *_, found = await leave_undecided(sandbox, store, [])
    bot = hearing(new_bot(store, **NOW), [], id="a")

    async def record(request: Any, ctx: Any) -> None:
        received.append((ctx.event.kind, request.index, request.origin))

    bot.on_new(id="b", from_start=True)(record)
    if hears_updates:
        bot.on_updated(id="b")(record)
    async with sandbox.running(bot) as trial:
        await eventually(lambda: bool(received))
        if changes:
            sandbox.exchange.update(found, sandbox.now(), other("Ningbo"))
        await anyio.sleep(PERIOD)
        await trial.idle()
    about = [(kind, origin) for kind, index, origin in received if index == found]
    assert about[1:] == ([("new", "Ningbo")] if changes and hears_updates else [])


async def test_handler_of_updates_may_be_called_twice_after_a_restart(sandbox: Sandbox, store: MemoryStore) -> None:
    """The content that it got is unknown by then."""
    received = list[tuple[str, int]]()
    *_, found = await leave_undecided(sandbox, store, [])

    def make() -> Bot:
        bot = hearing(new_bot(store, **NOW), [], id="a")

        async def record(request: Any, ctx: Any) -> None:
            received.append((ctx.event.kind, request.index))

        bot.on_updated(id="b")(bot.on_new(id="b", from_start=True)(record))
        return bot

    async with sandbox.running(make()):
        await eventually(lambda: len(received) == 3)
    async with sandbox.running(make()):
        await anyio.sleep(PERIOD)
    assert [kind for kind, index in received if index == found] == ["new", "new"]
