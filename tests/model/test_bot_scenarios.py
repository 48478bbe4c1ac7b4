"""Faults of bots that schedules of a feed alone do not show, each as a short scenario against the sandbox."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import attrs
import pytest
from tests.model.support import Cargo, Fault, Profile, Service

from freight_exchange import AlreadyApprovedError, Bid, Bot, Context, Offer, RateRequest
from freight_exchange.testing import FAULTS

pytestmark = pytest.mark.virtual_time

_APPROVE = "quote/approveoffer"
_BIDS = "quote/bid"


def _bot() -> Bot:
    return Bot(store=None, interval=timedelta(seconds=30), settle=timedelta(seconds=10))


def _entries(row: dict[str, Any]) -> list[dict[str, Any]]:
    offer = row.get("offer") or {}
    return [offer] if "offerAmount" in offer else [*offer.values()]


def _join(rows: dict[Any, Any]) -> bool:
    """Give each offer a row of its own, the newest first."""
    joined = [
        {**row, "offer": {"0": entry}}
        for row in rows.values()
        for entry in sorted(_entries(row), key=lambda entry: -int(entry["offerId"]))
    ]
    rows.clear()
    rows.update({str(place): row for place, row in enumerate(joined)})
    return True


async def test_offer_that_a_person_approved_is_found_in_a_listing_with_a_row_for_each_offer() -> None:
    profile = Profile(selected_offer_shape="collection", second_approval="switched")
    service = Service(profile, 0, ("quote/getoffers", "quote/offer"), after=lambda page, rows: _join(rows))
    service.changes_replies = True
    sandbox = service.sandbox
    request = sandbox.publish()
    by_person, by_bot = (
        sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=amount) for amount in (900, 800)
    )
    errors: list[Exception] = []
    bot = _bot()

    @bot.on_offer
    async def approve(offer: Offer, ctx: Context) -> None:
        if offer.id != by_bot:
            return
        sandbox.exchange.select(by_person, sandbox.now())
        try:
            await ctx.approve(offer)
        except Exception as error:
            errors.append(error)
            raise

    async with sandbox.running(bot, account=sandbox.shipper):
        await anyio.sleep(300.0)
    assert not sandbox.audit_log.calls_to("POST", _APPROVE)
    assert [type(error) for error in errors] == [AlreadyApprovedError]


async def test_offer_that_one_look_up_lacks_is_approved() -> None:
    lacking = 1

    def strip(page: int | None, rows: dict[Any, Any]) -> bool:
        nonlocal lacking
        if page is not None or not lacking:
            return False
        lacking -= 1
        for row in rows.values():
            row["offer"] = {}
        return True

    service = Service(Profile(), 0, ("quote/getoffers", "quote/offer"), after=strip)
    service.changes_replies = True
    sandbox = service.sandbox
    request = sandbox.publish()
    sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=900)
    bot = _bot()

    @bot.on_offer
    async def approve(offer: Offer, ctx: Context) -> None:
        await ctx.approve(offer)

    async with sandbox.running(bot, account=sandbox.shipper):
        await anyio.sleep(3600.0)
    assert not lacking
    assert len(sandbox.audit_log.calls_to("POST", _APPROVE)) == 1


def _unfiltered(service: Service) -> Fault:
    """Make a fault by which the listing of bids ignores `type`, and uses another word for an open bid."""
    calls: list[Any] = []

    def is_filtered(call: Any) -> bool:
        calls[:] = [call]
        return call.path == _BIDS and call.method == "GET" and ("type" in call.query or b'"type"' in call.body)

    def answer(reply: Any, now: float, drawn: object) -> Any:
        call = calls[0]
        body = json.loads(call.body or b"{}")
        body.pop("type", None)
        query = {name: value for name, value in call.query.items() if name != "type"}
        plain = attrs.evolve(call, query=query, body=json.dumps(body).encode() if call.body else b"")
        return service.sandbox.exchange.handle(plain, now)

    return Fault(name="type ignored", when=is_filtered, times=None, mutate=answer)


def _open_words(page: int | None, rows: dict[Any, Any]) -> bool:
    for row in rows.values():
        row["status"] = "Open" if row["status"] == "Available" else row["status"]
    return True


async def test_open_bid_is_not_won_where_the_filter_is_ignored() -> None:
    service = Service(Profile(), 0, (_BIDS,), after=_open_words)
    service.changes_replies = True
    service.arm(_unfiltered(service))
    sandbox = service.sandbox
    won: list[int | None] = []
    bot = _bot()

    @bot.on_new
    async def offer(request: RateRequest, ctx: Context) -> None:
        await ctx.offer(amount=Decimal(1000), currency="USD")

    @bot.on_selected
    async def note(bid: Bid, ctx: Context) -> None:
        won.append(bid.index)

    async with sandbox.running(bot):
        await anyio.sleep(60.0)
        request = sandbox.publish()
        await anyio.sleep(900.0)
    assert len(sandbox.audit_log.offers_on(request)) == 1
    assert won == []


async def test_edit_before_the_offer_is_delivered_as_an_update() -> None:
    sandbox = Service(Profile(published_notes="as_sent"), 0, ()).sandbox
    updates: list[str | None] = []
    bot = _bot()

    @bot.on_new
    async def offer(request: RateRequest, ctx: Context) -> None:
        sandbox.exchange.update(request.index, sandbox.now(), Cargo(notes="keep upright"))
        await ctx.offer(amount=Decimal(1000), currency="USD")

    @bot.on_updated
    async def note(request: RateRequest, ctx: Context) -> None:
        updates.append(request.notes)

    async with sandbox.running(bot):
        await anyio.sleep(60.0)
        sandbox.publish(Cargo(notes="fragile"))
        await anyio.sleep(900.0)
    assert updates == ["keep upright"]


async def test_each_update_gets_its_price() -> None:
    sandbox = Service(Profile(published_notes="as_sent"), 0, ()).sandbox
    bot = _bot()

    async def offer(request: RateRequest, ctx: Context) -> None:
        assert request.quantity is not None
        await ctx.offer(amount=Decimal(request.quantity), currency="USD")

    bot.on_new(offer)
    bot.on_updated(offer)
    async with sandbox.running(bot):
        await anyio.sleep(60.0)
        request = sandbox.publish(Cargo(quantity=20))
        for quantity in (30, 40):
            await anyio.sleep(300.0)
            sandbox.exchange.update(request, sandbox.now(), Cargo(quantity=quantity))
        await anyio.sleep(300.0)
    assert [record.offer.amount for record in sandbox.audit_log.offers_on(request)] == [20, 30, 40]


async def test_bids_in_another_order_at_each_call_are_read_calmly() -> None:
    service = Service(Profile(order="random"), 0, (_BIDS,), before=lambda page: service.sandbox.exchange.reorder())
    sandbox = service.sandbox
    for _ in range(25):
        request = sandbox.publish()
        sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=100 + request)
    bot = _bot()

    @bot.on_new
    async def offer(request: RateRequest, ctx: Context) -> None:
        await ctx.offer(amount=Decimal(1000), currency="USD")

    async with sandbox.running(bot):
        await anyio.sleep(60.0)
        sandbox.publish()
        await anyio.sleep(300.0)
    # A reading of 26 bids takes seven requests, and one begins at most once an interval of thirty seconds.
    assert len(sandbox.audit_log.calls_to("GET", _BIDS)) <= 7 * 13


async def test_doubt_about_bids_in_another_order_at_each_call_is_told_and_left_to_a_person(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = Service(Profile(order="random"), 0, (_BIDS,), before=lambda page: service.sandbox.exchange.reorder())
    sandbox = service.sandbox
    for _ in range(45):
        sandbox.exchange.offer(sandbox.forwarder, sandbox.publish(), sandbox.now(), amount=100)
    bot = _bot()

    @bot.on_new
    async def offer(request: RateRequest, ctx: Context) -> None:
        await ctx.offer(amount=Decimal(1000), currency="USD")

    async with sandbox.running(bot) as trial:
        await anyio.sleep(60.0)
        sandbox.strike(*FAULTS["reset_after_send"](path="quote/submitoffer"))
        sandbox.publish()
        await anyio.sleep(600.0)
        assert (trial.status.in_doubt, trial.status.parked) == (0, 1)
    assert "rows change their places or come several times, at each reading" in caplog.text
    assert "is parked: no check can prove the outcome" in caplog.text
    # Three proofs of five views, each in eight readings at most, two ways, of seven pages.
    assert len(sandbox.audit_log.calls_to("GET", _BIDS)) <= 3 * 8 * 2 * 5 * 7
