"""Tests of the ledger: which offers are sent, and that none is sent twice."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any

import anyio
import attrs
import pytest
from tests.bot.processes import SETTLE, Delivery, process, reads
from tests.bot.rig import AMOUNT, BIDS, HOUR, INTERVAL, OFFER, amounts_on, sent, strike

from freight_exchange.bot.failpoints import FAILPOINTS
from freight_exchange.bot.outcomes import RetryLater
from freight_exchange.errors import (
    AlreadyOfferedError,
    OfferInDoubtError,
    OfferRejectedError,
)
from freight_exchange.store import MemoryStore, effects
from freight_exchange.store.database import Database
from freight_exchange.store.fleet import Joined
from freight_exchange.testing import Fault, Profile, Sandbox
from freight_sandbox.faults import json_reply

pytestmark = pytest.mark.virtual_time

ALREADY = "already"
PRICES: dict[str, tuple[list[tuple[int, str, dict[str, Any]]], list[str], list[str]]] = {
    # What handlers ask for, by the number of the event; the results, and what the service has in the end.
    "one event, one price": ([(1, "1000", {}), (1, "1100", {})], ["1000", "1000"], ["1000"]),
    "each event may have a price": (
        [(1, "1000", {}), (2, "1100", {}), (3, "1000", {})], ["1000", "1100", "1000"], ["1000", "1100", "1000"],
    ),
    "echo of its own offer": ([(1, "1000", {}), (2, "1000", {}), (3, "1000.00", {})], ["1000"] * 3, ["1000"]),
    "other terms are another offer": (
        [(1, "1000", {}), (2, "1000", {"terms": "14 days"}), (3, "1000", {"terms": "14 days"})],
        ["1000"] * 3, ["1000", "1000"],
    ),
    "redelivered event": (
        [(1, "1000", {}), (2, "1100", {}), (1, "999", {})], ["1000", "1100", "1000"], ["1000", "1100"],
    ),
    "event older than the newest offer": ([(2, "1100", {}), (1, "1000", {})], ["1100", ALREADY], ["1100"]),
    "revisions that the caller counts": (
        [(1, "1000", {}), (2, "1100", {"revision": 1}), (3, "1200", {"revision": 1}), (4, "1200", {"revision": 2})],
        ["1000", "1100", "1100", "1200"], ["1000", "1100", "1200"],
    ),
    "revision before the newest": (
        [(1, "1200", {"revision": 2}), (2, "1100", {"revision": 1})], ["1200", "1200"], ["1200"],
    ),
    "two prices of one event": (
        [(1, "1000", {}), (1, "1100", {"revision": 1}), (1, "1000", {}), (1, "1100", {"revision": 1})],
        ["1000", "1100", "1000", "1100"], ["1000", "1100"],
    ),
    "no event": ([(0, "1000", {}), (0, "1000", {}), (0, "1100", {})], ["1000", "1000", "1100"], ["1000", "1100"]),
    "no event, after all events": ([(1, "1000", {}), (0, "1100", {}), (1, "1000", {}), (0, "1200", {})],
        ["1000", "1100", "1000", "1200"], ["1000", "1100", "1200"]),
    "event older than an offer without one": ([(0, "1100", {}), (1, "1000", {})], ["1100", ALREADY], ["1100"]),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "results", "stand"), PRICES.values(), ids=PRICES)
async def test_prices_are_ordered_by_their_events(
    asked: list[tuple[int, str, dict[str, Any]]], results: list[str], stand: list[str]
) -> None:
    sandbox, found = Sandbox(), list[str]()
    index = sandbox.publish()
    async with process(sandbox, MemoryStore()) as run:
        events: list[Delivery | int] = [index, *[await run.event(index) for _ in range(4)]]
        for number, amount, options in asked:
            try:
                found.append(str((await run.offer(events[number], amount, **options)).amount))
            except AlreadyOfferedError:
                found.append(ALREADY)
            except RetryLater as later:
                # A second price waits for a reading.
                await anyio.sleep(later.delay)
                found.append(str((await run.offer(events[number], amount, **options)).amount))
    assert found == results
    assert amounts_on(sandbox, index) == stand


async def test_merged_updates_are_ordered_by_the_last_one() -> None:
    sandbox = Sandbox()
    index = sandbox.publish()
    strike(sandbox, "reset_after_send")
    async with process(sandbox, MemoryStore()) as run:
        first, second, third = [await run.event(index) for _ in range(3)]
        merged = attrs.evolve(first, merged=(second.event_id, third.event_id))
        with pytest.raises(OfferInDoubtError):
            await run.offer(merged, "1000")
        await run.set_delivery(first, state="ready", owner=None, not_before=1e12)
        await run.resolved(index)
        # Its own delivery is called again at once.
        assert (await run.delivery(first))[1] <= 0
        await run.until_known(merged, "1000")
        with pytest.raises(AlreadyOfferedError):
            await run.offer(second, "900")
        assert (await run.offer(merged, "1100")).amount == 1000
    assert amounts_on(sandbox, index) == ["1000"]


async def test_different_price_of_an_event_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Each amount has its currency, and no word says that the shipper has decided."""
    sandbox = Sandbox()
    index = sandbox.publish()
    caplog.set_level(logging.INFO, "freight_exchange.bot")
    async with process(sandbox, MemoryStore()) as run:
        event = await run.event(index)
        await run.offer(event, currency_code="USD")
        await run.offer(event, "1900.00", currency_code="USD")
    lines = [record.getMessage() for record in caplog.records if "offer on request" in record.getMessage()]
    assert lines[0] == f"the offer on request {index} was submitted: {AMOUNT} USD"
    assert f"stands at {AMOUNT} USD" in lines[1]
    assert "1900.00 USD, are not sent" in lines[1]
    assert [vars(record)["request"] for record in caplog.records if "was submitted" in record.msg] == []


