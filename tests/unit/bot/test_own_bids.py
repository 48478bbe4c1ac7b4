"""What stands at the service that the ledger does not know, and what the service shows because of an own offer."""

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
from tests.unit.bot.ledger_rig import (
    AMOUNT,
    BIDS,
    OFFER,
    UNANSWERED,
    UNPROCESSED,
    amounts_on,
    approve,
    blind,
    eventually,
    new_bot,
    offering_bot,
    parked,
    said,
    sent,
    strike,
)

from freight_exchange import Bot
from freight_exchange.bot.offers.existing_bids import merge_bids
from freight_exchange.errors import AlreadyOfferedError
from freight_exchange.models import Bid
from freight_exchange.sandbox.model.messages import Reply
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Cargo, Fault, Profile, Sandbox

pytestmark = pytest.mark.virtual_time

OTHERS = 990
QUOTED = "Quoted."


def offered_by_hand(sandbox: Sandbox) -> int:
    """A request on which the forwarder has offered without the bot."""
    index = sandbox.publish()
    sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=OTHERS)
    return index


class TestStrangers:
    async def test_an_own_bid_that_the_ledger_does_not_know_refuses(self, sandbox: Sandbox, store: MemoryStore) -> None:
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

    async def test_unless_it_is_told_to_offer_all_the_same(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840, allow_existing=True)
            await ctx.offer(amount=AMOUNT, currency=840)

        index = offered_by_hand(sandbox)
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [str(OTHERS), AMOUNT]

    @pytest.mark.parametrize("price", [AMOUNT, "992"])
    async def test_and_then_the_others_bid_is_not_taken_for_its_own(
        self, sandbox: Sandbox, store: MemoryStore, price: str
    ) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            bids.append(await ctx.offer(amount=price, currency=840, allow_existing=True))

        strike(sandbox, "reset_after_send")
        index = offered_by_hand(sandbox)
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [str(OTHERS), price]
        assert [str(bid.amount) for bid in bids] == [price]

    @pytest.mark.parametrize("price", [AMOUNT, str(OTHERS)])
    async def test_a_bid_made_by_hand_meanwhile_refuses_once_a_look_for_a_doubt_has_shown_it(
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

    async def test_unless_a_person_says_that_the_offer_is_to_be_made_beside_it(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
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

    async def test_a_revision_refuses_as_well(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840, revision=1)

        index = offered_by_hand(sandbox)
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [str(OTHERS)]

    async def test_a_rivals_offer_is_no_own_bid(self, sandbox: Sandbox, store: MemoryStore) -> None:
        index = sandbox.publish()
        sandbox.exchange.offer(sandbox.rival, index, sandbox.now(), amount=OTHERS)
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
        assert amounts_on(sandbox, index) == [str(OTHERS), AMOUNT]

    async def test_what_the_ledger_made_in_an_earlier_run_is_known(self, sandbox: Sandbox, store: MemoryStore) -> None:
        strike(sandbox, UNANSWERED, skip=1)
        indexes = [sandbox.publish() for _ in range(3)]
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
        bot = new_bot(store)

        @bot.on_updated
        async def requote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount="1700", currency=840, revision=1)

        for index in indexes:
            sandbox.exchange.update(index, sandbox.now(), Cargo(quantity=11))
        async with sandbox.running(bot) as trial:
            await trial.idle()
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT, "1700"]] * 3


class TestALostStore:
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
    async def test_leads_to_no_second_offer_on_anything(self, profile: Profile) -> None:
        sandbox = Sandbox(profile)
        indexes = [sandbox.publish() for _ in range(35)]
        async with sandbox.running(offering_bot(MemoryStore())) as trial:
            await trial.idle()
        for index in indexes[:5]:
            approve(sandbox, index)
        called: list[int] = []
        fresh = sandbox.publish()
        async with sandbox.running(offering_bot(MemoryStore(), called)) as trial:
            await trial.idle()
            assert trial.status.dead == 0
        assert set(indexes[5:]) <= set(called)
        assert [amounts_on(sandbox, index) for index in [*indexes, fresh]] == [[AMOUNT]] * 36

    async def test_nor_in_doubt_and_under_an_outage(self, sandbox: Sandbox) -> None:
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
    async def test_nor_where_the_service_shows_an_offer_late(self, late: float) -> None:
        """The process died right after its offer was taken, and its store with it."""
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
        async with sandbox.running(offering_bot(store, settle=settle)) as trial:
            await trial.idle()
            assert trial.status.handled == 2
        assert amounts_on(sandbox, index) == [AMOUNT]


