"""Merging of updates that wait for a handler."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import attrs
import pytest
from tests.bot.rig import INTERVAL, approve, new_bot, offers, other, run_until_idle

from freight_exchange import Bot, RequestEvent, RetryLater
from freight_exchange.store import Store
from freight_exchange.testing import Cargo, Profile, Sandbox

pytestmark = pytest.mark.virtual_time

ALL = ("new", "updated", "withdrawn")


async def changes(sandbox: Sandbox, index: int, *cargos: Cargo) -> None:
    """Change a request several times, with a scan after each change."""
    for cargo in cargos:
        sandbox.exchange.update(index, sandbox.now(), cargo)
        await anyio.sleep(INTERVAL * 1.5)


async def published(sandbox: Sandbox, cargo: Cargo | None = None) -> int:
    index = sandbox.publish(cargo)
    await anyio.sleep(INTERVAL * 1.5)
    return index


@attrs.define
class Heard:
    """Calls of a handler: the kind, the request's origin, the attempt, and the origin before."""

    calls: list[tuple[str, str, int, str | None]] = attrs.field(factory=list)
    events: list[RequestEvent] = attrs.field(factory=list)

    def register(
        self, bot: Bot, *kinds: str, then: Callable[[RequestEvent], Any] = lambda event: None, **options: Any
    ) -> None:
        """Register the handler. `then` returns how long a call takes, or the error that it raises."""

        async def listens(request: Any, ctx: Any) -> None:
            event = ctx.event
            self.events.append(event)
            self.calls.append((event.kind, request.origin, ctx.attempt, event.previous and event.previous.origin))
            result = then(event)
            if isinstance(result, Exception):
                raise result
            await anyio.sleep(result or 0)

        for kind in kinds:
            getattr(bot, f"on_{kind}")(id="listens", **options)(listens)


def slow_first(event: RequestEvent) -> float:
    return 200 if event.kind == "new" else 0


async def test_waiting_updates_are_merged(store: Store) -> None:
    sandbox, heard = Sandbox(Profile(published_notes="absent")), Heard()
    # What is seen happened after the scan before, less this.
    bot = new_bot(store, allowance=timedelta(seconds=1))
    heard.register(bot, *ALL, then=slow_first)
    async with sandbox.running(bot) as trial:
        index = await published(sandbox)
        began = sandbox.now()
        await changes(sandbox, index, other("Ningbo"), other("Ningbo", quantity=20), other("Ningbo", quantity=30))
        ended = sandbox.now()
        await trial.idle()
        # The new one, and three updates.
        assert trial.status.handled == 4
    first, update = heard.events
    assert (first.kind, update.kind) == ("new", "updated")
    assert (update.request.origin, update.request.quantity, update.previous) == ("Ningbo", 30, first.request)
    assert sorted(update.changed) == ["origin", "quantity"]
    since, until = update.observed_between
    assert since is not None
    # The last scan that saw one of them, and not the first.
    assert since.timestamp() <= began
    assert began + 3 * INTERVAL <= until.timestamp() <= ended