class TestBidsThatAreNotFromTheLedger:
    async def test_equal_price_is_taken_over(self) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=Decimal(AMOUNT))
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            await anyio.sleep(INTERVAL + SETTLE)
            bid = await run.offer(event)
            assert (bid.index, bid.amount, bid.currency) == (index, Decimal(AMOUNT), 840)
            assert await run.offer(event) == bid
        assert (amounts_on(sandbox, index), sent(sandbox)) == ([AMOUNT], 0)

    async def test_other_price_refuses_an_offer(self) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=990)
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            await anyio.sleep(INTERVAL + SETTLE)
            with pytest.raises(AlreadyOfferedError, match="allow_existing=True") as caught:
                await run.offer(event)
            assert caught.value.request == index
            await run.offer(event, allow_existing=True)
        assert amounts_on(sandbox, index) == ["990", AMOUNT]

    async def test_bid_by_hand_beside_the_own_refuses_a_second_price(self) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        async with process(sandbox, MemoryStore()) as run:
            await run.offer(await run.event(index), "1000")
            await anyio.sleep(60)
            sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=Decimal(999))
            event = await run.event(index)
            await anyio.sleep(INTERVAL)
            with pytest.raises(AlreadyOfferedError):
                await run.offer(event, "1100", revision=1)
        assert amounts_on(sandbox, index) == ["1000", "999"]

    @pytest.mark.parametrize("by_hand", [False, True])
    async def test_row_that_moves_while_pages_are_read_is_no_second_bid(self, by_hand: bool) -> None:
        """Another bid comes between two pages, so the last row of a page is the first of the next one too."""
        sandbox = Sandbox(Profile(rows_clamp=10))
        index, *others = [sandbox.publish() for _ in range(20)]

        def bid(request: int, amount: int = 990) -> None:
            sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=amount)

        def insert(call: Any) -> bool:
            if call.path == BIDS and b'"offset":1' in (call.body or b"").replace(b" ", b"") and others:
                bid(others.pop())
            return False

        async with process(sandbox, MemoryStore()) as run:
            for amount in ("1000", "1100"):
                await run.until_known(await run.event(index), amount)
                await anyio.sleep(60)
            for _ in range(8):
                bid(others.pop())
            sandbox.strike(Fault(name="busy", when=insert, times=None))
            if by_hand:
                bid(index, 1000)
            await run.until_known(await run.event(index), "1000")
        # An equal bid that stands is taken over.
        assert (amounts_on(sandbox, index), sent(sandbox)) == (["1000", "1100", "1000"], 2 if by_hand else 3)

    async def test_rivals_bid_is_none_of_the_account(self) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        sandbox.exchange.offer(sandbox.rival, index, sandbox.now(), amount=990)
        async with process(sandbox, MemoryStore()) as run:
            await run.offer(await run.event(index))
        assert amounts_on(sandbox, index) == ["990", AMOUNT]

    async def test_listing_that_cannot_be_read_postpones(self) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        strike(sandbox, "unavailable_forever", BIDS, times=None)
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            for _ in range(3):
                with pytest.raises(RetryLater):
                    await run.offer(event)
            sandbox.exchange.faults.clear()
            await anyio.sleep(60)
            await run.offer(event)
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_new_store_waits_once_for_late_bids(self) -> None:
        """The store was lost right after an offer, which the service lists only now."""
        sandbox = Sandbox(Profile(late_visibility=4))
        first, index = sandbox.publish(), sandbox.publish()
        sandbox.exchange.offer(sandbox.forwarder, first, sandbox.now(), amount=990)
        await anyio.sleep(60)
        sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=990)
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            with pytest.raises(RetryLater):
                await run.offer(event)
            await anyio.sleep(INTERVAL + SETTLE)
            with pytest.raises(AlreadyOfferedError):
                await run.offer(event)
        assert sent(sandbox) == 0


