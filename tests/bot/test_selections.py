"""Tests of selected bids: each is reported once, to the handlers that want it."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import anyio
import attrs
import pytest
from tests.bot.rig import (
    AMOUNT,
    BIDS,
    amounts_on,
    approve,
    blind,
    eventually,
    messages,
    new_bot,
    offers,
    run_until_idle,
)

from freight_exchange import Bot
from freight_exchange.models import Bid
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Fault, Profile, Sandbox
from freight_sandbox.wire import Reply

pytestmark = pytest.mark.virtual_time

LOOK = timedelta(minutes=1)
CONTACTS = ("loadingPOC", "loadingCompany")


def quoting(store: MemoryStore | None, *, offer: dict[str, Any] | None = None, **options: Any) -> Bot:
    """Make a bot that offers on each request."""
    bot = new_bot(store, selection_interval=LOOK, **options)
    bot.on_new(id="quote")(offers(**(offer or {})))
    return bot


def hearing(bot: Bot, won: list[Bid], name: str = "won", **options: Any) -> Bot:
    """Register a handler that records selections."""

    async def selected(bid: Any, ctx: Any) -> None:
        won.append(bid)

    bot.on_selected(id=name, **options)(selected)
    return bot


def indexes(won: list[Bid]) -> list[int]:
    return [bid.index for bid in won]


async def a_few_looks() -> None:
    await anyio.sleep(5 * LOOK.total_seconds())


async def run_for_a_while(sandbox: Sandbox, bot: Bot) -> None:
    async with sandbox.running(bot) as trial:
        await trial.idle()
        await a_few_looks()


async def wins(sandbox: Sandbox, bot: Bot) -> list[int]:
    """Run the bot with three offers that are selected meanwhile, and return their requests."""
    async with sandbox.running(bot) as trial:
        await trial.idle()
        made = [sandbox.publish() for _ in range(3)]
        await trial.idle()
        for index in made:
            approve(sandbox, index)
        await a_few_looks()
    return made


def asks_for_selected(call: Any) -> bool:
    return "sel" in (call.query.get("type"), json.loads(call.body or b"{}").get("type"))


def changed(name: str, change: Any, *, times: int | None = None) -> Fault:
    """Fault: the next `times` listings of selected bids have changed rows, or another status."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        if change is None:
            return attrs.evolve(good, status=503, body=b'{"message": "Service unavailable."}')
        listed = json.loads(good.body)
        for bid in listed["bids"].values():
            change(bid)
        return attrs.evolve(good, body=json.dumps(listed).encode())

    return Fault(name=name, method="GET", path=BIDS, when=asks_for_selected, times=times, mutate=mutate)


def without_contact(bid: dict[str, Any]) -> None:
    for name in CONTACTS:
        bid.pop(name, None)


