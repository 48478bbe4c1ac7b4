"""Tests of the account's bids that are not in the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.rig import (
    AMOUNT,
    BIDS,
    UNANSWERED,
    UNPROCESSED,
    amounts_on,
    approve,
    blind,
    eventually,
    messages,
    new_bot,
    offering_bot,
    offers,
    parked,
    run_until_idle,
    sent,
    strike,
)

from freight_exchange import Bot
from freight_exchange.bot.offers.existing_bids import merge_bids
from freight_exchange.bot.offers.record import is_offer
from freight_exchange.errors import AlreadyOfferedError
from freight_exchange.models import Bid
from freight_exchange.store import MemoryStore, rows
from freight_exchange.store.sqlite.sql import effect_sql
from freight_exchange.store.work import Effect
from freight_exchange.testing import Cargo, Fault, Profile, Sandbox
from freight_sandbox.wire import Reply

pytestmark = pytest.mark.virtual_time
OTHERS = 990


def offered_by_hand(sandbox: Sandbox) -> int:
    """Publish a request, and offer on it without the bot."""
    index = sandbox.publish()
    sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=OTHERS)
    return index


class TestUnknownBid:
    async def test_refuses_offer(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, refused = new_bot(store), list[int | None]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=AMOUNT, currency=840)
            except AlreadyOfferedError as error:
                refused.append(error.request)
                raise

        index, alone = offered_by_hand(sandbox), sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            # Let through, it ends the delivery, and well.
            assert (trial.status.handled, trial.status.dead, trial.status.retried) == (2, 0, 0)
        assert refused == [index]
        assert amounts_on(sandbox, index) == [str(OTHERS)]
        assert amounts_on(sandbox, alone) == [AMOUNT]
        assert sent(sandbox) == 1

    async def test_does_not_stop_an_offer_with_allow_existing(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840, allow_existing=True)
            await ctx.offer(amount=AMOUNT, currency=840)

        index = offered_by_hand(sandbox)
        await run_until_idle(sandbox, bot)
        assert amounts_on(sandbox, index) == [str(OTHERS), AMOUNT]

    @pytest.mark.parametrize("price", [AMOUNT, "992"])
    async def test_is_not_taken_for_own_offer(self, sandbox: Sandbox, store: MemoryStore, price: str) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            bids.append(await ctx.offer(amount=price, currency=840, allow_existing=True))

        strike(sandbox, "reset_after_send")
        index = offered_by_hand(sandbox)
        await run_until_idle(sandbox, bot)
        assert amounts_on(sandbox, index) == [str(OTHERS), price]
        assert [str(bid.amount) for bid in bids] == [price]

    @pytest.mark.parametrize("price", [AMOUNT, str(OTHERS)])
    async def test_found_by_check_of_doubt_refuses_offer(
        self, sandbox: Sandbox, store: MemoryStore, price: str
    ) -> None:
        bot, refused = new_bot(store), list[int | None]()
        decided = anyio.Event()

        @bot.on_new(timeout=900)
        async def quote(request: Any, ctx: Any) -> None:
            if request.index == slow:
                await decided.wait()
            try:
                await ctx.offer(amount=AMOUNT, currency=840)
            except AlreadyOfferedError as error:
                refused.append(error.request)
                raise

        async with sandbox.running(bot) as trial:
            await trial.idle()
            with blind(sandbox):
                strike(sandbox, UNANSWERED)
                slow, doubtful = sandbox.publish(), sandbox.publish()
                await eventually(lambda: amounts_on(sandbox, doubtful))
                sandbox.exchange.offer(sandbox.forwarder, slow, sandbox.now(), amount=Decimal(price))
            await eventually(lambda: trial.status.offers.get("confirmed"))
            decided.set()
            await trial.idle()
            assert trial.status.dead == 0
        assert refused == [slow]
        assert [amounts_on(sandbox, index) for index in (slow, doubtful)] == [[price], [AMOUNT]]

    async def test_person_may_allow_offer_beside_it(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = offering_bot(store)
        strike(sandbox, UNPROCESSED)
        async with sandbox.running(bot) as trial:
            index = sandbox.publish()
            await eventually(lambda: trial.status.in_doubt)
            sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=OTHERS)
            await parked(bot, trial)
            await bot.resolve(index, taken=False)
            await trial.idle()
        assert amounts_on(sandbox, index) == [str(OTHERS), AMOUNT]

    async def test_rival_offer_is_no_own_bid(self, sandbox: Sandbox, store: MemoryStore) -> None:
        index = sandbox.publish()
        sandbox.exchange.offer(sandbox.rival, index, sandbox.now(), amount=OTHERS)
        await run_until_idle(sandbox, offering_bot(store))
        assert amounts_on(sandbox, index) == [str(OTHERS), AMOUNT]

    async def test_bids_of_earlier_runs_are_known(self, sandbox: Sandbox, store: MemoryStore) -> None:
        strike(sandbox, UNANSWERED, skip=1)
        indexes = [sandbox.publish() for _ in range(3)]
        await run_until_idle(sandbox, offering_bot(store))
        bot = new_bot(store)
        bot.on_updated(id="requote")(offers(amount="1700", currency=840, revision=1))
        for index in indexes:
            sandbox.exchange.update(index, sandbox.now(), Cargo(quantity=11))
        await run_until_idle(sandbox, bot)
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT, "1700"]] * 3


async def test_start_reads_few_of_the_offers_in_the_store(
    sandbox: Sandbox, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offers stay forever. A database would need longer to read all of them than the client waits for a reply."""
    for _ in range(30):
        sandbox.publish()
    await run_until_idle(sandbox, offering_bot(store))
    read = list[Effect]()

    def read_effect(row: tuple[Any, ...]) -> Effect:
        read.append(rows.read_effect(row))
        return read[-1]

    monkeypatch.setattr(effect_sql, "read_effect", read_effect)
    await run_until_idle(sandbox, offering_bot(store))
    assert len([effect for effect in read if is_offer(effect)]) < 30


