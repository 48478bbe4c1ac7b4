"""Tests of selected bids: each is reported once, with the shipper's contact."""

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
    new_bot,
    offering_bot,
    offers,
    sent,
    strike,
)
from tests.bot.selections import (
    LOOK,
    a_few_looks,
    asks_for_selected,
    indexes,
    winning_bot,
    without_contacts,
)

from freight_exchange.models import Bid
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Fault, Profile, Sandbox
from freight_sandbox.wire import Reply

pytestmark = pytest.mark.virtual_time


async def test_selection_is_reported_once_with_contact(sandbox: Sandbox, store: MemoryStore) -> None:
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


@pytest.mark.parametrize("start", ["now", "backfill"])
async def test_earlier_selection_is_reported_by_backfill_only(sandbox: Sandbox, store: MemoryStore, start: Any) -> None:
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


async def test_waits_for_contact(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    index = sandbox.publish()
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        sandbox.strike(without_contacts(times=2))
        approve(sandbox, index)
        await a_few_looks()
    (bid,) = won
    assert bid.contact is not None


async def test_missing_contact_delays_report_by_three_readings(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    index = sandbox.publish()
    sandbox.strike(without_contacts(times=None))
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        approve(sandbox, index)
        await anyio.sleep(2 * LOOK.total_seconds() - 30)
        assert won == []
        await anyio.sleep(2 * LOOK.total_seconds())
        await trial.idle()
    (bid,) = won
    assert bid.contact is None


async def test_many_pages_are_reported_once(store: MemoryStore) -> None:
    sandbox, won = Sandbox(Profile(rows_clamp=10, past_end="last_page", order="random")), list[Bid]()
    published = [sandbox.publish() for _ in range(30)]
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        for index in published[:20]:
            approve(sandbox, index)
        await eventually(lambda: len(won) == 20)
        for index in published[20:]:
            approve(sandbox, index)
        await eventually(lambda: len(won) == 30)
        await a_few_looks()
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        await a_few_looks()
    assert sorted(indexes(won)) == published


async def test_errors_of_listing_delay_report(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    index = sandbox.publish()
    async with sandbox.running(winning_bot(store, won)) as trial:
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
    won: list[Bid] = []
    bot = new_bot(store, selection_interval=LOOK, start="now")
    bot.on_new(id="quote")(offers(revision=revision))

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


class TestUnreadableSelection:
    @pytest.mark.parametrize("strict", [True, False])
    async def test_with_an_unreadable_price_is_reported(
        self, sandbox: Sandbox, store: MemoryStore, strict: bool
    ) -> None:
        won: list[Bid] = []
        bot, index = winning_bot(store, won), sandbox.publish()
        async with sandbox.client() as client, anyio.create_task_group() as tasks:
            tasks.start_soon(partial(bot.serve, exchange=client.with_options(strict=strict)))
            await eventually(lambda: amounts_on(sandbox, index))
            sandbox.strike(_breaking(index, {"price": {"no": "price"}}))
            approve(sandbox, index)
            await eventually(lambda: won)
            bot.stop()
        assert [(bid.index, bid.amount) for bid in won] == [(index, None)]


async def test_rival_selection_is_not_reported(sandbox: Sandbox, store: MemoryStore) -> None:
    won: list[Bid] = []
    index = sandbox.publish()
    theirs = sandbox.exchange.offer(sandbox.rival, index, sandbox.now(), amount=7)
    async with sandbox.running(winning_bot(store, won)) as trial:
        await trial.idle()
        sandbox.exchange.select(theirs, sandbox.now())
        await a_few_looks()
    assert won == []


async def test_nothing_is_read_without_handler(sandbox: Sandbox, store: MemoryStore) -> None:
    bot = offering_bot(store, selection_interval=LOOK)
    sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        before = len(sandbox.audit_log.calls_to("GET", BIDS))
        await a_few_looks()
        assert len(sandbox.audit_log.calls_to("GET", BIDS)) == before
    assert sent(sandbox) == 1


async def test_first_reading_that_fails_delays_the_next_by_its_requests_alone(
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


def _selected_fails_at_first() -> Fault:
    """Fault: the first listings of selected bids fail."""

    def refuse(good: Reply, now: float, random: Random) -> Reply:
        return attrs.evolve(good, status=503, body=b'{"message": "Service unavailable."}')

    return Fault(name="no selected", method="GET", path=BIDS, when=asks_for_selected, times=6, mutate=refuse)


def _breaking(request: int, how: dict[str, Any]) -> Fault:
    """Fault: the selected bid on a request is unreadable."""

    def change(good: Reply, now: float, random: Random) -> Reply:
        listed = json.loads(good.body)
        for bid in listed["bids"].values():
            if bid["index"] == request:
                bid.update(how)
        return attrs.evolve(good, body=json.dumps(listed).encode())

    return Fault(name="broken", method="GET", path=BIDS, when=asks_for_selected, times=None, mutate=change)
