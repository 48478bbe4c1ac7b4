"""Of updates that wait for a handler only the last is handed over, for all of them; nothing else is ever left out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.unit.bot import rig
from tests.unit.bot.ledger_rig import AMOUNT, approve
from tests.unit.bot.rig import INTERVAL, bot_on, other

from freight_exchange import Bot, RequestEvent, RetryLater
from freight_exchange.feed.core.changes.diff import differences
from freight_exchange.store import Store
from freight_exchange.testing import Cargo, Profile, Sandbox

pytestmark = pytest.mark.virtual_time

store = rig.store


async def changes(sandbox: Sandbox, index: int, *cargos: Cargo) -> None:
    """Each of them is seen by a scan of its own."""
    for cargo in cargos:
        sandbox.exchange.update(index, sandbox.now(), cargo)
        await anyio.sleep(INTERVAL * 1.5)


def listening(bot: Bot, *kinds: str, busy: float = 200, name: str = "listens", **options: Any) -> list[RequestEvent]:
    """What one handler of these kinds of events is called for; the first call takes its time."""
    heard: list[RequestEvent] = []

    async def listens(request: Any, ctx: Any) -> None:
        assert request is ctx.event.request
        heard.append(ctx.event)
        if len(heard) == 1:
            await anyio.sleep(busy)

    for kind in kinds:
        getattr(bot, f"on_{kind}")(id=name, **options)(listens)
    return heard


ALL = ("new", "updated", "withdrawn")


async def test_updates_that_wait_come_as_one(store: Store) -> None:
    sandbox = Sandbox(Profile(published_notes="absent"))
    # What is seen happened after the scan before, less this.
    bot = bot_on(store, allowance=timedelta(seconds=1))
    heard = listening(bot, *ALL)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        began = sandbox.now()
        await changes(sandbox, index, other("Ningbo"), other("Ningbo", quantity=20), other("Ningbo", quantity=30))
        ended = sandbox.now()
        await trial.idle()
        # The new one, and three updates.
        assert trial.status.handled == 4

    first, update = heard
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


async def test_updates_that_do_not_wait_come_one_by_one(store: Store) -> None:
    sandbox = Sandbox()
    bot = bot_on(store)
    heard = listening(bot, *ALL, busy=0)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Shenzhen"), other("Busan"))
        await trial.idle()

    assert [(event.kind, event.request.origin) for event in heard] == [
        ("new", "Hong Kong"),
        ("updated", "Ningbo"),
        ("updated", "Shenzhen"),
        ("updated", "Busan"),
    ]
    assert [event.previous and event.previous.origin for event in heard] == [None, "Hong Kong", "Ningbo", "Shenzhen"]


async def test_a_new_one_is_never_left_out(store: Store) -> None:
    """All of it has happened before the handler has a first free moment."""
    sandbox = Sandbox()
    bot = bot_on(store, concurrency=1)
    heard = listening(bot, *ALL)

    async with sandbox.running(bot) as trial:
        sandbox.publish(other("the one that takes its time"))
        await anyio.sleep(INTERVAL * 1.5)
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        await trial.idle()

    _, *mine = heard
    assert [(event.kind, event.request.origin) for event in mine] == [("new", "Hong Kong"), ("updated", "Busan")]


async def test_a_withdrawal_is_never_left_out_and_ends_what_comes_as_one(store: Store) -> None:
    sandbox = Sandbox()
    bot = bot_on(store, allowance=timedelta(seconds=1))
    heard = listening(bot, *ALL, busy=3600, timeout=timedelta(hours=2))

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        sandbox.exchange.withdraw(index, sandbox.now())
        # Where the service lists nothing at all, an hour has to show that it is no failure.
        await anyio.sleep(3 * 3600)
        await trial.idle()

    assert [(event.kind, event.request.origin) for event in heard] == [
        ("new", "Hong Kong"),
        ("updated", "Busan"),
        ("withdrawn", "Busan"),
    ]


async def test_a_selection_is_never_left_out_and_ends_what_comes_as_one(store: Store) -> None:
    sandbox, heard = Sandbox(), list[tuple[str, str]]()
    bot = bot_on(store, selection_interval=timedelta(minutes=2))

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=840)

    @bot.on_updated(id="crm")
    @bot.on_selected(id="crm")
    async def crm(subject: Any, ctx: Any) -> None:
        heard.append((ctx.event.kind, getattr(subject, "origin", "")))
        if len(heard) == 1:
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
    assert heard[0] == ("updated", "Ningbo")
    assert ("updated", "Busan") in heard[1:]
    assert [kind for kind, _ in heard].count("selected") == 1


async def test_what_was_there_before_the_handler_ends_what_comes_as_one(store: Store) -> None:
    sandbox, heard = Sandbox(), list[tuple[str, str]]()

    async def crm(request: Any, ctx: Any) -> None:
        heard.append((ctx.event.kind, request.origin))
        if len(heard) == 1:
            raise RetryLater(600)

    bot = bot_on(store)
    bot.on_updated(id="crm")(crm)
    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"))
        assert heard == [("updated", "Ningbo")]
    later = bot_on(store)
    later.on_updated(id="crm")(later.on_new(id="crm", from_start=True)(crm))
    async with sandbox.running(later) as trial:
        await anyio.sleep(600)
        await trial.idle()
        assert await later.dead_letters() == []

    assert heard == [("updated", "Ningbo"), ("updated", "Ningbo"), ("new", "Ningbo")]


async def test_each_handler_and_each_request_has_its_own(store: Store) -> None:
    sandbox = Sandbox()
    bot = bot_on(store)
    slow = listening(bot, "updated", name="slow", busy=100)
    quick = listening(bot, "updated", name="quick", busy=0)

    async with sandbox.running(bot) as trial:
        one, two = sandbox.publish(), sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, one, other("Ningbo"))
        await changes(sandbox, two, other("Ningbo"), other("Busan"))
        await changes(sandbox, one, other("Busan"), other("Shenzhen"))
        await trial.idle()

    # Of one request there is one at a time, whichever the handler: the quick one has waited for the slow one.
    told = [(one, "Ningbo"), (two, "Ningbo"), (two, "Busan"), (one, "Shenzhen")]
    assert [(event.request.index, event.request.origin) for event in slow] == told
    assert [(event.request.index, event.request.origin) for event in quick] == told


async def test_of_two_requests_that_wait_each_comes_by_itself(store: Store) -> None:
    sandbox = Sandbox()
    bot = bot_on(store, concurrency=1)
    heard = listening(bot, "updated", busy=100)

    async with sandbox.running(bot) as trial:
        one, two = sandbox.publish(), sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, one, other("Ningbo"))
        await changes(sandbox, one, other("Busan"))
        await changes(sandbox, two, other("Tokyo"), other("Osaka"))
        await changes(sandbox, one, other("Shenzhen"))
        await trial.idle()

    assert [
        (event.request.index, event.previous and event.previous.origin, event.request.origin) for event in heard
    ] == [
        (one, "Hong Kong", "Ningbo"),
        (one, "Ningbo", "Shenzhen"),
        (two, "Hong Kong", "Osaka"),
    ]


async def test_what_comes_as_one_and_fails_comes_as_one_again_and_is_done_together(store: Store) -> None:
    sandbox, heard = Sandbox(), list[tuple[str, int]]()
    bot = bot_on(store)

    @bot.on_new(id="fails")
    @bot.on_updated(id="fails")
    async def fails(request: Any, ctx: Any) -> None:
        heard.append((request.origin, ctx.attempt))
        if ctx.event.kind == "new":
            await anyio.sleep(100)
        elif ctx.attempt < 3:
            raise ValueError

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        await trial.idle()
        assert await bot.dead_letters() == []

    assert heard == [("Hong Kong", 1), ("Busan", 1), ("Busan", 2), ("Busan", 3)]


async def test_a_later_one_joins_what_failed(store: Store) -> None:
    sandbox, heard = Sandbox(), list[tuple[str, int, str]]()
    bot = bot_on(store)

    @bot.on_updated(id="fails")
    async def fails(request: Any, ctx: Any) -> None:
        heard.append((request.origin, ctx.attempt, ctx.event.previous.origin))
        if request.origin == "Ningbo":
            raise ValueError

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        await trial.idle()

    assert heard[-1][0] == "Busan"
    assert {previous for _, _, previous in heard} == {"Hong Kong"}
    assert heard[-1][1] == len(heard)


async def test_what_is_given_up_takes_no_other_update_with_it(store: Store) -> None:
    """A dead letter stands for its own update; what came later is handed over by itself."""
    sandbox, heard = Sandbox(), list[tuple[str, str | None]]()
    bot = bot_on(store)

    @bot.on_new(id="fails", retries=0)
    @bot.on_updated(id="fails", retries=0)
    async def fails(request: Any, ctx: Any) -> None:
        previous = ctx.event.previous
        heard.append((request.origin, previous and previous.origin))
        if ctx.event.kind == "new":
            await anyio.sleep(100)
        elif len(heard) == 2:
            raise ValueError

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        await trial.idle()
        (dead,) = await bot.dead_letters()

    assert heard == [("Hong Kong", None), ("Busan", "Hong Kong"), ("Busan", "Ningbo")]
    assert (dead.kind, dead.request) == ("updated", index)


@pytest.mark.parametrize("point", ["before settle", "after settle"])
async def test_through_a_crash_none_is_lost_and_what_is_done_does_not_come_again(store: Store, point: str) -> None:
    sandbox, heard = Sandbox(), list[tuple[str, str]]()

    def new_bot() -> Bot:
        bot = bot_on(store)

        @bot.on_new(id="listens")
        @bot.on_updated(id="listens")
        async def listens(request: Any, ctx: Any) -> None:
            heard.append((ctx.event.kind, request.origin))
            if ctx.event.kind == "new":
                await anyio.sleep(100)

        return bot

    async with sandbox.running(new_bot(), crash_at=point, times=2) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        await trial.crashed()
    async with sandbox.running(new_bot()) as trial:
        await trial.idle()

    again = [("updated", "Busan")] if point == "before settle" else []
    assert heard == [("new", "Hong Kong"), ("updated", "Busan"), *again]


async def test_an_update_that_a_filter_leaves_out_is_not_called_for(store: Store) -> None:
    """What waits is judged by what it has become: the last of them is what a handler would be called with."""
    sandbox = Sandbox()
    bot = bot_on(store)
    heard = listening(bot, "new", name="chooses")
    chosen: list[str] = []

    @bot.on_updated(id="chosen", origin=["Ningbo", "Busan"])
    async def choosing(request: Any, ctx: Any) -> None:
        chosen.append(request.origin)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other("Tokyo"), other("Busan"))
        await trial.idle()

    assert len(heard) == 1
    assert chosen == ["Busan"]


async def test_changed_names_what_differs_though_a_filter_has_left_out_the_update_that_changed_it(store: Store) -> None:
    sandbox = Sandbox(Profile(published_notes="absent"))
    bot = bot_on(store)
    chosen, is_away = list[RequestEvent](), True

    @bot.on_updated(origin="Hong Kong")
    async def choosing(request: Any, ctx: Any) -> None:
        if is_away:
            raise RetryLater(5)
        chosen.append(ctx.event)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish(Cargo(quantity=1))
        await anyio.sleep(INTERVAL * 1.5)
        left_out = Cargo(origin="New York", quantity=2, commodityname="Toys")
        await changes(sandbox, index, Cargo(quantity=2), left_out, Cargo(quantity=2, commodityname="Toys"))
        is_away = False
        await trial.idle()

    (event,) = chosen
    assert event.previous is not None
    assert (event.previous.commodity, event.request.commodity) == ("Electronics", "Toys")
    assert set(differences(event.previous, event.request)) == {"commodity", "quantity"}
    # Its origin has changed back: what was done for the one before may have to be undone.
    assert sorted(event.changed) == ["commodity", "origin", "quantity"]


async def test_what_has_changed_back_is_handed_over(store: Store) -> None:
    sandbox = Sandbox(Profile(published_notes="absent"))
    bot = bot_on(store)
    heard = list[tuple[str, tuple[str, ...], int]]()

    @bot.on_updated
    async def listens(request: Any, ctx: Any) -> None:
        heard.append((request.origin, ctx.event.changed, ctx.attempt))
        if request.origin == "Ningbo":
            raise RetryLater(5 * INTERVAL)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(INTERVAL * 1.5)
        await changes(sandbox, index, other("Ningbo"), other())
        await trial.idle()

    assert heard == [("Ningbo", ("origin",), 1), ("Hong Kong", ("origin",), 1)]


async def test_sixty_updates_are_one(store: Store) -> None:
    """A handler that was away for long finds what is, and not all that was."""
    sandbox = Sandbox()
    bot = bot_on(store, interval=timedelta(seconds=1))
    heard = listening(bot, "new", "updated", busy=90)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await anyio.sleep(5)
        for number in range(60):
            sandbox.exchange.update(index, sandbox.now(), other("Ningbo", quantity=number + 1))
            await anyio.sleep(1.2)
        await trial.idle()

    assert [event.kind for event in heard] == ["new", "updated"]
    assert heard[1].request.quantity == 60
    assert heard[1].previous == heard[0].request
