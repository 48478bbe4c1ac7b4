"""Tests of a shipper's answers: at most one approval of a request, and none of what the shipper has not seen."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import anyio
import attrs
import pytest
from tests.bot.processes import ANSWER, SETTLE, Delivery, Process, process
from tests.bot.rig import HOUR, INTERVAL, sent, strike

from freight_exchange.bot.outcomes import RetryLater
from freight_exchange.errors import (
    AlreadyApprovedError,
    FreightExchangeError,
    OfferChangedError,
    OfferInDoubtError,
    OfferRejectedError,
    ValidationError,
)
from freight_exchange.models import Offer
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Fault, Profile, Sandbox
from freight_sandbox.faults import json_reply
from freight_sandbox.wire import Reply

pytestmark = pytest.mark.virtual_time

LISTING = "quote/offer"


def selected(sandbox: Sandbox) -> list[int]:
    """Return the identifiers of all offers that the exchange has approved, in order."""
    return [change.state.selected or 0 for change in sandbox.audit_log.changes if change.what == "selected"]


def tender(sandbox: Sandbox) -> tuple[int, int, int]:
    """Publish a request with offers of 900 and 800; return their identifiers."""
    request = sandbox.publish()
    first = sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=900)
    return request, first, sandbox.exchange.offer(sandbox.rival, request, sandbox.now(), amount=800)


async def answered(run: Process, event: Delivery, offer: Offer | int, *, approved: bool = True) -> Any:
    """Answer again whenever the delivery is due, as a bot does, until the outcome is known."""
    with anyio.fail_after(HOUR):
        while True:
            try:
                return await run.answer(await run.claim(event), offer, approved=approved)
            except RetryLater as later:
                await anyio.sleep(later.delay)
            except OfferInDoubtError:
                await run.resolved(event.subject)


@pytest.mark.parametrize("fault", [None, "reset_after_processing", "reset_after_send", "server_error", "stall"])
async def test_request_gets_one_approval_through_lost_replies(fault: str | None) -> None:
    sandbox = Sandbox()
    request, first, second = tender(sandbox)
    if fault is not None:
        strike(sandbox, fault, ANSWER)
    async with process(sandbox, MemoryStore(), account=sandbox.shipper) as run:
        event = await run.event(request)
        listing = await answered(run, event, second)
        assert listing.contact is not None
        assert await run.answer(event, second) == listing
        with pytest.raises(AlreadyApprovedError) as caught:
            await run.answer(event, first)
        assert (caught.value.request, caught.value.offer) == (request, second)
        with pytest.raises(AlreadyApprovedError):
            await run.answer(event, second, approved=False)
    assert selected(sandbox) == [second]


@pytest.mark.parametrize("point", ["before sending", "after sending", "before send", "after send", "before confirmed"])
async def test_kill_around_an_approval_leaves_one(point: str) -> None:
    sandbox, store = Sandbox(), MemoryStore()
    request, _, second = tender(sandbox)
    event: Delivery | None = None
    async with process(sandbox, store, account=sandbox.shipper, crash_at=point) as run:
        event = await run.event(request)
        await run.answer(event, second)
    assert event is not None
    async with process(sandbox, store, account=sandbox.shipper) as run:
        await answered(run, event, second)
        assert not await run.store.run(run.ledger.doubts)
    assert selected(sandbox) == [second]
    assert sent(sandbox, ANSWER) == 1


async def test_approval_by_a_person_stands() -> None:
    sandbox = Sandbox()
    request, first, second = tender(sandbox)
    async with process(sandbox, MemoryStore(), account=sandbox.shipper) as run:
        event = await run.event(request)
        sandbox.exchange.select(first, sandbox.now())
        with pytest.raises(AlreadyApprovedError) as caught:
            await run.answer(event, second)
        assert caught.value.offer == first
        # What a person has approved needs no second approval.
        assert (await run.answer(event, first)).selected.id == first
    assert (selected(sandbox), sent(sandbox, ANSWER)) == ([first], 0)


def joined_rows(sandbox: Sandbox) -> Fault:
    """Fault: the listing has a row for each offer, the newest first, as a join makes them."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        text = json.loads(good.body)
        if not isinstance(text.get("offers"), dict):
            return good
        rows: list[Any] = []
        for row in text["offers"].values():
            request = sandbox.exchange.requests[int(row["index"])]
            for offer in reversed(sandbox.exchange.offers_on(request.index)):
                entry = {
                    "offerId": str(offer.index), "offerAmount": float(offer.amount), "currencyId": offer.currency,
                    "status": offer.status,
                }  # fmt: skip
                rows.append({**row, "offer": {"0": entry}})
        return attrs.evolve(good, body=json.dumps({"offers": dict(enumerate(rows))}).encode())

    return Fault(name="joined rows", path=LISTING, method="GET", times=None, mutate=mutate)


