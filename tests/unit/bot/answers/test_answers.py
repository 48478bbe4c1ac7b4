"""Tests of a shipper's bot: handlers of offers, and the ledger of answers through crashes and lost replies."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import pytest

from freight_exchange import (
    AlreadyApprovedError,
    Bot,
    ConfigurationError,
    Context,
    Offer,
    OfferChangedError,
    OfferEvent,
    OfferInDoubtError,
    OfferRejectedError,
    RateRequest,
    ValidationError,
)
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Cargo, Fault, Profile, Sandbox
from freight_sandbox.faults import json_reply

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]

MINUTE = timedelta(minutes=1)
APPROVE = "quote/approveoffer"


async def offer(sandbox: Sandbox, request: int, amount: int, *, rival: bool = False) -> None:
    async with sandbox.client(sandbox.rival if rival else sandbox.forwarder) as forwarder:
        await forwarder.bids.submit(request, amount=amount, currency="USD")


def selected(sandbox: Sandbox) -> list[tuple[int, int | Decimal]]:
    """Return request and amount of each approval that the exchange has carried out."""
    amounts = {record.offer.index: record.offer.amount for record in sandbox.audit_log.offers}
    changes = [change for change in sandbox.audit_log.changes if change.what == "selected"]
    return [(change.request, amounts[change.state.selected or 0]) for change in changes]


def sent(sandbox: Sandbox) -> int:
    return len(sandbox.audit_log.calls_to("POST", APPROVE))


class Tender:
    """Bot that approves the cheapest offer on each request with two offers, and the events that it received."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.reported: list[tuple[str, Decimal | None]] = []
        self.errors: list[Exception] = []
        self.store = MemoryStore() if store is None else store
        self.bot = Bot(store=self.store, interval=MINUTE, settle=timedelta(seconds=10))
        self.bot.on_offer(id="compare")(self.compare)
        self.bot.on_offer_answered(id="answered")(self.note)
        self.bot.on_offer_changed(id="changed")(self.note)
        self.bot.on_offer_gone(id="gone")(self.note)

    async def compare(self, offer: Offer, ctx: Context) -> None:
        assert isinstance(ctx.event, OfferEvent)
        offers = ctx.event.listing.offers
        if len(offers) < 2:
            return
        cheapest = min(offers, key=lambda entry: entry.amount or 0)
        try:
            await ctx.approve(cheapest)
        except Exception as error:
            self.errors.append(error)
            raise

    async def note(self, offer: Offer, ctx: Context) -> None:
        assert isinstance(ctx.event, OfferEvent)
        self.reported.append((ctx.event.kind, offer.amount))
        assert ctx.event.answered_by in (None, "compare")


async def test_shipper_approves_the_cheapest_offer_once() -> None:
    sandbox, tender = Sandbox(), Tender()
    request = sandbox.publish()
    async with sandbox.running(tender.bot, account=sandbox.shipper) as trial:
        await offer(sandbox, request, 900)
        await offer(sandbox, request, 800, rival=True)
        await trial.idle()
        await trial.idle()
        assert trial.status.live
        assert trial.status.offer_feed is not None
    assert selected(sandbox) == [(request, 800)]
    assert tender.reported == [("answered", Decimal(800))]


async def test_one_account_receives_requests_and_offers() -> None:
    sandbox = Sandbox(Profile(roles="free"))
    received: list[str] = []
    bot = Bot(store=None, interval=MINUTE)

    @bot.on_new
    async def requests(request: RateRequest, ctx: Context) -> None:
        received.append(f"request {request.index}")
        with pytest.raises(ConfigurationError, match="no offer to answer"):
            await ctx.approve(1)

    @bot.on_offer
    async def offers(offer: Offer, ctx: Context) -> None:
        received.append(f"offer of {offer.amount}")
        with pytest.raises(ConfigurationError, match="no request to offer on"):
            await ctx.offer(amount=1, currency="USD")

    async with sandbox.running(bot, account=sandbox.shipper) as trial:
        await offer(sandbox, sandbox.publish(), 700)
        other = sandbox.exchange.publish(sandbox.rival, sandbox.now(), Cargo())
        await trial.idle()
    assert sorted(received) == ["offer of 700", f"request {other}"]