async def test_selection_is_reported_once_with_contact(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    index, other = sandbox.publish(), sandbox.publish()
    theirs = sandbox.exchange.offer(sandbox.rival, other, sandbox.now(), amount=7)
    async with sandbox.running(hearing(quoting(store), won)) as trial:
        await trial.idle()
        sandbox.exchange.select(theirs, sandbox.now())
        await a_few_looks()
        assert won == []
        approve(sandbox, index)
        await eventually(lambda: won)
        await a_few_looks()
    for _ in range(3):
        # Long enough for the store to have forgotten the event itself.
        await anyio.sleep(timedelta(days=20).total_seconds())
        await run_for_a_while(sandbox, hearing(quoting(store), won))
    (bid,) = won
    assert (bid.index, str(bid.amount)) == (index, AMOUNT)
    assert bid.contact is not None
    assert bid.contact.email == "shipper@demo.example"
    assert bid.company is not None


@pytest.mark.parametrize("start", ["now", "backfill"])
async def test_earlier_selection_is_reported_by_backfill_only(sandbox: Sandbox, store: MemoryStore, start: Any) -> None:
    won: list[Bid] = []
    before = sandbox.publish()
    sandbox.exchange.offer(sandbox.forwarder, before, sandbox.now(), amount=7)
    approve(sandbox, before)
    after = await wins(sandbox, hearing(quoting(store, start=start), won))
    await run_for_a_while(sandbox, hearing(quoting(store, start=start), won))
    assert sorted(indexes(won)) == ([] if start == "now" else [before]) + after


@pytest.mark.parametrize(("times", "has_contact"), [(2, True), (None, False)])
async def test_contact_is_waited_for_during_three_readings(
    sandbox: Sandbox, store: MemoryStore, times: int | None, has_contact: bool
) -> None:
    won: list[Bid] = []
    index = sandbox.publish()
    async with sandbox.running(hearing(quoting(store), won)) as trial:
        await trial.idle()
        approve(sandbox, index)
        sandbox.strike(changed("no contact", without_contact, times=times))
        await anyio.sleep(2 * LOOK.total_seconds() - 30)
        assert won == []
        await a_few_looks()
    assert [(bid.index, bid.contact is not None) for bid in won] == [(index, has_contact)]


async def test_many_pages_are_reported_once(store: MemoryStore) -> None:
    sandbox, won = Sandbox(Profile(rows_clamp=10, past_end="last_page", order="random")), list[Bid]()
    published = [sandbox.publish() for _ in range(30)]
    async with sandbox.running(hearing(quoting(store), won)) as trial:
        await trial.idle()
        for some in (published[:20], published[20:]):
            for index in some:
                approve(sandbox, index)
            await eventually(lambda: {*some} <= {*indexes(won)})  # noqa: B023 - waited for in the loop
        await a_few_looks()
    await run_for_a_while(sandbox, hearing(quoting(store), won))
    assert sorted(indexes(won)) == published


async def test_errors_of_listing_delay_report(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    sandbox.strike(changed("no selected", None, times=3))
    index = sandbox.publish()
    async with sandbox.running(hearing(quoting(store), won)) as trial:
        await trial.idle()
        for failure in ("unavailable_forever", "html_200", "maintenance_200", "refused", "not_found_page", "half_json"):
            with blind(sandbox, BIDS, failure):
                await a_few_looks()
        approve(sandbox, index)
        await eventually(lambda: won)
        assert (trial.status.dead, trial.status.state) == (0, "running")
    assert indexes(won) == [index]


@pytest.mark.parametrize("revision", [0, 1])
async def test_own_offer_is_reported_if_first_reading_came_later(
    sandbox: Sandbox, store: MemoryStore, revision: int
) -> None:
    won, early = list[Bid](), list[Bid]()
    sandbox.strike(changed("no selected", None, times=6))
    bot = hearing(quoting(store, offer={"revision": revision}, start="now"), early)
    async with sandbox.running(bot) as trial:
        await trial.idle()
        index = sandbox.publish()
        await trial.idle()
    approve(sandbox, index)
    async with sandbox.running(hearing(quoting(store, start="now"), won)):
        await eventually(lambda: won)
    assert (early, indexes(won)) == ([], [index])


@pytest.mark.parametrize("strict", [True, False])
async def test_selection_with_an_unreadable_price_is_reported(
    sandbox: Sandbox, store: MemoryStore, strict: bool
) -> None:
    won: list[Bid] = []
    bot, index = hearing(quoting(store), won), sandbox.publish()
    async with sandbox.client() as client, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bot.serve, exchange=client.with_options(strict=strict)))
        await eventually(lambda: amounts_on(sandbox, index))
        sandbox.strike(changed("broken", lambda bid: bid.update(price={"no": "price"})))
        approve(sandbox, index)
        await eventually(lambda: won)
        bot.stop()
    assert [(bid.index, bid.amount) for bid in won] == [(index, None)]


async def test_nothing_is_read_without_handler(sandbox: Sandbox, store: MemoryStore) -> None:
    sandbox.publish()
    async with sandbox.running(quoting(store)) as trial:
        await trial.idle()
        before = len(sandbox.audit_log.calls_to("GET", BIDS))
        await a_few_looks()
        assert len(sandbox.audit_log.calls_to("GET", BIDS)) == before


# Handlers that are new to a store


@pytest.mark.parametrize("start", ["now", "backfill"])
async def test_new_handler_gets_no_earlier_selection(
    sandbox: Sandbox, store: MemoryStore, start: str, caplog: pytest.LogCaptureFixture
) -> None:
    won: list[Bid] = []
    before = await wins(sandbox, quoting(store, start=start))
    open_still = sandbox.publish()
    await run_until_idle(sandbox, quoting(store, start=start))
    for _ in range(2):
        await run_for_a_while(sandbox, hearing(quoting(store, start=start), won))
    assert won == []
    (line,) = [line for line in messages(caplog) if "before the bot had a handler" in line]
    assert line.startswith("3 of your offers")
    assert line.endswith(", ".join(map(str, before)))
    approve(sandbox, open_still)
    await run_for_a_while(sandbox, hearing(quoting(store, start=start), won))
    assert indexes(won) == [open_still]