async def test_listing_with_a_row_for_each_offer_is_read_whole() -> None:
    sandbox = Sandbox()
    request, first, second = tender(sandbox)
    sandbox.strike(joined_rows(sandbox))
    async with process(sandbox, MemoryStore(), account=sandbox.shipper) as run:
        event = await run.event(request)
        sandbox.exchange.select(first, sandbox.now())
        with pytest.raises(AlreadyApprovedError):
            await run.answer(event, second)
        other, cheap, _ = tender(sandbox)
        await run.answer(await run.event(other), cheap)
    assert selected(sandbox) == [first, cheap]


def hiding(offer: int, times: int | None) -> Fault:
    """Fault: the listing lacks an offer, as a replica of the service that lags."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        text = json.loads(good.body)
        for row in text.get("offers", {}).values() if isinstance(text.get("offers"), dict) else ():
            entries = row["offer"].values() if isinstance(row["offer"], dict) else row["offer"]
            row["offer"] = [entry for entry in entries if str(entry["offerId"]) != str(offer)]
        return attrs.evolve(good, body=json.dumps(text).encode())

    return Fault(name="lagging", path=LISTING, method="GET", times=times, mutate=mutate)


@pytest.mark.parametrize("lags", [1, 3])
async def test_offer_that_one_reading_lacks_is_asked_for_again(lags: int) -> None:
    sandbox = Sandbox()
    request, _, second = tender(sandbox)
    async with process(sandbox, MemoryStore(), account=sandbox.shipper, settle=30.0) as run:
        event = await run.event(request)
        sandbox.strike(hiding(second, lags))
        with pytest.raises(RetryLater):
            await run.answer(event, second)
        for _ in range(lags - 2):
            await anyio.sleep(1)
            with pytest.raises(RetryLater):
                await run.answer(event, second)
        await answered(run, event, second)
    assert selected(sandbox) == [second]


@pytest.mark.parametrize("gone", ["offer", "request"])
async def test_offer_that_stays_away_is_given_up(gone: str) -> None:
    sandbox = Sandbox()
    request, _, second = tender(sandbox)
    async with process(sandbox, MemoryStore(), account=sandbox.shipper) as run:
        event = await run.event(request if gone == "offer" else 4711)
        sandbox.exchange.set_offer_status(second, "removed", sandbox.now())
        began = anyio.current_time()
        with pytest.raises(OfferChangedError, match="is not listed any more"):
            await answered(run, event, second)
        assert anyio.current_time() - began >= SETTLE
    assert sent(sandbox, ANSWER) == 0


@pytest.mark.parametrize(
    ("seen", "word"),
    [({"amount": 799}, "amount"), ({"terms": "14 days"}, "terms"), ({"currency": 978}, "currency"), ({}, None)],
    ids=str,
)
async def test_offer_that_differs_from_what_was_seen_is_not_approved(seen: dict[str, Any], word: str | None) -> None:
    sandbox = Sandbox()
    request, _, second = tender(sandbox)
    async with process(sandbox, MemoryStore(), account=sandbox.shipper) as run:
        event = await run.event(request)
        offer = next(one for one in (await run.exchange.offers.get(request)).offers if one.id == second)
        if word is None:
            await run.answer(event, offer)
        else:
            with pytest.raises(OfferChangedError, match=word):
                await run.answer(event, attrs.evolve(offer, **seen))
    assert selected(sandbox) == ([second] if word is None else [])


@pytest.mark.parametrize("outcome", ["declined", "rejected", "unchanged", "removed"])
@pytest.mark.parametrize("fault", [None, "reset_after_processing"])
async def test_declined_offer_is_declined_once_and_not_approved(outcome: Any, fault: str | None) -> None:
    sandbox = Sandbox(Profile(decline_outcome=outcome))
    request, first, _ = tender(sandbox)
    if fault is not None:
        strike(sandbox, fault, ANSWER)
    async with process(sandbox, MemoryStore(), account=sandbox.shipper) as run:
        event = await run.event(request)
        await answered(run, event, first, approved=False)
        await answered(run, event, first, approved=False)
        with pytest.raises(OfferChangedError):
            await answered(run, event, first)
    # A service that shows nothing of a decline gives no proof of it, so it may be sent again.
    assert sent(sandbox, ANSWER) <= (2 if (fault, outcome) == ("reset_after_processing", "unchanged") else 1)
    assert selected(sandbox) == []


async def test_doubt_about_a_decline_ends_with_the_approval_of_another_offer() -> None:
    sandbox = Sandbox(Profile(decline_outcome="unchanged"))
    request, first, second = tender(sandbox)
    strike(sandbox, "reset_after_send", ANSWER)
    async with process(sandbox, MemoryStore(), account=sandbox.shipper, settle=HOUR / 4) as run:
        event = await run.event(request)
        with pytest.raises(OfferInDoubtError):
            await run.answer(event, first, approved=False)
        sandbox.exchange.select(second, sandbox.now())
        await run.resolved(request, within=3 * INTERVAL)
    assert sent(sandbox, ANSWER) == 1


async def test_doubt_about_an_approval_keeps_everything_else_on_the_request() -> None:
    sandbox = Sandbox()
    request, first, second = tender(sandbox)
    strike(sandbox, "reset_after_processing", ANSWER)
    strike(sandbox, "unavailable_forever", LISTING, times=None, skip=1)
    async with process(sandbox, MemoryStore(), account=sandbox.shipper) as run:
        event = await run.event(request)
        for offer, approved in [(second, True), (first, True), (first, False)]:
            with pytest.raises(OfferInDoubtError):
                await run.answer(event, offer, approved=approved)
        await anyio.sleep(600)
        assert sent(sandbox, ANSWER) == 1
        sandbox.exchange.faults.clear()
        await answered(run, event, second)
    assert (selected(sandbox), sent(sandbox, ANSWER)) == ([second], 1)


async def test_refused_approval_is_not_sent_again_before_a_person_says_so() -> None:
    sandbox = Sandbox()
    request, first, second = tender(sandbox)
    no = json_reply(400, {"message": "Not now."})
    sandbox.strike(Fault(name="refusal", path=ANSWER, processed=False, mutate=no))
    async with process(sandbox, MemoryStore(), account=sandbox.shipper) as run:
        event = await run.event(request)
        for _ in range(2):
            with pytest.raises(OfferRejectedError, match="Not now"):
                await run.answer(event, second)
        assert sent(sandbox, ANSWER) == 1
        with pytest.raises(ValidationError, match="is not in doubt"):
            await run.ledger.resolve(request, offer=first, taken=False)
        await run.ledger.resolve(request, offer=second, taken=False)
        await run.answer(event, second)
    assert selected(sandbox) == [second]


async def test_another_offer_may_be_approved_after_a_refusal() -> None:
    sandbox = Sandbox()
    request, first, second = tender(sandbox)
    no = json_reply(400, {"message": "Not this one."})
    sandbox.strike(Fault(name="refusal", path=ANSWER, processed=False, mutate=no))
    async with process(sandbox, MemoryStore(), account=sandbox.shipper) as run:
        event = await run.event(request)
        with pytest.raises(OfferRejectedError):
            await run.answer(event, second)
        await run.answer(event, first)
    assert selected(sandbox) == [first]


async def test_listing_that_cannot_be_read_sends_nothing() -> None:
    sandbox = Sandbox()
    request, _, second = tender(sandbox)
    async with process(sandbox, MemoryStore(), account=sandbox.shipper) as run:
        event = await run.event(request)
        strike(sandbox, "unavailable_forever", LISTING, times=None)
        with pytest.raises(FreightExchangeError):
            await run.answer(event, second)
        assert not await run.held(request)
    assert sent(sandbox, ANSWER) == 0