ORDERS: dict[str, tuple[tuple[str, ...], Callable[[RequestEvent], Any], list[tuple[str, str, int, str | None]]]] = {
    # Kinds of events, what the handler does, and its calls while the request moves to Ningbo and then to Busan.
    "updates that do not wait": (
        ALL, lambda event: 0,
        [("new", "Hong Kong", 1, None), ("updated", "Ningbo", 1, "Hong Kong"), ("updated", "Busan", 1, "Ningbo")],
    ),
    "updates that wait": (
        ALL, slow_first, [("new", "Hong Kong", 1, None), ("updated", "Busan", 1, "Hong Kong")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kinds", "then", "calls"), ORDERS.values(), ids=ORDERS)
async def test_updates_come_in_order(
    store: Store, kinds: tuple[str, ...], then: Callable[[RequestEvent], Any], calls: list[Any]
) -> None:
    sandbox, heard, bot = Sandbox(), Heard(), new_bot(store)
    heard.register(bot, *kinds, then=then)
    async with sandbox.running(bot) as trial:
        await changes(sandbox, await published(sandbox), other("Ningbo"), other("Busan"))
        await trial.idle()
    assert heard.calls == calls


async def test_new_is_never_merged(store: Store) -> None:
    """All changes happen before the handler is first called."""
    sandbox, heard, bot = Sandbox(), Heard(), new_bot(store, concurrency=1)
    heard.register(bot, *ALL, then=slow_first)
    async with sandbox.running(bot) as trial:
        await published(sandbox, other("the one that takes its time"))
        await changes(sandbox, await published(sandbox), other("Ningbo"), other("Busan"))
        await trial.idle()
    assert [call[:2] for call in heard.calls[1:]] == [("new", "Hong Kong"), ("updated", "Busan")]


async def test_withdrawal_ends_merging(store: Store) -> None:
    sandbox, heard, bot = Sandbox(), Heard(), new_bot(store, allowance=timedelta(seconds=1))
    heard.register(
        bot, *ALL, then=lambda event: 3600 if event.kind == "new" else 0, timeout=timedelta(hours=2)
    )  # fmt: skip
    async with sandbox.running(bot) as trial:
        index = await published(sandbox)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        sandbox.exchange.withdraw(index, sandbox.now())
        # Where the service lists nothing at all, an hour has to show that it is not a failure.
        await anyio.sleep(3 * 3600)
        await trial.idle()
    assert [call[:2] for call in heard.calls] == [("new", "Hong Kong"), ("updated", "Busan"), ("withdrawn", "Busan")]


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


async def test_failed_merge_is_merged_again_with_later_updates(store: Store) -> None:
    sandbox, heard, bot = Sandbox(), Heard(), new_bot(store)
    heard.register(bot, "updated", then=lambda event: ValueError() if event.request.origin == "Ningbo" else 0)
    async with sandbox.running(bot) as trial:
        await changes(sandbox, await published(sandbox), other("Ningbo"), other("Busan"))
        await trial.idle()
        assert await bot.dead_letters() == []
    assert {previous for *_, previous in heard.calls} == {"Hong Kong"}
    assert heard.calls[-1][1:3] == ("Busan", len(heard.calls))


async def test_dead_update_takes_no_other_with_it(store: Store) -> None:
    """A dead letter contains only its own update."""
    sandbox, heard, bot = Sandbox(), Heard(), new_bot(store)

    def then(event: RequestEvent) -> Any:
        return ValueError() if len(heard.calls) == 2 else slow_first(event)

    heard.register(bot, "new", "updated", then=then, retries=0)
    async with sandbox.running(bot) as trial:
        index = await published(sandbox)
        await changes(sandbox, index, other("Ningbo"), other("Busan"))
        await trial.idle()
        (dead,) = await bot.dead_letters()
    assert [(origin, previous) for _, origin, _, previous in heard.calls] == [
        ("Hong Kong", None), ("Busan", "Hong Kong"), ("Busan", "Ningbo"),
    ]  # fmt: skip
    assert (dead.kind, dead.request) == ("updated", index)


@pytest.mark.parametrize("point", ["before settle", "after settle"])
async def test_crash_loses_and_repeats_nothing(store: Store, point: str) -> None:
    sandbox, heard = Sandbox(), Heard()

    def make_bot() -> Bot:
        bot = new_bot(store)
        heard.register(bot, "new", "updated", then=slow_first)
        return bot

    async with sandbox.running(make_bot(), crash_at=point, times=2) as trial:
        await changes(sandbox, await published(sandbox), other("Ningbo"), other("Busan"))
        await trial.crashed()
    await run_until_idle(sandbox, make_bot())
    again = [("updated", "Busan")] if point == "before settle" else []
    assert [call[:2] for call in heard.calls] == [("new", "Hong Kong"), ("updated", "Busan"), *again]


async def test_change_that_was_undone_is_delivered(store: Store) -> None:
    sandbox, heard, bot = Sandbox(Profile(published_notes="absent")), Heard(), new_bot(store)

    def then(event: RequestEvent) -> Any:
        return RetryLater(5 * INTERVAL) if event.request.origin == "Ningbo" else 0

    heard.register(bot, "updated", then=then)
    async with sandbox.running(bot) as trial:
        await changes(sandbox, await published(sandbox), other("Ningbo"), other())
        await trial.idle()
    assert [(event.request.origin, event.changed) for event in heard.events] == [
        ("Ningbo", ("origin",)), ("Hong Kong", ("origin",)),
    ]  # fmt: skip
