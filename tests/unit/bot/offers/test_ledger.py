"""Tests of the ledger: one offer for each request and revision, from any handler."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any

import anyio
import pytest
from tests.unit.bot.rig import (
    AMOUNT,
    BIDS,
    OFFER,
    SETTLE,
    UNANSWERED,
    UNPROCESSED,
    amounts_on,
    messages,
    new_bot,
    offering_bot,
    offers,
    run_until_idle,
    sent,
    strike,
)

from freight_exchange import Bot
from freight_exchange.bot import Context
from freight_exchange.errors import ValidationError
from freight_exchange.models import Bid, RateRequest
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import FAULTS, Cargo, Sandbox

pytestmark = pytest.mark.virtual_time
NOT_SENT = "not_found_page"


class TestRepeatedOffer:
    async def test_two_handlers_get_one_offer(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, bids = new_bot(store), dict[str, Bid]()

        @bot.on_new
        async def first(request: Any, ctx: Any) -> None:
            bids["first"] = await ctx.offer(amount=AMOUNT, currency=840)

        @bot.on_new
        async def second(request: Any, ctx: Any) -> None:
            bids["second"] = await ctx.offer(amount=AMOUNT, currency=840)

        index = sandbox.publish()
        await run_until_idle(sandbox, bot)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert bids["first"].amount == bids["second"].amount == Decimal(AMOUNT)

    async def test_child_tasks_get_one_offer(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            async def ask() -> None:
                bids.append(await ctx.offer(amount=AMOUNT, currency=840))

            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(ask)

        strike(sandbox, "slow", seconds=3.0)
        index = sandbox.publish()
        status = await run_until_idle(sandbox, bot)
        assert status.retried == 0
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [bid.amount for bid in bids] == [Decimal(AMOUNT)] * 10

    async def test_child_tasks_in_doubt_get_one_offer(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new(retries=0)
        async def quote(request: Any, ctx: Any) -> None:
            async def ask() -> None:
                bids.append(await ctx.offer(amount=AMOUNT, currency=840))

            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(ask)

        strike(sandbox, UNANSWERED)
        index = sandbox.publish()
        status = await run_until_idle(sandbox, bot)
        assert status.dead == 0
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [bid.amount for bid in bids] == [Decimal(AMOUNT)] * 3

    async def test_bid_is_the_same_after_restart(self, sandbox: Sandbox, store: MemoryStore) -> None:
        index = sandbox.publish()
        await run_until_idle(sandbox, offering_bot(store))
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_updated
        async def quote(request: Any, ctx: Any) -> None:
            bids.append(await ctx.offer(amount=AMOUNT, currency=840))

        sandbox.exchange.update(index, sandbox.now(), Cargo(quantity=77))
        await run_until_idle(sandbox, bot)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [(bid.index, bid.amount, bid.offer is not None) for bid in bids] == [(index, Decimal(AMOUNT), True)]


class TestOtherPrice:
    async def test_is_logged_and_not_sent(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot, bids = new_bot(store), list[Bid]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            bids.append(await ctx.offer(amount=AMOUNT, currency=840))
            bids.append(await ctx.offer(amount=1900, currency=840))

        index = sandbox.publish()
        await run_until_idle(sandbox, bot)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [bid.amount for bid in bids] == [Decimal(AMOUNT)] * 2
        assert any("different price" in line and AMOUNT in line for line in messages(caplog))

    @pytest.mark.parametrize("terms", [{"currency": 978}, {"currency": 840, "terms": "14 days"}])
    async def test_other_terms_are_not_sent(
        self, sandbox: Sandbox, store: MemoryStore, terms: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840)
            await ctx.offer(amount=AMOUNT, **terms)

        sandbox.publish()
        await run_until_idle(sandbox, bot)
        assert sent(sandbox) == 1
        assert any("different price" in line for line in messages(caplog))

    async def test_same_price_in_other_notation_is_the_same(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot = new_bot(store)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount="1840.50", currency=840)
            await ctx.offer(amount=1840.5, currency=840)

        sandbox.publish()
        await run_until_idle(sandbox, bot)
        assert sent(sandbox) == 1
        assert messages(caplog) == []

    async def test_waits_for_offer_being_sent(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot, bids, calls = new_bot(store), list[Bid](), list[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            calls.append(request.index)
            with anyio.move_on_after(1):
                await ctx.offer(amount=AMOUNT, currency=840)
            bids.append(await ctx.offer(amount=1900, currency=840))

        strike(sandbox, "slow", seconds=3.0)
        async with sandbox.running(bot) as trial:
            await trial.idle()
            index = sandbox.publish()
            await trial.idle()
            assert calls == [index]
            assert trial.status.dead == trial.status.retried == trial.status.in_doubt == 0
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert [str(bid.amount) for bid in bids] == [AMOUNT]
        assert any("different price" in line for line in messages(caplog))

    @pytest.mark.parametrize(("fault", "stands"), [(UNANSWERED, [AMOUNT]), (UNPROCESSED, ["1900"])])
    async def test_waits_for_doubt(
        self, sandbox: Sandbox, store: MemoryStore, fault: str, stands: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        bot, prices = new_bot(store), iter([AMOUNT])

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=next(prices, "1900"), currency=840)

        bot.on_new(id="second")(offers(amount="1900", currency=840))
        strike(sandbox, fault)
        async with sandbox.running(bot) as trial:
            await trial.idle()
            index = sandbox.publish()
            await trial.idle()
        assert amounts_on(sandbox, index) == stands
        assert any("different price" in line for line in messages(caplog))

    async def test_replaces_unsent_offer(
        self, sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot, prices = new_bot(store), iter(["1700", "1800"])

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=next(prices), currency=840)

        strike(sandbox, NOT_SENT)
        async with sandbox.running(bot) as trial:
            await trial.idle()
            index = sandbox.publish()
            await trial.idle()
        assert amounts_on(sandbox, index) == ["1800"]
        assert not any("different price" in line for line in messages(caplog))


class TestArguments:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"amount": 0},
            {"amount": True},
            {"amount": "nan"},
            {"currency": "XXX"},
            {"revision": -1},
            {"revision": True},
            {"revision": "1"},
            {"allow_existing": 1},
            {"rates": {"": 1}},
        ],
        ids=str,
    )
    async def test_invalid_arguments_raise_and_leave_no_trace(
        self, sandbox: Sandbox, store: MemoryStore, wrong: dict[str, Any]
    ) -> None:
        bot, refused = new_bot(store), list[str]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            arguments: dict[str, Any] = {"amount": AMOUNT, "currency": 840, **wrong}
            try:
                await ctx.offer(**arguments)
            except ValidationError as error:
                refused.append(str(error))
            await ctx.offer(amount=AMOUNT, currency=840)

        async with sandbox.running(bot) as trial:
            await trial.idle()
            index = sandbox.publish()
            await trial.idle()
        assert len(refused) == 1
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_all_arguments_are_sent(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot = new_bot(store)
        fees = {"Ocean Freight": Decimal("1700.25"), "Chassis Fee": Decimal("140.25")}
        bot.on_new(id="quote")(offers(amount=AMOUNT, currency="USD", rates=fees, terms="valid 14 days, ü"))
        # Sent only after it went through the store, twice.
        strike(sandbox, NOT_SENT)
        index = sandbox.publish()
        await run_until_idle(sandbox, bot)
        ((offer, *_),) = sandbox.audit_log.offers_on(index)
        assert (str(offer.amount), offer.terms) == (AMOUNT, "valid 14 days, ü")
        assert {name: str(fee) for name, fee in offer.rates.items()} == {
            "Ocean Freight": "1700.25",
            "Chassis Fee": "140.25",
        }


async def test_plain_offer_reads_no_listing(sandbox: Sandbox, store: MemoryStore) -> None:
    async with sandbox.running(offering_bot(store)) as trial:
        await trial.idle()
        await anyio.sleep(SETTLE.total_seconds())
        listings = len(sandbox.audit_log.calls_to("GET", BIDS))
        for _ in range(20):
            sandbox.publish()
        await trial.idle()
    assert len(sandbox.audit_log.calls_to("POST", OFFER)) == 20
    assert len(sandbox.audit_log.calls_to("GET", BIDS)) == listings


async def test_result_is_counted_and_logged(
    sandbox: Sandbox, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    index = sandbox.publish()
    with caplog.at_level(logging.INFO, "freight_exchange.bot"):
        status = await run_until_idle(sandbox, offering_bot(store))
        assert status.offers == {"confirmed": 1}
    (line,) = [line for line in messages(caplog, logging.INFO) if "was taken" in line]
    assert f"request {index}" in line
    assert AMOUNT in line


def offering(store: Store) -> Bot:
    bot = new_bot(store)

    @bot.on_new(id="quote")
    async def quote(request: RateRequest, ctx: Context) -> None:
        await ctx.offer(amount=7, currency=840)

    return bot


async def test_log_records_of_offer_name_request(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "freight_exchange.bot")
    sandbox = Sandbox()
    index = sandbox.publish()
    async with sandbox.running(offering(store), crash_at="after send") as trial:
        await trial.crashed()
    sandbox.strike(*FAULTS["unavailable_forever"](path="quote/bid", times=None))
    async with sandbox.running(offering(store)):
        await anyio.sleep(1800)
    about = [record for record in caplog.records if f"the offer on request {index} " in record.getMessage()]
    text = " ".join(record.getMessage() for record in about)
    assert "may have been sent before the last run ended" in text
    assert "cannot be checked yet" in text
    assert [vars(record).get("request") for record in about] == [index] * len(about)
