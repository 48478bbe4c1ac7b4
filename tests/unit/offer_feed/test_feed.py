"""The feed of offers against the sandbox: what it delivers, acknowledges and refuses."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

from freight_exchange import (
    ConfigurationError,
    FreightExchange,
    HeldError,
    LoginRejectedError,
    OfferEvent,
    OfferFeed,
    OfferFilter,
    ValidationError,
    from_json,
    to_json,
)
from freight_exchange.store import MemoryStore, SQLiteStore
from freight_exchange.testing import FAULTS, Sandbox

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]

MINUTE = timedelta(minutes=1)


async def pulled(feed: OfferFeed) -> OfferEvent:
    event = await anext(feed)
    assert isinstance(event, OfferEvent)
    return event


async def offer(sandbox: Sandbox, request: int, amount: int = 900, *, rival: bool = False) -> None:
    async with sandbox.client(sandbox.rival if rival else sandbox.forwarder) as forwarder:
        await forwarder.bids.submit(request, amount=amount, currency="USD")


def shipper(sandbox: Sandbox) -> FreightExchange:
    return sandbox.client(sandbox.shipper)


async def test_offer_is_delivered_with_its_request_and_then_its_answer() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    async with shipper(sandbox) as exchange, exchange.watch_offers(interval=MINUTE) as feed:
        await offer(sandbox, request, 900)
        first = await pulled(feed)
        await exchange.offers.approve(first.offer)
        answered = await pulled(feed)
        status = feed.status()
    assert (first.kind, first.request, first.offer.amount) == ("new", request, Decimal(900))
    assert [entry.id for entry in first.listing.offers] == [first.offer.id]
    assert (answered.kind, answered.answer, answered.offer.id) == ("answered", "approved", first.offer.id)
    assert answered.listing.contact is not None
    assert (status.state, status.requests, status.offers) == ("live", 1, 1)
    earliest, latest = first.observed_between
    assert earliest is not None
    assert earliest <= latest


async def test_event_that_was_not_acknowledged_comes_again_after_a_restart() -> None:
    sandbox, store = Sandbox(), MemoryStore()
    request = sandbox.publish()
    await offer(sandbox, request)
    async with shipper(sandbox) as exchange:
        async with exchange.watch_offers(store=store, interval=MINUTE) as feed:
            async for event in feed:
                assert event.kind == "new"
                break
        async with exchange.watch_offers(store=store, interval=MINUTE) as feed:
            again = await pulled(feed)
            await again.ack()
        await offer(sandbox, request, 800, rival=True)
        async with exchange.watch_offers(store=store, interval=MINUTE) as feed:
            assert (await pulled(feed)).offer.amount == 800


@pytest.mark.parametrize("start", ["now", "backfill"])
async def test_start_decides_about_pending_offers(start: Any) -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    await offer(sandbox, request)
    async with shipper(sandbox) as exchange, exchange.watch_offers(start=start, interval=MINUTE) as feed:
        await offer(sandbox, request, 800, rival=True)
        amounts = [(await pulled(feed)).offer.amount]
    assert amounts == [800 if start == "now" else 900]


@pytest.mark.parametrize("currency", [840, "USD"])
async def test_filter_limits_events_and_not_tracked_offers(currency: int | str) -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    cheap = OfferFilter(currency=currency, max_amount=850)
    async with shipper(sandbox) as exchange, exchange.watch_offers(interval=MINUTE, where=cheap) as feed:
        await offer(sandbox, request, 900)
        await offer(sandbox, request, 800, rival=True)
        assert (await pulled(feed)).offer.amount == 800
        assert feed.status().offers == 2


async def test_batches_deliver_several_events() -> None:
    sandbox = Sandbox()
    for _ in range(3):
        await offer(sandbox, sandbox.publish())
    async with shipper(sandbox) as exchange, exchange.watch_offers(interval=MINUTE) as feed:
        async for batch in feed.batches():
            assert len(batch) == 3
            break


async def test_outage_at_the_start_is_waited_out_and_a_rejected_login_is_raised() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    await offer(sandbox, request)
    sandbox.strike(*FAULTS["unavailable"](path="quote/getoffers", times=3))
    async with shipper(sandbox) as exchange, exchange.watch_offers(interval=MINUTE) as feed:
        assert (await pulled(feed)).offer.amount == 900
    stranger = sandbox.client(sandbox.shipper)
    async with FreightExchange(
        stranger._base_url, email="me@co.example", password="wrong", http_client=sandbox.http_client()
    ) as exchange:
        with pytest.raises(LoginRejectedError):
            async with exchange.watch_offers(interval=MINUTE):
                pass


async def test_feeds_of_offers_and_of_requests_share_a_store(tmp_path: Path) -> None:
    sandbox, store = Sandbox(), SQLiteStore(tmp_path / "both.db", inline=True)
    request = sandbox.publish()
    await offer(sandbox, request)
    async with (
        sandbox.client() as exchange,
        exchange.watch(store=store, start="backfill") as requests,
        shipper(sandbox) as other,
        other.watch_offers(store=store) as offers,
    ):
        assert (await pulled(offers)).kind == "new"
        assert (await anext(requests)).kind == "new"
        with pytest.raises(HeldError):
            async with other.watch_offers(store=store):
                pass


async def test_event_of_offers_survives_json() -> None:
    sandbox = Sandbox()
    await offer(sandbox, sandbox.publish())
    async with shipper(sandbox) as exchange, exchange.watch_offers() as feed:
        event = await pulled(feed)
        assert from_json(to_json(event), OfferEvent) == event
        assert from_json(to_json(feed.status())) == feed.status()


@pytest.mark.parametrize(
    "options",
    [{"start": "later"}, {"where": "cheap"}, {"interval": 5}, {"interval": timedelta(0)}, {"name": ""}, {"store": 4}],
)
async def test_wrong_option_is_refused_before_anything_is_sent(options: dict[str, Any]) -> None:
    async with shipper(Sandbox()) as exchange:
        with pytest.raises(ConfigurationError):
            exchange.watch_offers(**options)


async def test_cancelled_pull_loses_nothing() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    async with shipper(sandbox) as exchange, exchange.watch_offers(interval=MINUTE) as feed:
        await offer(sandbox, request)
        found: list[OfferEvent] = []
        while not found:
            with anyio.move_on_after(7):
                found.append(await pulled(feed))
    assert [event.kind for event in found] == ["new"]


async def test_feed_explains_an_offer() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    where = OfferFilter(currency=840, max_amount=1000)
    async with shipper(sandbox) as exchange, exchange.watch_offers(interval=MINUTE, where=where) as feed:
        unseen = await feed.explain(request, 5001)
        await offer(sandbox, request, 900)
        await offer(sandbox, request, 2000, rival=True)
        await pulled(feed)
        waiting, excluded = [await feed.explain(request, number) for number in (5001, 5002)]
        await feed.ack()
        delivered = await feed.explain(request, 5001)
        with pytest.raises(ValidationError, match="offer must be a positive integer"):
            await feed.explain(request, 0)
    explanations = [unseen, waiting, excluded, delivered]
    assert [entry.verdict for entry in explanations] == ["unseen", "waiting", "excluded", "handed-out"]
    assert str(waiting) == f"offer 5001 on request {request} is new, and its event waits to be pulled or acknowledged"
    assert (delivered.index, delivered.first_seen is not None) == (request, True)