@pytest.mark.parametrize("fault", ["reset_after_processing", "reset_after_send", "server_error", "stall"])
async def test_lost_reply_is_looked_for_and_not_sent_again(fault: str) -> None:
    sandbox, tender = Sandbox(), Tender()
    request = sandbox.publish()
    async with sandbox.running(tender.bot, account=sandbox.shipper) as trial:
        sandbox.strike(*FAULTS[fault](path=APPROVE))
        await offer(sandbox, request, 900)
        await offer(sandbox, request, 800, rival=True)
        await trial.idle()
    assert selected(sandbox) == [(request, 800)]


@pytest.mark.parametrize("point", ["before intent", "after intent", "after sending", "before send", "after send"])
async def test_crash_around_an_approval_leaves_one(point: str) -> None:
    sandbox, tender = Sandbox(), Tender()
    request = sandbox.publish()
    await offer(sandbox, request, 900)
    await offer(sandbox, request, 800, rival=True)
    async with sandbox.running(tender.bot, account=sandbox.shipper, crash_at=point) as trial:
        await trial.crashed()
    again = Tender(tender.store)
    async with sandbox.running(again.bot, account=sandbox.shipper) as trial:
        await trial.idle()
    assert selected(sandbox) == [(request, 800)]
    assert sent(sandbox) == 1


async def test_second_approval_is_refused_before_it_is_sent() -> None:
    sandbox, tender = Sandbox(), Tender()
    request = sandbox.publish()
    async with sandbox.running(tender.bot, account=sandbox.shipper) as trial:
        await offer(sandbox, request, 900)
        await offer(sandbox, request, 800, rival=True)
        await trial.idle()
        async with sandbox.client() as forwarder:
            with pytest.raises(Exception):  # noqa: B017 - the service may refuse an offer on an awarded request
                await forwarder.bids.submit(request, amount=700, currency="USD")
        await trial.idle()
    assert sent(sandbox) == 1
    assert {type(error) for error in tender.errors} <= {AlreadyApprovedError}


async def test_two_handlers_approve_one_offer_once() -> None:
    sandbox = Sandbox()
    bot = Bot(store=None, interval=MINUTE)
    errors: list[Exception] = []
    offers: list[int] = []

    async def approve(offer: Offer, ctx: Context) -> None:
        assert offer.id is not None
        offers.append(offer.id)
        try:
            await ctx.approve(offer)
        except AlreadyApprovedError as error:
            errors.append(error)
            raise

    bot.on_offer(id="first")(approve)
    bot.on_offer(id="second")(approve)
    request = sandbox.publish()
    await offer(sandbox, request, 900)
    await offer(sandbox, request, 800, rival=True)
    async with sandbox.running(bot, account=sandbox.shipper) as trial:
        await trial.idle()
        assert trial.status.dead == 0
    assert len(offers) == 4
    assert len(errors) == 2
    assert sent(sandbox) == len(selected(sandbox)) == 1


async def test_approval_by_a_person_stands() -> None:
    sandbox, tender = Sandbox(), Tender()
    request = sandbox.publish()
    await offer(sandbox, request, 900)
    await offer(sandbox, request, 800, rival=True)

    async def approve_by_hand(offer: Offer, ctx: Context) -> None:
        listing = await ctx.exchange.offers.get(request)
        if listing.selected is None:
            await ctx.exchange.offers.approve(next(entry for entry in listing.offers if entry.amount == 900))
        await tender.compare(offer, ctx)

    tender.bot.on_offer(id="by hand", retries=0)(approve_by_hand)
    async with sandbox.running(tender.bot, account=sandbox.shipper) as trial:
        await trial.idle()
    assert len(selected(sandbox)) == 1


async def test_changed_offer_is_not_approved_at_the_old_price() -> None:
    sandbox = Sandbox()
    bot = Bot(store=None, interval=MINUTE)
    errors: list[Exception] = []

    @bot.on_offer
    async def approve(offer: Offer, ctx: Context) -> None:
        seen = Offer(id=offer.id, amount=Decimal(1), currency=offer.currency)
        try:
            await ctx.approve(seen)
        except OfferChangedError as error:
            errors.append(error)
            raise

    request = sandbox.publish()
    await offer(sandbox, request, 900)
    async with sandbox.running(bot, account=sandbox.shipper) as trial:
        await trial.idle()
        assert trial.status.dead == 0
    assert [str(error).partition(": ")[0] for error in errors] != []
    assert sent(sandbox) == 0