async def test_database_that_was_put_back_is_not_trusted_before_a_reading() -> None:
    """Another replica finds that commits are lost. Offers of all wait until every lost one is listed."""
    sandbox = Sandbox()
    index, other = sandbox.publish(), sandbox.publish()
    async with process(sandbox, MemoryStore()) as run:
        await anyio.sleep(1)
        lost = await run.event(index)
        await run.offer(lost, "1000")

        def put_back(db: Database) -> None:
            db.run("DELETE FROM effect")
            effects.require_reading(db, run.store.binding, db.now + SETTLE)

        await run.store.run(put_back)
        with pytest.raises(RetryLater):
            await run.offer(await run.event(other))
        assert amounts_on(sandbox, other) == []
        await anyio.sleep(2 * INTERVAL)
        assert (await run.offer(lost, "1000")).amount == 1000
        await run.until_known(await run.event(index), "1100")
        await run.offer(await run.event(other))
    assert (amounts_on(sandbox, index), amounts_on(sandbox, other)) == (["1000", "1100"], [AMOUNT])


@pytest.mark.parametrize("kind", ["offer", "answer"])
async def test_restored_store_waits_for_what_it_lacks(kind: str) -> None:
    sandbox = Sandbox()
    index = sandbox.publish()
    offer = sandbox.exchange.offer(sandbox.rival, index, sandbox.now(), amount=900)
    account = sandbox.forwarder if kind == "offer" else sandbox.shipper
    async with process(sandbox, MemoryStore(), account=account) as run:
        await anyio.sleep(1)
        me, binding, feeds = run.store.me, run.store.binding, run.store.feeds
        await run.ledger.start(Joined(me=me, binding=binding, feeds=feeds, is_alone=False, is_restored=True))
        event, began = await run.event(index), anyio.current_time()
        while True:
            try:
                await (run.offer(event) if kind == "offer" else run.answer(event, offer))
            except RetryLater as later:
                await anyio.sleep(later.delay)
            else:
                break
        # Until what was sent last can have arrived, and is listed.
        assert anyio.current_time() - began >= 20 + SETTLE


@pytest.mark.parametrize(("bids", "calls"), [(0, 2), (10, 4), (200, 4)])
async def test_start_reads_few_pages(bids: int, calls: int) -> None:
    sandbox, store = Sandbox(), MemoryStore()
    for _ in range(bids):
        sandbox.exchange.offer(sandbox.forwarder, sandbox.publish(), sandbox.now(), amount=990)
    index = sandbox.publish()
    async with process(sandbox, store):
        await anyio.sleep(2 * INTERVAL + SETTLE)
    before = reads(sandbox)
    async with process(sandbox, store) as run:
        await run.offer(await run.event(index))
        await anyio.sleep(HOUR)
        # Then nothing is read without a reason.
        assert reads(sandbox) - before == calls


