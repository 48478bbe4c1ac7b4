"""An own bid that is selected is told of once, with the shipper's contact, through restarts."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.ledger_rig import AMOUNT, BIDS, amounts_on, approve, blind, eventually, new_bot, said, sent, strike

from freight_exchange import Bot
from freight_exchange.models import Bid
from freight_exchange.sandbox.model.messages import Reply
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Fault, Profile, Sandbox

pytestmark = pytest.mark.virtual_time

LOOK = timedelta(minutes=2)
CONTACTS = ("loadingPOC", "loadingCompany")


def winning_bot(store: MemoryStore | None, won: list[Bid], **options: Any) -> Bot:
    """Offers on everything, and notes what was selected."""
    bot = new_bot(store, selection_interval=LOOK, **options)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=840)

    @bot.on_selected
    async def selected(bid: Any, ctx: Any) -> None:
        won.append(bid)

    return bot


def indexes(won: list[Bid]) -> list[int]:
    return [bid.index for bid in won]


async def a_few_looks() -> None:
    await anyio.sleep(5 * LOOK.total_seconds())


async def test_it_is_told_once_with_the_contact_through_restarts(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    index, other = sandbox.publish(), sandbox.publish()
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        await a_few_looks()
        assert won == []
        approve(sandbox, index)
        await eventually(lambda: won)
        await a_few_looks()
    for _ in range(3):
        # Long enough for the store to have forgotten the event itself.
        await anyio.sleep(timedelta(days=20).total_seconds())
        async with sandbox.running(winning_bot(store, won)) as trial:
            await trial.idle()
            await a_few_looks()
    (bid,) = won
    assert (bid.index, str(bid.amount)) == (index, AMOUNT)
    assert bid.contact is not None
    assert bid.contact.email == "shipper@demo.example"
    assert bid.company is not None
    assert other not in indexes(won)


async def test_one_that_was_selected_while_the_bot_was_away_is_told(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    index = sandbox.publish()
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
    approve(sandbox, index)
    await anyio.sleep(86_400)
    async with sandbox.running(winning_bot(store, won)) as trial:
        await eventually(lambda: won)
        await trial.idle()
    assert indexes(won) == [index]


@pytest.mark.parametrize("start", ["now", "backfill"])
async def test_what_was_selected_before_the_bots_time_is_told_by_a_backfill_alone(
    sandbox: Sandbox, store: MemoryStore, start: Any
) -> None:
    won: list[Bid] = []
    before = sandbox.publish()
    sandbox.exchange.offer(sandbox.forwarder, before, sandbox.now(), amount=7)
    approve(sandbox, before)
    async with sandbox.running(winning_bot(store, won, start=start)) as trial:
        await trial.idle()
        await a_few_looks()
        after = sandbox.publish()
        await trial.idle()
        approve(sandbox, after)
        await eventually(lambda: after in indexes(won))
    async with sandbox.running(winning_bot(store, won, start=start)) as trial:
        await trial.idle()
        await a_few_looks()
    assert indexes(won) == ([after] if start == "now" else [before, after])


async def test_an_offer_of_the_bots_own_is_told_though_the_first_look_came_after_it(
    sandbox: Sandbox, store: MemoryStore
) -> None:
    """What is passed over at the start is what was there before, and not what the bot itself has won since."""
    won: list[Bid] = []
    sandbox.strike(_selected_fails_at_first())
    async with sandbox.running(winning_bot(store, won, start="now")) as trial:
        await trial.idle()
        index = sandbox.publish()
        await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        approve(sandbox, index)
        await a_few_looks()
    assert indexes(won) == [index]


async def test_the_same_through_a_crash_before_the_first_look(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    sandbox.strike(_selected_fails_at_first())
    async with sandbox.running(winning_bot(store, won, start="now")) as trial:
        await trial.idle()
        index = sandbox.publish()
        await trial.idle()
    approve(sandbox, index)
    async with sandbox.running(winning_bot(store, won, start="now")) as trial:
        await trial.idle()
        await a_few_looks()
    assert indexes(won) == [index]


async def test_a_contact_that_shows_later_is_waited_for(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    index = sandbox.publish()
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        sandbox.strike(_without_contacts(times=2))
        approve(sandbox, index)
        await a_few_looks()
    (bid,) = won
    assert bid.contact is not None


async def test_a_contact_that_never_shows_delays_it_by_three_looks(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    index = sandbox.publish()
    sandbox.strike(_without_contacts(times=None))
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        approve(sandbox, index)
        await anyio.sleep(2 * LOOK.total_seconds() - 30)
        assert won == []
        await anyio.sleep(2 * LOOK.total_seconds())
        await trial.idle()
    (bid,) = won
    assert bid.contact is None


@pytest.mark.parametrize(
    "profile",
    [Profile(rows_clamp=10), Profile(rows_clamp=10, past_end="last_page", order="random")],
    ids=["clamp", "last page"],
)
async def test_many_pages_of_them_are_told_each_once(store: MemoryStore, profile: Profile) -> None:
    sandbox, won = Sandbox(profile), list[Bid]()
    published = [sandbox.publish() for _ in range(45)]
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        for index in published[:20]:
            approve(sandbox, index)
        await eventually(lambda: len(won) == 20)
        for index in published[20:]:
            approve(sandbox, index)
        await eventually(lambda: len(won) == 45)
        await a_few_looks()
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        await a_few_looks()
    assert sorted(indexes(won)) == published


async def test_trouble_with_the_listing_delays_it_and_ends_nothing(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    index = sandbox.publish()
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        for trouble in ("unavailable_forever", "html_200", "maintenance_200", "refused", "not_found_page", "half_json"):
            with blind(sandbox, BIDS, trouble):
                await a_few_looks()
        approve(sandbox, index)
        await eventually(lambda: won)
        assert (trial.status.dead, trial.status.state) == (0, "running")
    assert indexes(won) == [index]


async def test_a_long_outage_of_the_listing_is_asked_about_less_and_less(
    sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    bot = new_bot(store, selection_interval=LOOK)

    @bot.on_selected
    async def selected(bid: Any, ctx: Any) -> None: ...

    async with sandbox.running(bot) as trial:
        await trial.idle()
        with blind(sandbox, BIDS, "html_200"):
            await anyio.sleep(600)
            caplog.clear()
            await anyio.sleep(10 * LOOK.total_seconds())
            assert 3 < len([line for line in said(caplog) if line.startswith("the selected bids")]) <= 10


@pytest.mark.parametrize("revision", [0, 1])
async def test_any_offer_of_the_bots_own_is_told_though_the_first_look_came_after_it(
    sandbox: Sandbox, store: MemoryStore, revision: int
) -> None:
    won: list[Bid] = []
    bot = new_bot(store, selection_interval=LOOK, start="now")

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=840, revision=revision)

    @bot.on_selected
    async def selected(bid: Any, ctx: Any) -> None:
        pytest.fail("the bids cannot be listed")

    sandbox.strike(_selected_fails_at_first())
    async with sandbox.running(bot) as trial:
        await trial.idle()
        index = sandbox.publish()
        await trial.idle()
    approve(sandbox, index)
    async with sandbox.running(winning_bot(store, won, start="now")) as trial:
        await eventually(lambda: won)
    assert indexes(won) == [index]


def quoting_bot(store: MemoryStore, **handlers: Any) -> Bot:
    """Offers on everything; each handler of selections is given as the list that it fills, and its options."""
    options = handlers.pop("options", {})
    bot = new_bot(store, selection_interval=LOOK, **options)

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=840)

    for name, (won, told) in handlers.items():

        @bot.on_selected(id=name, **told)
        async def selected(bid: Any, ctx: Any, won: list[Bid] = won) -> None:
            won.append(bid)

    return bot


@pytest.fixture
def kept() -> Iterator[Any]:
    store = MemoryStore()
    yield store
    store.close()


async def wins(sandbox: Sandbox, bot: Bot) -> list[int]:
    """The requests of the offers that a run of the bot has made, and that were selected meanwhile."""
    async with sandbox.running(bot) as trial:
        await trial.idle()
        indexes = [sandbox.publish() for _ in range(3)]
        await trial.idle()
        for index in indexes:
            approve(sandbox, index)
        await a_few_looks()
    return indexes


class TestAHandlerThatComesLater:
    @pytest.mark.parametrize("start", ["now", "backfill"])
    async def test_hears_nothing_of_what_was_selected_before_it(
        self, sandbox: Sandbox, kept: Any, start: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        won: list[Bid] = []
        before = await wins(sandbox, quoting_bot(kept, options={"start": start}))
        open_still = sandbox.publish()
        async with sandbox.running(quoting_bot(kept, options={"start": start})) as trial:
            await trial.idle()
        for _ in range(2):
            async with sandbox.running(quoting_bot(kept, won=(won, {}), options={"start": start})) as trial:
                await trial.idle()
                await a_few_looks()
        assert won == []
        (line,) = [line for line in said(caplog) if "before it had a handler" in line]
        assert line.startswith("3 offers")
        assert line.endswith(", ".join(map(str, before)))
        approve(sandbox, open_still)
        async with sandbox.running(quoting_bot(kept, won=(won, {}), options={"start": start})):
            await eventually(lambda: won)
            await a_few_looks()
        assert indexes(won) == [open_still]

    @pytest.mark.parametrize("first", [True, False])
    async def test_hears_of_all_that_with_from_start_and_no_other_hears_of_it_again(
        self, sandbox: Sandbox, kept: Any, first: bool
    ) -> None:
        old, fresh = list[Bid](), list[Bid]()
        before = await wins(sandbox, quoting_bot(kept, **({} if first else {"old": (old, {})})))
        assert sorted(indexes(old)) == ([] if first else before)
        old.clear()
        both = {"old": (old, {}), "fresh": (fresh, {"from_start": True})}
        after = await wins(sandbox, quoting_bot(kept, **both))
        for _ in range(2):
            async with sandbox.running(quoting_bot(kept, **both)) as trial:
                await trial.idle()
                await a_few_looks()
        assert (sorted(indexes(old)), sorted(indexes(fresh))) == (after, before + after)
        assert all(bid.contact is not None for bid in fresh)

    @pytest.mark.parametrize("point", ["before", "after"])
    @pytest.mark.parametrize(("step", "times"), [("known", 1), ("known", 2), ("selected", 1), ("selected", 2)])
    async def test_hears_of_each_once_through_a_crash(
        self, sandbox: Sandbox, kept: Any, point: str, step: str, times: int
    ) -> None:
        old, fresh = list[Bid](), list[Bid]()
        before = await wins(sandbox, quoting_bot(kept))
        both = {"old": (old, {}), "fresh": (fresh, {"from_start": True})}
        async with sandbox.running(quoting_bot(kept, **both), crash_at=f"{point} {step}", times=times) as trial:
            await eventually(lambda: trial.status.state == "running" or trial.has_crashed)
            index = sandbox.publish()
            await eventually(lambda: amounts_on(sandbox, index) or trial.has_crashed)
            if not trial.has_crashed:
                approve(sandbox, index)
            await trial.crashed()
        async with sandbox.running(quoting_bot(kept, **both)) as trial:
            await trial.idle()
            if index not in [bid.index for bid in fresh]:
                await eventually(lambda: amounts_on(sandbox, index))
                approve(sandbox, index)
            await a_few_looks()
        assert (indexes(old), sorted(indexes(fresh))) == ([index], [*before, index])

    async def test_that_asks_for_it_later_hears_of_nothing_again(self, sandbox: Sandbox, kept: Any) -> None:
        won: list[Bid] = []
        before = await wins(sandbox, quoting_bot(kept, won=(won, {})))
        after = await wins(sandbox, quoting_bot(kept, won=(won, {"from_start": True})))
        assert sorted(indexes(won)) == [*before, *after]

    async def test_waits_for_contacts_that_show_later(self, sandbox: Sandbox, kept: Any) -> None:
        won: list[Bid] = []
        before = await wins(sandbox, quoting_bot(kept))
        sandbox.strike(_without_contacts(times=2))
        async with sandbox.running(quoting_bot(kept, won=(won, {"from_start": True}))) as trial:
            await trial.idle()
            await a_few_looks()
        assert sorted(indexes(won)) == before
        assert all(bid.contact is not None for bid in won)

    async def test_in_the_first_run_hears_of_nothing_twice(self, sandbox: Sandbox, kept: Any) -> None:
        won: list[Bid] = []
        index = sandbox.publish()
        sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=7)
        approve(sandbox, index)
        after = await wins(sandbox, quoting_bot(kept, won=(won, {"from_start": True})))
        assert sorted(indexes(won)) == [index, *after]


class TestFilters:
    """The listing of bids leaves out much of what the request has said."""

    @pytest.mark.parametrize(
        ("wanted", "told"),
        [
            ({"type": "Shipping"}, True), ({"type": {"Trucking", "Air Freight"}}, False),
            ({"incoterm": "FOB"}, True), ({"incoterm": "EXW"}, False),
            ({"hazardous": False}, True), ({"hazardous": True}, False),
            ({"origin": "Hong Kong"}, True), ({"max_volume": 1}, False),
            ({"where": lambda bid: bid.incoterm == "FOB"}, True),
        ],
        ids=lambda value: ", ".join(value) if isinstance(value, dict) else str(value),
    )  # fmt: skip
    async def test_go_by_what_the_request_said(
        self, sandbox: Sandbox, store: MemoryStore, wanted: dict[str, Any], told: bool
    ) -> None:
        won: list[Bid] = []
        index = sandbox.publish()
        async with sandbox.running(quoting_bot(store, won=(won, wanted))) as trial:
            await trial.idle()
            approve(sandbox, index)
            await a_few_looks()
            assert trial.status.dead == 0
        assert indexes(won) == ([index] if told else [])

    async def test_exclude_nothing_where_the_request_is_not_known_any_more(self, sandbox: Sandbox, kept: Any) -> None:
        won: list[Bid] = []
        index = sandbox.publish()
        async with sandbox.running(quoting_bot(kept, won=(won, {"type": "Trucking"}))) as trial:
            await trial.idle()
        await anyio.sleep(timedelta(days=8).total_seconds())
        async with sandbox.running(quoting_bot(kept, won=(won, {"type": "Trucking"}))) as trial:
            await trial.idle()
            with blind(sandbox, "quote/getrequests"):
                approve(sandbox, index)
                await eventually(lambda: won)
        assert indexes(won) == [index]


class TestUnreadable:
    @pytest.mark.parametrize("strict", [True, False])
    async def test_one_delays_no_other_and_is_told_of_once(
        self, sandbox: Sandbox, store: MemoryStore, strict: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        won: list[Bid] = []
        bot = winning_bot(store, won)
        broken, sound = sandbox.publish(), sandbox.publish()
        async with sandbox.client() as client, anyio.create_task_group() as tasks:
            tasks.start_soon(partial(bot.serve, exchange=client.with_options(strict=strict)))
            await eventually(lambda: amounts_on(sandbox, broken) and amounts_on(sandbox, sound))
            for index in (broken, sound):
                approve(sandbox, index)
            sandbox.strike(_breaking(broken))
            await eventually(lambda: won)
            await a_few_looks()
            assert indexes(won) == [sound]
            lines = [line for line in said(caplog, logging.ERROR) if line.startswith("a selected bid cannot be read")]
            assert len(lines) == 1
            assert f"on request {broken}: " in lines[0]
            sandbox.exchange.faults.clear()
            await eventually(lambda: broken in indexes(won))
            sandbox.strike(_breaking(broken))
            await a_few_looks()
            lines = [line for line in said(caplog, logging.ERROR) if line.startswith("a selected bid cannot be read")]
            assert len(lines) == 2, "it was readable meanwhile"
            bot.stop()
        assert indexes(won) == [sound, broken]

    async def test_one_whose_request_cannot_be_told_is_told_of_once(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        won: list[Bid] = []
        index = sandbox.publish()
        async with sandbox.running(winning_bot(store, won)) as trial:
            await trial.idle()
            approve(sandbox, index)
            sandbox.strike(_breaking(index, {"index": "x"}))
            await a_few_looks()
            await a_few_looks()
        (line,) = said(caplog, logging.ERROR)
        assert line.startswith("a selected bid cannot be read, on a request that cannot be told: ")
        assert won == []


async def test_a_handler_that_fails_hears_of_it_again(sandbox: Sandbox, store: MemoryStore) -> None:
    attempts: list[int] = []
    bot = new_bot(store, selection_interval=LOOK)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=840)

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


async def test_every_handler_hears_of_it(sandbox: Sandbox, store: MemoryStore) -> None:
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


async def test_another_forwarders_selection_is_not_told(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    index = sandbox.publish()
    theirs = sandbox.exchange.offer(sandbox.rival, index, sandbox.now(), amount=7)
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        sandbox.exchange.select(theirs, sandbox.now())
        await a_few_looks()
    assert won == []


async def test_nobody_asks_for_them_where_no_handler_wants_them(sandbox: Sandbox, store: MemoryStore) -> None:
    bot = new_bot(store, selection_interval=LOOK)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=840)

    sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        before = len(sandbox.audit_log.calls_to("GET", BIDS))
        await a_few_looks()
        assert len(sandbox.audit_log.calls_to("GET", BIDS)) == before
    assert sent(sandbox) == 1


async def test_first_look_that_fails_delays_the_next_by_its_requests_alone(
    sandbox: Sandbox, store: MemoryStore
) -> None:
    won: list[Bid] = []
    strike(sandbox, "unavailable", BIDS, times=3)
    index = sandbox.publish()
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        approve(sandbox, index)
        await eventually(lambda: won, within=5 * LOOK)
    assert indexes(won) == [index]


def _asks_for_selected(call: Any) -> bool:
    return "sel" in (call.query.get("type"), json.loads(call.body or b"{}").get("type"))


def _selected_fails_at_first() -> Fault:
    """The selected bids cannot be listed at first: neither by the look for them, nor among all own bids."""

    def refuse(good: Reply, now: float, random: Random) -> Reply:
        return attrs.evolve(good, status=503, body=b'{"message": "Service unavailable."}')

    return Fault(name="no selected", method="GET", path=BIDS, when=_asks_for_selected, times=6, mutate=refuse)


def _breaking(request: int, how: dict[str, Any] | None = None) -> Fault:
    """The selected bid on that request is listed as none can be."""

    def change(good: Reply, now: float, random: Random) -> Reply:
        listed = json.loads(good.body)
        for bid in listed["bids"].values():
            if bid["index"] == request:
                bid.update(how or {"price": {"no": "price"}})
        return attrs.evolve(good, body=json.dumps(listed).encode())

    return Fault(name="broken", method="GET", path=BIDS, when=_asks_for_selected, times=None, mutate=change)


def _without_contacts(times: int | None) -> Fault:
    """Selected bids are listed without the shipper's contact, `times` times that there is one to be listed."""
    left = [times]

    def change(good: Reply, now: float, random: Random) -> Reply:
        said = json.loads(good.body)
        if not said["bids"] or left[0] == 0:
            return good
        left[0] = None if left[0] is None else left[0] - 1
        for bid in said["bids"].values():
            for name in CONTACTS:
                bid.pop(name, None)
        return attrs.evolve(good, body=json.dumps(said).encode())

    return Fault(name="no contact", method="GET", path=BIDS, when=_asks_for_selected, times=None, mutate=change)
