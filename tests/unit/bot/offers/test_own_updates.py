"""Tests of updates that an offer of this bot caused."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.rig import (
    AMOUNT,
    BIDS,
    OFFER,
    UNANSWERED,
    amounts_on,
    eventually,
    new_bot,
    offers,
    run_until_idle,
    strike,
)

from freight_exchange import Bid, RateRequest, RetryLater, UnknownWord
from freight_exchange.bot.offers.own_updates import changed_by_offer, offer_fields
from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.models import BidStatus, RequestStatus
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Cargo, Fault, Profile, Sandbox
from freight_sandbox.wire import Reply

QUOTED = "1 offer received."
WAITING = RateRequest(index=4, status=RequestStatus.AVAILABLE, notes="No offer yet.")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({}, ()),
        ({"status": BidStatus.AVAILABLE, "notes": "No offer yet."}, ()),
        ({"status": UnknownWord("available")}, ()),
        ({"status": BidStatus.AVAILABLE, "notes": QUOTED}, ("notes",)),
        ({"status": UnknownWord("Quoted"), "notes": QUOTED}, ("status", "notes")),
        ({"status": BidStatus.SELECTED, "notes": QUOTED}, ("notes",)),
        ({"quantity": 77}, ()),
    ],
    ids=str,
)
def test_changed_fields_of_offer(answer: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert changed_by_offer(Bid(index=4, **answer), offer_fields(WAITING)) == expected
    # ... as it was kept, through a restart too.
    record = OfferRecord(
        request=4, handler="quote", amount=Decimal(AMOUNT), currency=840, fields_before=offer_fields(WAITING)
    )
    assert (
        changed_by_offer(Bid(index=4, **answer), OfferRecord.from_effect(record.to_effect()).fields_before) == expected
    )


def test_field_that_was_empty_counts_as_changed() -> None:
    assert offer_fields(RateRequest(index=4)) == {}
    assert changed_by_offer(Bid(index=4, notes=QUOTED), {}) == ("notes",)


def test_nothing_changed_if_fields_before_are_unknown() -> None:
    assert changed_by_offer(Bid(index=4, notes=QUOTED), None) == ()


@pytest.mark.virtual_time
@pytest.mark.parametrize("fault", [None, UNANSWERED, "stall"])
async def test_own_update_is_not_delivered_after_reply_or_check(
    sandbox: Sandbox, store: MemoryStore, fault: str | None
) -> None:
    bot, received = new_bot(store), list[tuple[str, ...]]()
    bot.on_new(id="quote")(offers())

    @bot.on_updated
    async def updated(request: Any, ctx: Any) -> None:
        received.append(ctx.event.changed)

    if fault is not None:
        strike(sandbox, fault)
    for path in ("quote/getrequests", OFFER, BIDS):
        sandbox.strike(Fault(name="counting", path=path, times=None, mutate=counting(sandbox)))
    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert trial.status.offers["confirmed"] == 1
        sandbox.exchange.touch(index, sandbox.now())
        await trial.idle()
        await anyio.sleep(600)
    assert amounts_on(sandbox, index) == [AMOUNT]
    assert received == []


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_parked", [False, True])
async def test_update_waits_ten_minutes_for_doubt_and_for_no_person(store: MemoryStore, is_parked: bool) -> None:
    # A service that rounds shows a price that may be the offer's, or not.
    sandbox = Sandbox(Profile(amount_rounding="whole"))
    bot, received = new_bot(store), list[float]()
    bot.on_new(id="quote")(offers())

    @bot.on_updated
    async def updated(request: Any, ctx: Any) -> None:
        received.append(anyio.current_time())

    async with sandbox.running(bot) as trial:
        await trial.idle()
        strike(sandbox, UNANSWERED)
        if not is_parked:
            strike(sandbox, "unavailable_forever", BIDS, times=None)
        index = sandbox.publish()
        await eventually(lambda: trial.status.parked if is_parked else trial.status.in_doubt)
        began = anyio.current_time()
        sandbox.strike(Fault(name="counting", path="quote/getrequests", times=None, mutate=counting(sandbox)))
        sandbox.exchange.touch(index, sandbox.now())
        await eventually(lambda: received)
        assert (trial.status.parked, trial.status.in_doubt) == ((1, 0) if is_parked else (0, 1))
    assert received[0] - began == pytest.approx(20 if is_parked else 600, abs=20)


@pytest.mark.virtual_time
async def test_update_without_previous_request_is_delivered(sandbox: Sandbox, store: MemoryStore) -> None:
    """The previous request is forgotten, so the changes are not known."""
    called = list[tuple[bool, tuple[str, ...], int]]()

    def bot_of_today() -> Any:
        bot = new_bot(store, interval=timedelta(minutes=1))

        @bot.on_updated(id="updated")
        async def updated(request: Any, ctx: Any) -> None:
            called.append((ctx.event.previous is None, ctx.event.changed, ctx.attempt))
            await ctx.offer(amount=AMOUNT, currency=840)
            if len(called) == 1:
                raise RetryLater(600)

        return bot

    index = sandbox.publish()
    await run_until_idle(sandbox, bot_of_today())
    await anyio.sleep(timedelta(days=7).total_seconds())
    async with sandbox.running(bot_of_today()) as trial:
        await anyio.sleep(600)
        sandbox.strike(Fault(name="counting", path="quote/getrequests", times=None, mutate=counting(sandbox)))
        sandbox.strike(Fault(name="counting", path=OFFER, times=None, mutate=counting(sandbox)))
        sandbox.exchange.update(index, sandbox.now(), Cargo(quantity=7))
        await eventually(lambda: called)
        sandbox.exchange.touch(index, sandbox.now())
        await trial.idle()
    assert called == [(True, (), 1), (True, ("notes",), 1)]
    assert amounts_on(sandbox, index) == [AMOUNT]


def counting(sandbox: Sandbox) -> Any:
    """Profile of a service whose notes count the offers."""

    def noted(value: Any) -> Any:
        if isinstance(value, list):
            return [noted(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "notes" in value and "index" in value and sandbox.audit_log.offers_on(int(value["index"])):
            value = {**value, "notes": QUOTED}
        return {name: noted(item) for name, item in value.items()}

    def mutate(reply: Reply, *_: object) -> Reply:
        return attrs.evolve(reply, body=json.dumps(noted(json.loads(reply.body))).encode())

    return mutate
