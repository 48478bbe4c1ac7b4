"""Backfill of handlers with `from_start`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock

import anyio
import pytest
from tests.old.delivery.recorders import hearing
from tests.old.rig import HOUR, INTERVAL, new_bot, other, run_until_idle

from freight_exchange import Bot
from freight_exchange.bot.delivery import routing
from freight_exchange.bot.delivery.routing import Routing
from freight_exchange.store import MemoryStore, Store
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


@pytest.mark.parametrize("is_marked", [True, False])
async def test_handler_that_ran_before_gets_nothing(
    store: Store, is_marked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark records this, or deliveries of an earlier version."""
    sandbox, received = Sandbox(), list[int]()
    known = [sandbox.publish() for _ in range(3)]
    with monkeypatch.context() as earlier:
        if not is_marked:
            earlier.setattr(Routing, "introduce_handlers", AsyncMock())
        await run_until_idle(sandbox, hearing(new_bot(store), received))
    assert sorted(received) == known
    for _ in range(2):
        async with sandbox.running(hearing(new_bot(store), received, from_start=True)) as trial:
            known.append(sandbox.publish())
            await trial.idle()
    assert sorted(received) == known


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_crash_between_marks_calls_no_handler_again(
    store: Store, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark of one handler does not prove that the others are new: an earlier version left none."""
    sandbox, received = Sandbox(), list[int]()

    def make_bot(**options: Any) -> Bot:
        bot = hearing(new_bot(store), received, id="first", **options)
        return hearing(bot, received, id="second", **options)

    known = [sandbox.publish() for _ in range(3)]
    with monkeypatch.context() as earlier:
        earlier.setattr(Routing, "introduce_handlers", AsyncMock())
        await run_until_idle(sandbox, make_bot())
    async with sandbox.running(make_bot(from_start=True), crash_at="after known", times=times) as trial:
        with anyio.move_on_after(HOUR):
            await trial.crashed()
    await run_until_idle(sandbox, make_bot(from_start=True))
    assert sorted(received) == sorted(2 * known)


async def test_handler_without_deliveries_gets_nothing(store: Store) -> None:
    sandbox, old, received = Sandbox(), list[int](), list[int]()
    known = sandbox.publish()

    def make_bot(**options: Any) -> Bot:
        return hearing(hearing(new_bot(store), old), received, id="choosy", **options)

    await run_until_idle(sandbox, make_bot(origin="Ningbo"))
    await run_until_idle(sandbox, make_bot(from_start=True))
    assert (old, received) == ([known], [])


async def test_handler_of_other_events_gets_known_requests(store: Store) -> None:
    sandbox, kinds = Sandbox(), list[str]()

    def make_bot() -> tuple[Bot, Any]:
        bot = new_bot(store)

        async def record(request: Any, ctx: Any) -> None:
            kinds.append(ctx.event.kind)

        return bot, bot.on_updated(id="records")(record)

    bot, _ = make_bot()
    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        sandbox.exchange.update(index, sandbox.now(), other("Ningbo"))
        await trial.idle()
    bot, record = make_bot()
    bot.on_new(id="records", from_start=True)(record)
    await run_until_idle(sandbox, bot)
    assert kinds == ["updated", "new"]


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


async def test_filter_is_called_outside_of_transactions(store: MemoryStore) -> None:
    """A database ends a session that is idle for long, for example while a filter checks 100,000 requests."""
    sandbox, inside = Sandbox(), list[bool]()
    for _ in range(3):
        sandbox.publish()
    await run_until_idle(sandbox, hearing(new_bot(store), []))

    def where(request: Any) -> bool:
        connection = store._database._connection
        assert connection is not None
        inside.append(connection.in_transaction)
        return True

    await run_until_idle(sandbox, hearing(new_bot(store), [], id="fresh", from_start=True, where=where))
    assert inside[:3] == [False] * 3


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("point", ["before deliver", "after deliver"])
async def test_crash_loses_and_repeats_nothing(
    store: Store, point: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deliveries of a backfill are written in several batches."""
    monkeypatch.setattr(routing, "_BATCH", 2)
    sandbox, fresh = Sandbox(), list[int]()
    known = [sandbox.publish() for _ in range(3)]
    await run_until_idle(sandbox, hearing(new_bot(store), []))
    async with sandbox.running(
        hearing(new_bot(store), fresh, id="fresh", from_start=True), crash_at=point, times=times
    ) as trial:
        await trial.crashed()
    assert fresh == []
    for _ in range(2):
        await run_until_idle(sandbox, hearing(new_bot(store), fresh, id="fresh", from_start=True))
    assert sorted(fresh) == known


async def test_new_comes_before_pending_update(store: Store) -> None:
    """The update was seen, but not delivered, before the handler was added."""
    sandbox, kinds = Sandbox(), list[tuple[str, str]]()
    index = sandbox.publish()
    await run_until_idle(sandbox, hearing(new_bot(store), []))
    async with sandbox.running(hearing(new_bot(store), []), crash_at="before deliver") as trial:
        await anyio.sleep(INTERVAL)
        sandbox.exchange.update(index, sandbox.now(), other("Ningbo"))
        await trial.crashed()

    bot = new_bot(store)

    @bot.on_new(id="fresh", from_start=True)
    @bot.on_updated(id="fresh")
    async def fresh(request: Any, ctx: Any) -> None:
        kinds.append((ctx.event.kind, request.origin))

    await run_until_idle(sandbox, bot)
    assert kinds[0] == ("new", "Ningbo")