@pytest.mark.parametrize("first", [True, False])
async def test_new_handler_gets_earlier_selections_with_from_start(
    sandbox: Sandbox, store: MemoryStore, first: bool
) -> None:
    """A later `from_start` of a known handler changes nothing."""
    old, fresh = list[Bid](), list[Bid]()
    before = await wins(sandbox, quoting(store) if first else hearing(quoting(store), old, "old"))
    assert sorted(indexes(old)) == ([] if first else before)
    old.clear()

    def both() -> Bot:
        bot = hearing(quoting(store), old, "old", from_start=not first)
        return hearing(bot, fresh, "fresh", from_start=True)

    after = await wins(sandbox, both())
    for _ in range(2):
        await run_for_a_while(sandbox, both())
    assert (sorted(indexes(old)), sorted(indexes(fresh))) == (after, before + after)
    assert all(bid.contact is not None for bid in fresh)


async def test_new_handler_waits_for_contacts(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    before = await wins(sandbox, quoting(store))
    sandbox.strike(changed("no contact", without_contact, times=2))
    await run_for_a_while(sandbox, hearing(quoting(store), won, from_start=True))
    assert [(index, won[0].contact is not None) for index in sorted(indexes(won))] == [(one, True) for one in before]


@pytest.mark.parametrize("point", ["before route", "after route", "before claim", "after claim"])
@pytest.mark.parametrize("times", [1, 2])
async def test_new_handler_gets_each_once_through_crash(
    sandbox: Sandbox, store: MemoryStore, point: str, times: int
) -> None:
    old, fresh = list[Bid](), list[Bid]()
    before = await wins(sandbox, quoting(store))

    def both() -> Bot:
        return hearing(hearing(quoting(store), old, "old"), fresh, "fresh", from_start=True)

    async with sandbox.running(both(), crash_at=point, times=times) as trial:
        await eventually(lambda: trial.status.state == "running" or trial.has_crashed)
        index = sandbox.publish()
        await eventually(lambda: amounts_on(sandbox, index) or trial.has_crashed)
        if not trial.has_crashed:
            approve(sandbox, index)
        await trial.crashed()
    async with sandbox.running(both()) as trial:
        await trial.idle()
        if index not in indexes(fresh):
            await eventually(lambda: amounts_on(sandbox, index))
            approve(sandbox, index)
        await a_few_looks()
    assert (indexes(old), sorted(indexes(fresh))) == ([index], [*before, index])


# Filters, failures


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
async def test_filters_use_fields_of_request(
    sandbox: Sandbox, store: MemoryStore, wanted: dict[str, Any], is_called: bool
) -> None:
    """A bid listing lacks many fields of the request."""
    won: list[Bid] = []
    index = sandbox.publish()
    async with sandbox.running(hearing(quoting(store), won, **wanted)) as trial:
        await trial.idle()
        approve(sandbox, index)
        await a_few_looks()
        assert trial.status.dead == 0
    assert indexes(won) == ([index] if is_called else [])


async def test_filters_exclude_nothing_for_forgotten_request(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    index = sandbox.publish()
    await run_until_idle(sandbox, hearing(quoting(store), won, type="Trucking"))
    await anyio.sleep(timedelta(days=8).total_seconds())
    async with sandbox.running(hearing(quoting(store), won, type="Trucking")) as trial:
        await trial.idle()
        with blind(sandbox, "quote/getrequests"):
            approve(sandbox, index)
            await eventually(lambda: won)
    assert indexes(won) == [index]


async def test_each_matching_handler_is_called_and_called_again_if_it_fails(
    sandbox: Sandbox, store: MemoryStore
) -> None:
    attempts, also, never = list[int](), list[Bid](), list[Bid]()
    bot = hearing(hearing(quoting(store), also, origin="Hong Kong"), never, "never", origin="Nowhere")

    @bot.on_selected
    async def failing(bid: Any, ctx: Any) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            raise OSError("the database is away")

    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        approve(sandbox, index)
        await eventually(lambda: attempts and also)
        await trial.idle()
        await a_few_looks()
    assert (attempts, indexes(also), never) == ([1, 2, 3], [index], [])