async def test_second_prices_on_a_busy_account_wait_two_intervals_at_most() -> None:
    """Other programs of the account bid once a second, so no two readings of the listing agree."""
    sandbox = Sandbox(Profile(rows_clamp=20))
    for _ in range(200):
        sandbox.exchange.offer(sandbox.forwarder, sandbox.publish(), sandbox.now(), amount=990)
    indexes = [sandbox.publish() for _ in range(10)]

    async def trade() -> None:
        while True:
            sandbox.exchange.offer(sandbox.forwarder, sandbox.publish(), sandbox.now(), amount=990)
            await anyio.sleep(1)

    async with process(sandbox, MemoryStore()) as run, anyio.create_task_group() as tasks:
        tasks.start_soon(trade)
        await anyio.sleep(2 * INTERVAL)
        for index in indexes:
            await run.offer(await run.event(index), "1000")
        await anyio.sleep(INTERVAL)
        began, before = anyio.current_time(), reads(sandbox)

        async def quote(event: Delivery) -> None:
            while True:
                try:
                    await run.offer(event, "1100")
                except RetryLater as later:
                    await anyio.sleep(later.delay)
                else:
                    return

        async with anyio.create_task_group() as quotes:
            for index in indexes:
                quotes.start_soon(quote, await run.event(index))
        assert anyio.current_time() - began <= 2 * INTERVAL
        assert reads(sandbox) - before <= 40
        tasks.cancel_scope.cancel()
    assert [amounts_on(sandbox, index) for index in indexes] == [["1000", "1100"]] * 10


async def test_second_prices_share_one_reading_an_interval() -> None:
    sandbox = Sandbox()
    indexes = [sandbox.publish() for _ in range(60)]
    async with process(sandbox, MemoryStore()) as run, anyio.create_task_group() as tasks:
        for index in indexes:
            await run.offer(await run.event(index), "1000")
        await anyio.sleep(INTERVAL)
        before, pages = reads(sandbox), 8
        for index in indexes:
            tasks.start_soon(run.until_known, await run.event(index), "1100")
            await anyio.sleep(1)
        assert reads(sandbox) - before <= 3 * pages
    assert [amounts_on(sandbox, index) for index in indexes] == [["1000", "1100"]] * 60


# Ends of the process, and stores that are put back

STEPS = ("sending", "send", "confirmed", "rejected", "withdrawn", "unknown", "resolved")
POINTS = [point for point in FAILPOINTS if point.split()[1] in STEPS]
FAULTS_AT = {
    "rejected": Fault(name="refused", path=OFFER, processed=False, times=1, mutate=json_reply(400, {"message": "No."}))
}
DOUBTFUL = ("unknown", "resolved")


@pytest.mark.parametrize("fault", ["reset_after_processing", "reset_after_send"])
@pytest.mark.parametrize("point", POINTS)
async def test_kill_at_each_failpoint_leaves_one_offer(point: str, fault: str) -> None:
    sandbox, store = Sandbox(), MemoryStore()
    index, step = sandbox.publish(), point.split()[1]
    if step in DOUBTFUL:
        strike(sandbox, fault)
    elif step == "withdrawn":
        strike(sandbox, "not_found_page" if fault == "reset_after_send" else "connect_stall")
    elif step == "rejected":
        sandbox.strike(FAULTS_AT[step])
    event: Delivery | None = None
    async with process(sandbox, store, crash_at=point) as run:
        event = await run.event(index)
        await run.until_known(event)
    assert event is not None
    async with process(sandbox, store) as run:
        try:
            assert (await run.until_known(event)).amount == Decimal(AMOUNT)
        except OfferRejectedError:
            assert point == "after rejected"
        assert not await run.store.run(run.ledger.doubts)
    assert amounts_on(sandbox, index) == ([] if point == "after rejected" else [AMOUNT])
