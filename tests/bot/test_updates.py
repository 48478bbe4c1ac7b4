"""Merging of updates that wait for a handler."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.bot.rig import INTERVAL, approve, new_bot, offers, other, run_until_idle

from freight_exchange import Bot, RequestEvent, RetryLater
from freight_exchange.store import Store
from freight_exchange.testing import Cargo, Profile, Sandbox

pytestmark = pytest.mark.virtual_time


async def changes(sandbox: Sandbox, index: int, *cargos: Cargo) -> None:
    """Change a request several times, with a scan after each change."""
    for cargo in cargos:
        sandbox.exchange.update(index, sandbox.now(), cargo)
        await anyio.sleep(INTERVAL * 1.5)


def listening(bot: Bot, *kinds: str, busy: float = 200, name: str = "listens", **options: Any) -> list[RequestEvent]:
    """Register a handler of some kinds of events, and return the list of its events; the first call takes `busy`
    seconds."""
    received: list[RequestEvent] = []

    async def listens(request: Any, ctx: Any) -> None:
        assert request is ctx.event.request
        received.append(ctx.event)
        if len(received) == 1:
            await anyio.sleep(busy)

    for kind in kinds:
        getattr(bot, f"on_{kind}")(id=name, **options)(listens)
    return received


ALL = ("new", "updated", "withdrawn")


async def test_waiting_updates_are_merged(store: Store) -> None:
    sandbox = Sandbox(Profile(published_notes="absent"))
    # What is seen happened after the scan before, less this.
    bot = new_bot(store, allowance=timedelta(seconds=1))
    received = listening(bot, *ALL)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        began = sandbox.now()
        await changes(sandbox, index, other("Ningbo"), other("Ningbo", quantity=20), other("Ningbo", quantity=30))
        ended = sandbox.now()
        await trial.idle()
        # The new one, and three updates.
        assert trial.status.handled == 4

    first, update = received
    assert (first.kind, update.kind) == ("new", "updated")
    assert (update.request.origin, update.request.quantity) == ("Ningbo", 30)
    assert update.previous == first.request
    assert set(update.changed) == {"origin", "quantity"}
    assert len(update.changed) == 2
    since, until = update.observed_between
    assert since is not None
    assert since.timestamp() <= began
    # The last scan that saw one of them, and not the first.
    assert began + 3 * INTERVAL <= until.timestamp() <= ended


async def test_other_updates_come_one_by_one(store: Store) -> None:
    sandbox = Sandbox()
    bot = new_bot(store)
    received = listening(bot, *ALL, busy=0)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Shenzhen"), other("Busan"))
        await trial.idle()

    assert [(event.kind, event.request.origin) for event in received] == [
        ("new", "Hong Kong"),
        ("updated", "Ningbo"),
        ("updated", "Shenzhen"),
        ("updated", "Busan"),
    ]
    assert [event.previous and event.previous.origin for event in received] == [None, "Hong Kong", "Ningbo", "Shenzhen"]


async def test_new_is_never_merged(store: Store) -> None:
    """All changes happen before the handler is first called."""
    sandbox = Sandbox()
    bot = new_bot(store, concurrency=1)
    received = listening(bot, *ALL)

    async with sandbox.running(bot) as trial:
        sandbox.publish(other("the one that takes its time"))
        await anyio.sleep(INTERVAL * 1.5)
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        await trial.idle()

    _, *mine = received
    assert [(event.kind, event.request.origin) for event in mine] == [("new", "Hong Kong"), ("updated", "Busan")]


async def test_withdrawal_ends_merging(store: Store) -> None:
    sandbox = Sandbox()
    bot = new_bot(store, allowance=timedelta(seconds=1))
    received = listening(bot, *ALL, busy=3600, timeout=timedelta(hours=2))

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        sandbox.exchange.withdraw(index, sandbox.now())
        # Where the service lists nothing at all, an hour has to show that it is not a failure.
        await anyio.sleep(3 * 3600)
        await trial.idle()

    assert [(event.kind, event.request.origin) for event in received] == [
        ("new", "Hong Kong"),
        ("updated", "Busan"),
        ("withdrawn", "Busan"),
    ]


async def test_selection_ends_merging(store: Store) -> None:
    sandbox, received = Sandbox(), list[tuple[str, str]]()
    bot = new_bot(store, selection_interval=timedelta(minutes=2))
    bot.on_new(id="quote")(offers())

    @bot.on_updated(id="crm")
    @bot.on_selected(id="crm")
    async def crm(subject: Any, ctx: Any) -> None:
        received.append((ctx.event.kind, getattr(subject, "origin", "")))
        if len(received) == 1:
            raise RetryLater(600)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        approve(sandbox, index)
        await anyio.sleep(600)
        await trial.idle()
        assert await bot.dead_letters() == []

    # That it is closed is another update, which comes behind the selection or before it.
    assert received[0] == ("updated", "Ningbo")
    assert ("updated", "Busan") in received[1:]
    assert [kind for kind, _ in received].count("selected") == 1


async def test_failed_merge_is_merged_again(store: Store) -> None:
    sandbox, received = Sandbox(), list[tuple[str, int]]()
    bot = new_bot(store)

    @bot.on_new(id="fails")
    @bot.on_updated(id="fails")
    async def fails(request: Any, ctx: Any) -> None:
        received.append((request.origin, ctx.attempt))
        if ctx.event.kind == "new":
            await anyio.sleep(7 * INTERVAL)
        elif ctx.attempt < 3:
            raise ValueError

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        await trial.idle()
        assert await bot.dead_letters() == []

    assert received == [("Hong Kong", 1), ("Busan", 1), ("Busan", 2), ("Busan", 3)]


async def test_later_update_joins_failed_one(store: Store) -> None:
    sandbox, received = Sandbox(), list[tuple[str, int, str]]()
    bot = new_bot(store)

    @bot.on_updated(id="fails")
    async def fails(request: Any, ctx: Any) -> None:
        received.append((request.origin, ctx.attempt, ctx.event.previous.origin))
        if request.origin == "Ningbo":
            raise ValueError

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        await trial.idle()

    assert received[-1][0] == "Busan"
    assert {previous for _, _, previous in received} == {"Hong Kong"}
    assert received[-1][1] == len(received)


async def test_dead_update_takes_no_other_with_it(store: Store) -> None:
    """A dead letter contains only its own update."""
    sandbox, received = Sandbox(), list[tuple[str, str | None]]()
    bot = new_bot(store)

    @bot.on_new(id="fails", retries=0)
    @bot.on_updated(id="fails", retries=0)
    async def fails(request: Any, ctx: Any) -> None:
        previous = ctx.event.previous
        received.append((request.origin, previous and previous.origin))
        if ctx.event.kind == "new":
            await anyio.sleep(7 * INTERVAL)
        elif len(received) == 2:
            raise ValueError

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        await trial.idle()
        (dead,) = await bot.dead_letters()

    assert received == [("Hong Kong", None), ("Busan", "Hong Kong"), ("Busan", "Ningbo")]
    assert (dead.kind, dead.request) == ("updated", index)


@pytest.mark.parametrize("point", ["before settle", "after settle"])
async def test_crash_loses_and_repeats_nothing(store: Store, point: str) -> None:
    sandbox, received = Sandbox(), list[tuple[str, str]]()

    def make_bot() -> Bot:
        bot = new_bot(store)

        @bot.on_new(id="listens")
        @bot.on_updated(id="listens")
        async def listens(request: Any, ctx: Any) -> None:
            received.append((ctx.event.kind, request.origin))
            if ctx.event.kind == "new":
                await anyio.sleep(7 * INTERVAL)

        return bot

    async with sandbox.running(make_bot(), crash_at=point, times=2) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        await trial.crashed()
    await run_until_idle(sandbox, make_bot())

    again = [("updated", "Busan")] if point == "before settle" else []
    assert received == [("new", "Hong Kong"), ("updated", "Busan"), *again]


async def test_change_that_was_undone_is_delivered(store: Store) -> None:
    sandbox = Sandbox(Profile(published_notes="absent"))
    bot = new_bot(store)
    received = list[tuple[str, tuple[str, ...], int]]()

    @bot.on_updated
    async def listens(request: Any, ctx: Any) -> None:
        received.append((request.origin, ctx.event.changed, ctx.attempt))
        if request.origin == "Ningbo":
            raise RetryLater(5 * INTERVAL)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other())
        await trial.idle()

    assert received == [("Ningbo", ("origin",), 1), ("Hong Kong", ("origin",), 1)]
