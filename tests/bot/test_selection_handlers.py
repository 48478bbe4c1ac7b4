"""Handlers of selected bids."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.bot.rig import amounts_on, approve, blind, eventually, messages, new_bot, offers, run_until_idle
from tests.bot.selections import (
    LOOK,
    a_few_looks,
    indexes,
    winning_bot,
    without_contacts,
)

from freight_exchange import Bot
from freight_exchange.models import Bid
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time


def quoting_bot(store: MemoryStore, **handlers: Any) -> Bot:
    """Make a bot that offers on each request, with handlers of selections by name: a list to fill, and options."""
    options = handlers.pop("options", {})
    bot = new_bot(store, selection_interval=LOOK, **options)
    bot.on_new(id="quote")(offers())
    for name, (won, reported) in handlers.items():

        @bot.on_selected(id=name, **reported)
        async def selected(bid: Any, ctx: Any, won: list[Bid] = won) -> None:
            won.append(bid)

    return bot


async def wins(sandbox: Sandbox, bot: Bot) -> list[int]:
    """Run the bot with three offers that are selected meanwhile, and return their requests."""
    async with sandbox.running(bot) as trial:
        await trial.idle()
        indexes = [sandbox.publish() for _ in range(3)]
        await trial.idle()
        for index in indexes:
            approve(sandbox, index)
        await a_few_looks()
    return indexes


class TestNewHandler:
    @pytest.mark.parametrize("start", ["now", "backfill"])
    async def test_gets_no_earlier_selection(
        self, sandbox: Sandbox, store: Any, start: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        won: list[Bid] = []
        before = await wins(sandbox, quoting_bot(store, options={"start": start}))
        open_still = sandbox.publish()
        await run_until_idle(sandbox, quoting_bot(store, options={"start": start}))
        for _ in range(2):
            async with sandbox.running(quoting_bot(store, won=(won, {}), options={"start": start})) as trial:
                await trial.idle()
                await a_few_looks()
        assert won == []
        (line,) = [line for line in messages(caplog) if "before the bot had a handler" in line]
        assert line.startswith("3 of your offers")
        assert line.endswith(", ".join(map(str, before)))
        approve(sandbox, open_still)
        async with sandbox.running(quoting_bot(store, won=(won, {}), options={"start": start})):
            await eventually(lambda: won)
            await a_few_looks()
        assert indexes(won) == [open_still]

    @pytest.mark.parametrize("first", [True, False])
    async def test_gets_earlier_selections_with_from_start(self, sandbox: Sandbox, store: Any, first: bool) -> None:
        old, fresh = list[Bid](), list[Bid]()
        before = await wins(sandbox, quoting_bot(store, **({} if first else {"old": (old, {})})))
        assert sorted(indexes(old)) == ([] if first else before)
        old.clear()
        both = {"old": (old, {}), "fresh": (fresh, {"from_start": True})}
        after = await wins(sandbox, quoting_bot(store, **both))
        for _ in range(2):
            async with sandbox.running(quoting_bot(store, **both)) as trial:
                await trial.idle()
                await a_few_looks()
        assert (sorted(indexes(old)), sorted(indexes(fresh))) == (after, before + after)
        assert all(bid.contact is not None for bid in fresh)

    @pytest.mark.parametrize("point", ["before", "after"])
    @pytest.mark.parametrize(("step", "times"), [("route", 1), ("route", 2), ("claim", 1), ("claim", 2)])
    async def test_gets_each_once_through_crash(
        self, sandbox: Sandbox, store: Any, point: str, step: str, times: int
    ) -> None:
        old, fresh = list[Bid](), list[Bid]()
        before = await wins(sandbox, quoting_bot(store))
        both = {"old": (old, {}), "fresh": (fresh, {"from_start": True})}
        async with sandbox.running(quoting_bot(store, **both), crash_at=f"{point} {step}", times=times) as trial:
            await eventually(lambda: trial.status.state == "running" or trial.has_crashed)
            index = sandbox.publish()
            await eventually(lambda: amounts_on(sandbox, index) or trial.has_crashed)
            if not trial.has_crashed:
                approve(sandbox, index)
            await trial.crashed()
        async with sandbox.running(quoting_bot(store, **both)) as trial:
            await trial.idle()
            if index not in [bid.index for bid in fresh]:
                await eventually(lambda: amounts_on(sandbox, index))
                approve(sandbox, index)
            await a_few_looks()
        assert (indexes(old), sorted(indexes(fresh))) == ([index], [*before, index])

    async def test_later_from_start_is_ignored(self, sandbox: Sandbox, store: Any) -> None:
        won: list[Bid] = []
        before = await wins(sandbox, quoting_bot(store, won=(won, {})))
        after = await wins(sandbox, quoting_bot(store, won=(won, {"from_start": True})))
        assert sorted(indexes(won)) == [*before, *after]

    async def test_waits_for_contacts(self, sandbox: Sandbox, store: Any) -> None:
        won: list[Bid] = []
        before = await wins(sandbox, quoting_bot(store))
        sandbox.strike(without_contacts(times=2))
        async with sandbox.running(quoting_bot(store, won=(won, {"from_start": True}))) as trial:
            await trial.idle()
            await a_few_looks()
        assert sorted(indexes(won)) == before
        assert all(bid.contact is not None for bid in won)

    async def test_gets_nothing_twice_in_first_run(self, sandbox: Sandbox, store: Any) -> None:
        won: list[Bid] = []
        index = sandbox.publish()
        sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=7)
        approve(sandbox, index)
        after = await wins(sandbox, quoting_bot(store, won=(won, {"from_start": True})))
        assert sorted(indexes(won)) == [index, *after]


class TestFilters:
    """A bid listing lacks many fields of the request."""

    @pytest.mark.parametrize(
        ("wanted", "is_called"),
        [
            ({"type": "Shipping"}, True), ({"type": {"Trucking", "Air Freight"}}, False),
            ({"incoterm": "FOB"}, True), ({"incoterm": "EXW"}, False),
            ({"hazardous": False}, True), ({"hazardous": True}, False),
            ({"origin": "Hong Kong"}, True), ({"max_volume": 1}, False),
            ({"where": lambda bid: bid.incoterm == "FOB"}, True),
        ],
        ids=lambda value: ", ".join(value) if isinstance(value, dict) else str(value),
    )  # fmt: skip
    async def test_use_fields_of_request(
        self, sandbox: Sandbox, store: MemoryStore, wanted: dict[str, Any], is_called: bool
    ) -> None:
        won: list[Bid] = []
        index = sandbox.publish()
        async with sandbox.running(quoting_bot(store, won=(won, wanted))) as trial:
            await trial.idle()
            approve(sandbox, index)
            await a_few_looks()
            assert trial.status.dead == 0
        assert indexes(won) == ([index] if is_called else [])

    async def test_exclude_nothing_for_forgotten_request(self, sandbox: Sandbox, store: Any) -> None:
        won: list[Bid] = []
        index = sandbox.publish()
        await run_until_idle(sandbox, quoting_bot(store, won=(won, {"type": "Trucking"})))
        await anyio.sleep(timedelta(days=8).total_seconds())
        async with sandbox.running(quoting_bot(store, won=(won, {"type": "Trucking"}))) as trial:
            await trial.idle()
            with blind(sandbox, "quote/getrequests"):
                approve(sandbox, index)
                await eventually(lambda: won)
        assert indexes(won) == [index]


async def test_failed_handler_is_called_again(sandbox: Sandbox, store: MemoryStore) -> None:
    attempts: list[int] = []
    bot = new_bot(store, selection_interval=LOOK)
    bot.on_new(id="quote")(offers())

    @bot.on_selected
    async def selected(bid: Any, ctx: Any) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            raise OSError("the database is away")

    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        approve(sandbox, index)
        await eventually(lambda: attempts)
        await trial.idle()
        await a_few_looks()
    assert attempts == [1, 2, 3]


async def test_each_matching_handler_is_called(sandbox: Sandbox, store: MemoryStore) -> None:
    won, also = list[Bid](), list[int]()
    bot = winning_bot(store, won)

    @bot.on_selected(origin="Hong Kong")
    async def second(bid: Any, ctx: Any) -> None:
        also.append(bid.index)

    @bot.on_selected(origin="Nowhere")
    async def never(bid: Any, ctx: Any) -> None:
        also.append(-1)

    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        approve(sandbox, index)
        await eventually(lambda: won and also)
        await trial.idle()
    assert (indexes(won), also) == ([index], [index])