async def test_decline_is_sent_once_and_the_declined_offer_is_not_approved() -> None:
    sandbox = Sandbox(Profile(decline_outcome="declined"))
    bot = Bot(store=None, interval=MINUTE, settle=timedelta(seconds=10))
    errors: list[Exception] = []

    @bot.on_offer
    async def decline(offer: Offer, ctx: Context) -> None:
        await ctx.decline(offer)
        await ctx.decline(offer)
        try:
            await ctx.approve(offer)
        except OfferChangedError as error:
            errors.append(error)

    request = sandbox.publish()
    await offer(sandbox, request, 900)
    sandbox.strike(*FAULTS["reset_after_processing"](path=APPROVE))
    async with sandbox.running(bot, account=sandbox.shipper) as trial:
        await trial.idle()
    assert sent(sandbox) == 1
    assert len(errors) == 1


@pytest.mark.parametrize("outcome", ["unchanged", "removed", "rejected"])
async def test_offer_that_one_handler_has_declined_is_not_approved_by_another(outcome: Any) -> None:
    sandbox = Sandbox(Profile(decline_outcome=outcome))
    bot = Bot(store=None, interval=MINUTE)
    errors: list[Exception] = []

    @bot.on_offer
    async def decline(offer: Offer, ctx: Context) -> None:
        await ctx.decline(offer)
        try:
            await ctx.approve(offer.id or 0)
        except OfferChangedError as error:
            errors.append(error)

    await offer(sandbox, sandbox.publish(), 900)
    async with sandbox.running(bot, account=sandbox.shipper) as trial:
        await trial.idle()
    assert sent(sandbox) == len(errors) == 1


async def test_refused_approval_is_a_dead_letter_and_not_sent_again() -> None:
    sandbox, tender = Sandbox(), Tender()
    request = sandbox.publish()
    await offer(sandbox, request, 900)
    await offer(sandbox, request, 800, rival=True)
    refusal = json_reply(400, {"message": "Not now."})
    sandbox.strike(Fault(name="refusal", path=APPROVE, processed=False, mutate=refusal))
    async with sandbox.running(tender.bot, account=sandbox.shipper) as trial:
        await trial.idle()
        (letter, *_) = await tender.bot.dead_letters()
        assert letter.kind == "offer"
        await tender.bot.replay(letter.event, letter.handler)
        await trial.idle()
    assert sent(sandbox) == 1
    assert {type(error) for error in tender.errors} == {OfferRejectedError}


async def test_handler_cancelled_in_the_middle_leaves_one_approval() -> None:
    sandbox = Sandbox()
    store, calls = MemoryStore(), list[int]()
    bot = Bot(store=store, interval=MINUTE, settle=timedelta(seconds=10))

    @bot.on_offer(timeout=5)
    async def approve(offer: Offer, ctx: Context) -> None:
        calls.append(ctx.attempt)
        await ctx.approve(offer)

    request = sandbox.publish()
    await offer(sandbox, request, 900)
    sandbox.strike(*FAULTS["stall"](path=APPROVE))
    async with sandbox.running(bot, account=sandbox.shipper) as trial:
        await trial.idle()
    assert [index for index, _ in selected(sandbox)] == [request]


async def test_unusual_keyword_and_context_are_refused() -> None:
    bot = Bot(store=None)
    with pytest.raises(ConfigurationError, match="on_offer has no incoterm="):
        bot.on_offer(incoterm="FOB")  # type: ignore[call-overload]
    with pytest.raises(ValidationError, match="max_amount needs currency"):
        bot.on_offer(max_amount=4)
    with pytest.raises(ConfigurationError, match="from_start"):
        bot.on_offer(from_start=True)  # type: ignore[call-overload]


async def test_doubt_that_lasts_keeps_everything_else_on_the_request_unsent() -> None:
    sandbox, tender = Sandbox(), Tender()
    request = sandbox.publish()
    await offer(sandbox, request, 900)
    await offer(sandbox, request, 800, rival=True)
    sandbox.strike(*FAULTS["reset_after_processing"](path=APPROVE))
    async with sandbox.running(tender.bot, account=sandbox.shipper, crash_at="after send") as trial:
        await trial.crashed()
    sandbox.strike(*FAULTS["unavailable"](path="quote/offer", times=60))
    again = Tender(tender.store)
    async with sandbox.running(again.bot, account=sandbox.shipper) as trial:
        await anyio.sleep(20)
        assert sent(sandbox) == 1
        await trial.idle()
    assert selected(sandbox) == [(request, 800)]
    assert {type(error) for error in again.errors} <= {OfferInDoubtError}