class TestANewStore:
    async def test_of_an_account_that_has_never_offered_keeps_nothing_waiting(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        index = sandbox.publish()
        async with sandbox.running(offering_bot(store, settle=timedelta(hours=1))) as trial:
            await trial.idle(within=timedelta(minutes=1))
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_keeps_what_may_be_older_waiting_once_and_costs_no_attempts(self, sandbox: Sandbox) -> None:
        offered_by_hand(sandbox)
        store, index, settle = MemoryStore(), sandbox.publish(), timedelta(minutes=10)

        def bot() -> Bot:
            bot = new_bot(store, settle=settle)

            @bot.on_new(retries=0, timeout=1)
            async def quote(request: Any, ctx: Any) -> None:
                await ctx.offer(amount=AMOUNT, currency=840)

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

    async def test_keeps_nothing_waiting_that_was_published_in_its_time(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        async with sandbox.running(offering_bot(store, settle=timedelta(hours=1))) as trial:
            await trial.idle()
            index = sandbox.publish()
            await trial.idle(within=timedelta(minutes=1))
            assert amounts_on(sandbox, index) == [AMOUNT]
            # The second reading shows that offer, which is no stranger's.
            await anyio.sleep(2 * 3600)
            sandbox.exchange.update(index, sandbox.now(), Cargo(quantity=3))
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_waits_for_a_second_listing_however_long_that_fails(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
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


class TestUnreadable:
    @pytest.mark.parametrize("broken", [1, 2, 5])
    async def test_own_bids_refuse_where_their_request_can_be_told(
        self, sandbox: Sandbox, store: MemoryStore, broken: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        offered = [offered_by_hand(sandbox) for _ in range(8)]
        alone = sandbox.publish()
        sandbox.strike(breaking(offered[1 : 1 + broken]))
        async with sandbox.running(offering_bot(store)) as trial:
            await trial.idle()
        assert [amounts_on(sandbox, index) for index in offered] == [[str(OTHERS)]] * 8
        assert amounts_on(sandbox, alone) == [AMOUNT]
        assert any("cannot be read" in line for line in said(caplog, 40))

    @pytest.mark.parametrize("poison", ["string", "null", "hollow", "bad_index"])
    async def test_own_bids_of_a_request_that_cannot_be_told_leave_the_others_known(
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
        told = [offered[0], offered[1], offered[3]]
        assert [amounts_on(sandbox, index) for index in told] == [[str(OTHERS)]] * 3
        assert amounts_on(sandbox, fresh) == [AMOUNT]
        assert any("cannot be told" in line for line in said(caplog, 40))

    async def test_a_listing_that_is_no_listing_keeps_offers_waiting(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        index = offered_by_hand(sandbox)
        async with sandbox.running(offering_bot(store)) as trial:
            with blind(sandbox, BIDS, "maintenance_200"):
                await anyio.sleep(600)
                assert sent(sandbox) == 0
            await trial.idle()
        assert amounts_on(sandbox, index) == [str(OTHERS)]


class TestEchoes:
    """The answer to an offer may show the request as the service has it; the next scan then shows the same."""

    @pytest.fixture
    def sandbox(self) -> Sandbox:
        return Sandbox(Profile(published_notes="as_sent"))

    async def test_an_update_that_shows_what_the_answer_showed_is_not_handed_back(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        assert await updates_after_an_offer(sandbox, store, [Cargo(notes=QUOTED)]) == []

    async def test_one_that_shows_more_is(self, sandbox: Sandbox, store: MemoryStore) -> None:
        cargo = Cargo(notes=QUOTED, weight=41)
        assert await updates_after_an_offer(sandbox, store, [cargo]) == [{"notes", "weight"}]

    async def test_one_that_shows_something_else_is(self, sandbox: Sandbox, store: MemoryStore) -> None:
        assert await updates_after_an_offer(sandbox, store, [Cargo(notes="Urgent.")]) == [{"notes"}]

    async def test_there_is_one_and_a_request_that_turns_back_is_handed_over(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        changes = [Cargo(notes=QUOTED), Cargo(notes="Urgent."), Cargo(notes=QUOTED)] * 2
        assert await updates_after_an_offer(sandbox, store, changes) == [{"notes"}] * 4

    async def test_one_that_shows_it_beside_more_was_the_one(self, sandbox: Sandbox, store: MemoryStore) -> None:
        changes = [Cargo(notes=QUOTED, weight=41), Cargo(notes="Urgent.", weight=41), Cargo(notes=QUOTED, weight=41)]
        heard = await updates_after_an_offer(sandbox, store, changes)
        assert heard == [{"notes", "weight"}, {"notes"}, {"notes"}]

    @pytest.mark.parametrize("answer", [{"qty": 77}, {"weight": 77}, {"origin": "Hamburg"}], ids=str)
    async def test_what_no_offer_changes_is_none_whatever_the_answer_showed(
        self, sandbox: Sandbox, store: MemoryStore, answer: dict[str, Any]
    ) -> None:
        cargo = Cargo(**{{"qty": "quantity"}.get(name, name): value for name, value in answer.items()}, notes=QUOTED)
        heard = await updates_after_an_offer(sandbox, store, [cargo], answer={**answer, "notes": QUOTED})
        assert len(heard) == 1

    async def test_what_the_shipper_changes_while_the_handler_thinks_is_handed_over(
        self, sandbox: Sandbox, store: MemoryStore
    ) -> None:
        bot, priced, heard = new_bot(store, settle=timedelta(0)), list[int](), list[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            priced.append(request.quantity)
            await anyio.sleep(5)
            await ctx.offer(amount=AMOUNT, currency=840)

        @bot.on_updated
        async def updated(request: Any, ctx: Any) -> None:
            heard.append(request.quantity)

        async with sandbox.running(bot) as trial:
            index = sandbox.publish(Cargo(quantity=10))
            await eventually(lambda: priced)
            for quantity in (1000, 10, 1000):
                sandbox.exchange.update(index, sandbox.now(), Cargo(quantity=quantity))
                await trial.idle()
        assert (priced, heard) == ([10], [1000, 10, 1000])

    async def test_it_is_one_for_every_handler_and_after_a_restart(self, sandbox: Sandbox, store: MemoryStore) -> None:
        heard: list[str] = []

        def bot() -> Any:
            bot = offering_bot(store)
            for name in ("first", "second"):

                @bot.on_updated(id=name)
                async def updated(request: Any, ctx: Any, name: str = name) -> None:
                    heard.append(request.notes)

            return bot

        sandbox.strike(answering({"notes": QUOTED}))
        index = sandbox.publish()
        async with sandbox.running(bot()) as trial:
            await trial.idle()
            sandbox.exchange.update(index, sandbox.now(), Cargo(notes=QUOTED))
            await trial.idle()
            sandbox.exchange.update(index, sandbox.now(), Cargo(notes="Urgent."))
            await trial.idle()
        sandbox.exchange.update(index, sandbox.now(), Cargo(notes=QUOTED))
        async with sandbox.running(bot()) as trial:
            await trial.idle()
        assert heard == ["Urgent.", "Urgent.", QUOTED, QUOTED]

    @pytest.mark.parametrize("revision", [0, 1])
    async def test_an_offer_that_is_no_first_one_has_one_as_well(
        self, sandbox: Sandbox, store: MemoryStore, revision: int
    ) -> None:
        assert await updates_after_an_offer(sandbox, store, [Cargo(notes=QUOTED)], revision=revision) == []

    async def test_another_bots_update_is_handed_over(self, sandbox: Sandbox, store: MemoryStore) -> None:
        """A bot that made no offer has caused nothing."""
        bot, heard = new_bot(store), list[int]()

        @bot.on_updated
        async def updated(request: Any, ctx: Any) -> None:
            heard.append(request.quantity)

        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            sandbox.exchange.update(index, sandbox.now(), Cargo(quantity=77))
            await trial.idle()
        assert heard == [77]


async def updates_after_an_offer(
    sandbox: Sandbox,
    store: MemoryStore,
    changes: Iterable[Cargo],
    answer: dict[str, Any] | None = None,
    revision: int = 0,
) -> list[set[str]]:
    """What changed in each update that was handed over after an offer that was answered like that."""
    bot, heard = new_bot(store), list[set[str]]()

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=840, revision=revision)

    @bot.on_updated
    async def updated(request: Any, ctx: Any) -> None:
        heard.append(set(ctx.event.changed))

    # The service changes the request as it takes the offer.
    sandbox.strike(answering(answer or {"notes": QUOTED}))
    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        for cargo in changes:
            sandbox.exchange.update(index, sandbox.now(), cargo)
            await trial.idle()
    return heard


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
def test_bids_that_are_alike_are_counted(listed: list[int], known: list[int], missing: list[int]) -> None:
    def bids(amounts: list[int]) -> list[Bid]:
        return [Bid(index=7, amount=Decimal(amount), currency=840) for amount in amounts]

    assert merge_bids(bids(listed), bids(known)) == bids([*listed, *missing])


def _listing(change: Callable[[dict[str, Any]], None]) -> Fault:
    def mutate(good: Reply, now: float, random: Random) -> Reply:
        said = json.loads(good.body)
        if isinstance(said.get("bids"), dict):
            change(said["bids"])
        return attrs.evolve(good, body=json.dumps(said).encode())

    return Fault(name="broken bids", method="GET", path=BIDS, times=None, mutate=mutate)


def breaking(requests: Iterable[int]) -> Fault:
    """Bids on these requests are listed with a price that is none."""

    def change(bids: dict[str, Any]) -> None:
        for bid in bids.values():
            if bid["index"] in requests:
                bid["price"] = {"no": "price"}

    return _listing(change)


def poisoning(how: str) -> Fault:
    """The second bid is no bid."""
    records: dict[str, Any] = {"string": "Undefined index", "null": None, "hollow": {}, "bad_index": {"index": "x"}}

    def change(bids: dict[str, Any]) -> None:
        if "1" in bids:
            bids["1"] = records[how]

    return _listing(change)


def answering(fields: dict[str, Any]) -> Fault:
    """The answer to an offer shows the request with these fields."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        said = json.loads(good.body)
        (records,) = said.values()
        for record in records.values() if "0" in records else [records]:
            record.update(fields)
        return attrs.evolve(good, body=json.dumps(said).encode())

    return Fault(name="answer", method="POST", path=OFFER, mutate=mutate)