async def test_exchange_that_was_reset_is_named(
    sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.publish()
    for _ in range(2):
        await run_until_idle(sandbox, offering_bot(store))
        assert messages(caplog) == []
    anew = Sandbox()
    index = anew.publish()
    await run_until_idle(anew, offering_bot(store))
    assert amounts_on(anew, index) == []  # its number is known
    (message,) = messages(caplog)
    assert "lists none of the offers that this bot's store has" in message
    assert "begin with a new store" in message


class TestLostStore:
    @pytest.mark.parametrize(
        "profile",
        [
            Profile(),
            Profile(rows_clamp=10),
            Profile(rows_clamp=10, clamp_stride="asked"),
            Profile(bid_default="active"),
            Profile(order="random", past_end="last_page"),
            Profile(past_end="404", nothing_found="404"),
            Profile(number_form="string", collection_shape="list"),
        ],
        ids=["plain", "clamp", "stride", "active", "random", "404", "strings"],
    )
    async def test_repeats_no_offer(self, profile: Profile) -> None:
        sandbox = Sandbox(profile)
        indexes = [sandbox.publish() for _ in range(23)]
        await run_until_idle(sandbox, offering_bot(MemoryStore()))
        for index in indexes[:5]:
            approve(sandbox, index)
        called: list[int] = []
        fresh = sandbox.publish()
        status = await run_until_idle(sandbox, offering_bot(MemoryStore(), called))
        assert status.dead == 0
        assert set(indexes[5:]) <= set(called)
        assert [amounts_on(sandbox, index) for index in [*indexes, fresh]] == [[AMOUNT]] * 24

    async def test_repeats_no_offer_in_doubt(self, sandbox: Sandbox) -> None:
        strike(sandbox, UNANSWERED, times=3)
        indexes = [sandbox.publish() for _ in range(5)]
        async with sandbox.running(offering_bot(MemoryStore(), drain=timedelta(0))):
            await eventually(lambda: sent(sandbox) == 5)
        async with sandbox.running(offering_bot(MemoryStore())) as trial:
            with blind(sandbox):
                await anyio.sleep(900)
                assert sent(sandbox) == 5
            await trial.idle()
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * 5

    @pytest.mark.parametrize("late", [2, 25])
    async def test_repeats_no_offer_listed_late(self, late: float) -> None:
        """The process ended right after the offer, and its store was lost."""
        sandbox, settle = Sandbox(Profile(late_visibility=late)), timedelta(seconds=30)
        offered_by_hand(sandbox)
        await anyio.sleep(late)
        index = sandbox.publish()
        async with sandbox.running(offering_bot(MemoryStore(), settle=settle), crash_at="after confirmed") as trial:
            await trial.crashed()
        store = MemoryStore()
        # Nor does a new store count as an old one because a run with it has ended soon.
        async with sandbox.running(offering_bot(store, settle=settle)):
            await anyio.sleep(1)
        status = await run_until_idle(sandbox, offering_bot(store, settle=settle))
        assert status.handled == 2
        assert amounts_on(sandbox, index) == [AMOUNT]


class TestNewStore:
    async def test_account_without_bids_waits_for_nothing(self, sandbox: Sandbox, store: MemoryStore) -> None:
        index = sandbox.publish()
        async with sandbox.running(offering_bot(store, settle=timedelta(hours=1))) as trial:
            await trial.idle(within=timedelta(minutes=1))
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_old_request_waits_once_and_costs_no_attempts(self, sandbox: Sandbox) -> None:
        offered_by_hand(sandbox)
        store, index, settle = MemoryStore(), sandbox.publish(), timedelta(minutes=10)

        def bot() -> Bot:
            bot = new_bot(store, settle=settle)
            bot.on_new(id="quote", retries=0, timeout=1)(offers())
            return bot

        async with sandbox.running(bot()) as trial:
            await anyio.sleep(settle.total_seconds() - 30)
            assert amounts_on(sandbox, index) == []
            await trial.idle()
            assert (trial.status.dead, trial.status.retried) == (0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]
        another = sandbox.publish()
        async with sandbox.running(bot()) as trial:
            await eventually(lambda: amounts_on(sandbox, another), within=timedelta(minutes=1))

    async def test_newer_request_waits_for_nothing(self, sandbox: Sandbox, store: MemoryStore) -> None:
        async with sandbox.running(offering_bot(store, settle=timedelta(hours=1))) as trial:
            await trial.idle()
            index = sandbox.publish()
            await trial.idle(within=timedelta(minutes=1))
            assert amounts_on(sandbox, index) == [AMOUNT]
            # The second reading shows that offer, which this bot made.
            await anyio.sleep(2 * 3600)
            sandbox.exchange.update(index, sandbox.now(), Cargo(quantity=3))
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_waits_for_second_listing(self, sandbox: Sandbox, store: MemoryStore) -> None:
        offered_by_hand(sandbox)
        index = sandbox.publish()
        async with sandbox.running(offering_bot(store, settle=timedelta(minutes=1))) as trial:
            await anyio.sleep(30)
            with blind(sandbox):
                await anyio.sleep(900)
                assert sent(sandbox) == 0
            await trial.idle()
            assert trial.status.dead == 0
        assert amounts_on(sandbox, index) == [AMOUNT]


class TestUnreadableBid:
    @pytest.mark.parametrize("broken", [1, 2, 5])
    async def test_refuses_offer_on_its_request(self, sandbox: Sandbox, store: MemoryStore, broken: int) -> None:
        offered = [offered_by_hand(sandbox) for _ in range(8)]
        alone = sandbox.publish()
        sandbox.strike(breaking(offered[1 : 1 + broken]))
        await run_until_idle(sandbox, offering_bot(store))
        assert [amounts_on(sandbox, index) for index in offered] == [[str(OTHERS)]] * 8
        assert amounts_on(sandbox, alone) == [AMOUNT]

    @pytest.mark.parametrize("poison", ["string", "null", "hollow", "bad_index"])
    async def test_without_request_leaves_others_known(
        self, store: MemoryStore, poison: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        sandbox = Sandbox()
        offered = [offered_by_hand(sandbox) for _ in range(4)]
        sandbox.strike(poisoning(poison))
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
            fresh = sandbox.publish()
            await trial.idle()
        # The listing shows the newest first: the second record is the second last offer.
        reported = [offered[0], offered[1], offered[3]]
        assert [amounts_on(sandbox, index) for index in reported] == [[str(OTHERS)]] * 3
        assert amounts_on(sandbox, fresh) == [AMOUNT]
        assert any("unknown request" in line for line in messages(caplog, 40))

    async def test_unreadable_listing_delays_offers(self, sandbox: Sandbox, store: MemoryStore) -> None:
        index = offered_by_hand(sandbox)
        async with sandbox.running(offering_bot(store)) as trial:
            with blind(sandbox, BIDS, "maintenance_200"):
                await anyio.sleep(600)
                assert sent(sandbox) == 0
            await trial.idle()
        assert amounts_on(sandbox, index) == [str(OTHERS)]


@pytest.mark.parametrize(
    ("listed", "known", "missing"),
    [
        ([], [], []),
        ([1], [1], []),
        ([], [1, 2], [1, 2]),
        ([1], [1, 1, 2], [1, 2]),
        ([1, 1, 3], [1, 1], []),
    ],
)
def test_equal_bids_are_matched_by_number(listed: list[int], known: list[int], missing: list[int]) -> None:
    def bids(amounts: list[int]) -> list[Bid]:
        return [Bid(index=7, amount=Decimal(amount), currency=840) for amount in amounts]

    assert merge_bids(bids(listed), bids(known)) == bids([*listed, *missing])


def _listing(change: Callable[[dict[str, Any]], None]) -> Fault:
    def mutate(good: Reply, now: float, random: Random) -> Reply:
        text = json.loads(good.body)
        if isinstance(text.get("bids"), dict):
            change(text["bids"])
        return attrs.evolve(good, body=json.dumps(text).encode())

    return Fault(name="broken bids", method="GET", path=BIDS, times=None, mutate=mutate)


def breaking(requests: Iterable[int]) -> Fault:
    """Fault: bids on these requests have an invalid price."""

    def change(bids: dict[str, Any]) -> None:
        for bid in bids.values():
            if bid["index"] in requests:
                bid["price"] = {"no": "price"}

    return _listing(change)


def poisoning(how: str) -> Fault:
    """Fault: the second entry of a listing is not a bid."""
    records: dict[str, Any] = {"string": "Undefined index", "null": None, "hollow": {}, "bad_index": {"index": "x"}}

    def change(bids: dict[str, Any]) -> None:
        if "1" in bids:
            bids["1"] = records[how]

    return _listing(change)
