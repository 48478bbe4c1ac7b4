"""Tests of a feed of offers: for each rule, what happens on the market and which events follow."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import attrs
import pytest
from tests.watch.market import HALF_MINUTE, Market, drop

from freight_exchange import OfferEvent, OfferFilter, Unreadable
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS

pytestmark = pytest.mark.virtual_time

MINUTE = 60.0
HOUR = 3600.0
LISTING = "quote/getoffers"
FIRST = 5001

Rows = dict[str, Any]
Steps = list[tuple[float, Callable[[], object]]]


@attrs.frozen
class Rule:
    """Actions after the feed was entered, and the events that follow.

    Attributes:
        script: Returns the steps, given a market with two requests and the offer 5001 on the first.
        told: The expected events, without the one of the offer 5001.
    """

    script: Callable[[Market], Steps]
    told: list[str]
    lasts: float = 10 * MINUTE
    options: dict[str, Any] = attrs.field(factory=dict)
    profile: dict[str, Any] = attrs.field(factory=dict)


def _entries(rows: Rows, change: Callable[[dict[str, Any]], None]) -> None:
    for row in rows.values():
        for entry in list((row.get("offer") or {}).values()):
            if isinstance(entry, dict):
                change(entry)


def _amend(market: Market, number: int, **fields: Any) -> Callable[[], None]:
    def change(entry: dict[str, Any]) -> None:
        if int(entry["offerId"]) == number:
            entry.update(fields)

    def begin() -> None:
        market.listed = market.found = lambda page, rows: _entries(rows, change)

    return begin


def _remove(market: Market, *numbers: int, look_ups: bool = True) -> Callable[[], None]:
    def take_out(page: int, rows: Rows) -> None:
        for row in rows.values():
            offers = row.get("offer") or {}
            row["offer"] = {key: one for key, one in offers.items() if int(one["offerId"]) not in numbers}

    def begin() -> None:
        market.listed = take_out
        market.found = take_out if look_ups else lambda index, rows: None

    return begin


def _set_status(market: Market, status: str) -> None:
    market.sandbox.exchange.set_offer_status(FIRST, status, market.sandbox.now())


def _publish_of_others(market: Market, count: int) -> None:
    for _ in range(count):
        market.sandbox.exchange.publish(market.sandbox.rival, market.sandbox.now())


def _join(page: int, rows: Rows) -> None:
    """Give each offer a row of its own, the newest first."""
    joined = [
        {**row, "offer": {"0": entry}}
        for row in rows.values()
        for entry in sorted((row.get("offer") or {}).values(), key=lambda entry: -int(entry["offerId"]))
    ]
    rows.clear()
    rows.update({str(place): row for place, row in enumerate(joined)})


def _joined(market: Market) -> Steps:
    def begin() -> None:
        market.listed = market.found = _join
        market.offer(1, 800, by_rival=True)

    return [(5.0, begin), (60.0, lambda: market.sandbox.exchange.select(FIRST, market.sandbox.now()))]


RULES: dict[str, Rule] = {
    "a new offer": Rule(lambda market: [(5.0, lambda: market.offer(2))], ["new 5002"], lasts=35.0),
    "a changed amount": Rule(lambda market: [(5.0, _amend(market, FIRST, offerAmount=950))], ["changed 5001"]),
    "changed terms and back": Rule(
        lambda market: [
            (5.0, _amend(market, FIRST, terms="net 30")), (60.0, lambda: setattr(market, "listed", lambda p, r: None))
        ],
        ["changed 5001", "changed 5001"],
    ),
    "no event for empty terms or rates": Rule(
        lambda market: [(5.0, _amend(market, FIRST, terms="", rates=[]))], [], lasts=HOUR
    ),
    "no event for an undocumented field": Rule(lambda market: [(5.0, _amend(market, FIRST, score=7))], [], lasts=HOUR),
    "an approval, and not its rival as gone": Rule(
        lambda market: [
            (5.0, lambda: market.offer(1, 800, by_rival=True)),
            (60.0, lambda: market.sandbox.exchange.select(FIRST, market.sandbox.now())),
        ],
        ["new 5002", "answered 5001"],
        lasts=70 * MINUTE,
    ),
    "an approval that another row of the same request shows": Rule(
        _joined, ["new 5002", "answered 5001"], lasts=70 * MINUTE, profile={"selected_offer_shape": "collection"}
    ),
    "a decline": Rule(
        lambda market: [(5.0, lambda: _set_status(market, "declined"))],
        ["answered 5001"],
    ),
    "an offer that is gone": Rule(
        lambda market: [(5.0, lambda: market.offer(2)), (60.0, _remove(market, FIRST))], ["new 5002", "gone 5001"]
    ),
    "the offers of a request that is gone": Rule(
        lambda market: [
            (5.0, lambda: market.offer(2)), (60.0, lambda: market.withdraw(1))
        ],
        ["new 5002", "gone 5001"],
    ),
    "no offer as gone that only the listing lacks": Rule(
        lambda market: [(5.0, lambda: market.offer(2)), (60.0, _remove(market, FIRST, look_ups=False))],
        ["new 5002"],
        lasts=2 * HOUR,
    ),
    "no offer as gone while look-ups show no offers": Rule(
        lambda market: [
            (5.0, lambda: market.offer(2)),
            (60.0, _remove(market, FIRST)),
            (0.0, lambda: setattr(market, "found", lambda index, rows: rows.clear())),
        ],
        ["new 5002"],
        lasts=2 * HOUR,
    ),
    "no offers as gone for an hour where many are missing": Rule(
        lambda market: [
            (5.0, lambda: [market.offer(2, 100 + n) for n in range(5)]), (60.0, _remove(market, *range(5001, 5006)))
        ],
        [f"new {n}" for n in range(5002, 5007)],
        lasts=55 * MINUTE,
        profile={"second_offer": "added"},
    ),
    "many offers as gone after an hour": Rule(
        lambda market: [
            (5.0, lambda: [market.offer(2, 100 + n) for n in range(5)]), (60.0, _remove(market, *range(5001, 5006)))
        ],
        [f"new {n}" for n in range(5002, 5007)] + [f"gone {n}" for n in range(5001, 5006)],
        lasts=70 * MINUTE,
        profile={"second_offer": "added"},
    ),
    "an offer that is listed again": Rule(
        lambda market: [
            (5.0, lambda: market.offer(2)),
            (60.0, _remove(market, FIRST)),
            (600.0, lambda: setattr(market, "listed", lambda page, rows: None)),
        ],
        ["new 5002", "gone 5001", "changed 5001 again"],
    ),
    "an offer without an identifier, once": Rule(
        lambda market: [(5.0, _amend(market, FIRST, offerId=None))], ["unreadable 1"], lasts=70 * MINUTE
    ),
    "an amount that cannot be read": Rule(
        lambda market: [(5.0, _amend(market, FIRST, offerAmount="much"))],
        ["changed 5001", "unreadable 1"],
        lasts=70 * MINUTE,
    ),
    "an offer behind a page of hidden rows": Rule(
        lambda market: [
            (5.0, lambda: _publish_of_others(market, 15)),
            (0.0, lambda: market.offer(market.publish())),
        ],
        ["new 5002"],
        lasts=6 * MINUTE,
        profile={"rights": "after_paging", "order": "index"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
async def test_rule(name: str) -> None:
    rule = RULES[name]
    market = Market.of(**rule.profile)
    market.publish_many(2)
    market.offer(1)
    async with market.watched(offers=True, **rule.options):
        await anyio.sleep(MINUTE)
        assert market.told == ["new 5001"]
        await market.play(*rule.script(market))
        await anyio.sleep(rule.lasts)
        assert market.feed.status().state == "live"
    assert sorted(market.told[1:]) == sorted(rule.told)


@pytest.mark.parametrize(("start", "told"), [("backfill", ["new 5001", "new 5003"]), ("now", ["new 5003"])])
async def test_start_decides_about_pending_offers(start: Any, told: list[str]) -> None:
    market, store = Market(), MemoryStore()
    market.publish_many(3)
    market.offer(1)
    market.sandbox.exchange.select(market.offer(2), market.sandbox.now())
    async with market.watched(offers=True, start=start, store=store):
        await market.play((MINUTE, lambda: market.offer(3)))
        await anyio.sleep(5 * MINUTE)
    async with market.watched(offers=True, start="backfill", store=store):
        await anyio.sleep(5 * MINUTE)
    assert market.told == told


async def test_event_has_the_offer_its_request_and_what_changed() -> None:
    market = Market()
    market.publish_many(1)
    market.offer(1)
    async with market.watched(offers=True):
        await market.play((MINUTE, _amend(market, FIRST, offerAmount=950, terms="net 30")))
        await anyio.sleep(MINUTE)
        market.sandbox.exchange.select(FIRST, market.sandbox.now())
        await anyio.sleep(MINUTE)
    events: list[Any] = market.events
    new, changed, answered = events
    assert (new.previous, new.request, new.answer) == (None, 1, None)
    assert (changed.offer.amount, changed.offer.terms, changed.changed) == (950, "net 30", ("amount", "terms"))
    assert changed.previous == new.offer
    assert answered.answer == "approved"
    assert answered.listing.contact is not None
    earliest, latest = changed.observed_between
    assert timedelta(0) < latest - earliest <= timedelta(seconds=70)


async def test_offer_of_a_listing_with_a_row_for_each_offer_has_all_rivals_beside_it() -> None:
    market = Market()
    market.publish_many(1)
    for amount in (900, 950):
        market.offer(1, amount, by_rival=amount == 950)
    market.listed = market.found = _join
    async with market.watched(offers=True):
        await anyio.sleep(MINUTE)
    assert sorted(market.told) == ["new 5001", "new 5002"]
    assert all(len(event.listing.offers) == 2 for event in market.events)


async def test_two_offers_with_one_identifier_are_told_as_unreadable_once() -> None:
    market = Market()
    market.publish_many(1)
    market.offer(1)

    def double(page: int, rows: Rows) -> None:
        for row in rows.values():
            row["offer"]["1"] = copy.deepcopy(row["offer"]["0"]) | {"offerAmount": 1}

    market.listed = double
    async with market.watched(offers=True):
        await anyio.sleep(HOUR)
    assert sorted(market.told) == ["new 5001", "unreadable 1"]
    (told,) = [event for event in market.events if isinstance(event, Unreadable)]
    assert "5001" in told.error


async def test_filter_limits_events_and_not_what_is_tracked() -> None:
    market, store = Market(), MemoryStore()
    market.publish_many(2)
    market.offer(1, 900)
    market.offer(2, 100)
    async with market.watched(offers=True, store=store, where=OfferFilter(max_amount=500, currency="usd")):
        await anyio.sleep(MINUTE)
        assert market.told == ["new 5002"]
        assert market.feed.status().unacknowledged == 0
        assert (await market.feed.explain(1, 5001)).verdict == "excluded"
        assert (await market.feed.explain(2, 5002)).verdict == "handed-out"
        assert (await market.feed.explain(1, 5009)).verdict == "unseen"
        status = market.feed.status()
    assert (status.requests, status.offers) == (2, 2)


async def test_poll_is_few_requests() -> None:
    market = Market()
    market.publish_many(5)
    market.offer(1)
    async with market.watched(offers=True):
        await anyio.sleep(10 * MINUTE)
        since = anyio.current_time()
        await anyio.sleep(HOUR)
        bodies = market.requests_of(LISTING, since=since)
    assert len(bodies) <= 2 * 135 + 12 * 4


async def test_requests_without_a_reading_order_are_read_calmly() -> None:
    market = Market.of(order="random", rows_clamp=10)
    for index in market.publish_many(30):
        market.offer(index)
    market.listed = lambda page, rows: market.sandbox.exchange.reorder()
    async with market.watched(offers=True):
        await anyio.sleep(20 * MINUTE)
        bodies = market.requests_of(LISTING)
    assert sorted(market.told) == sorted(f"new {FIRST + n}" for n in range(30))
    assert len(bodies) <= 4 * 135


async def test_failure_hides_no_offer_and_proves_no_absence() -> None:
    market = Market()
    market.publish_many(2)
    market.offer(1)
    async with market.watched(offers=True):
        await anyio.sleep(MINUTE)
        market.strike(*FAULTS["unavailable"](path=LISTING, times=20))
        market.offer(2)
        await anyio.sleep(3 * MINUTE)
        assert market.feed.status().state == "backing-off"
        await anyio.sleep(30 * MINUTE)
    assert market.told == ["new 5001", "new 5002"]


async def test_listing_that_lacks_requests_of_a_selected_offer_tells_only_that_offer_as_gone() -> None:
    market = Market()
    market.publish_many(3)
    market.offer(1, 900)
    market.offer(1, 800, by_rival=True)
    market.offer(2, 700)
    async with market.watched(offers=True, interval=HALF_MINUTE):
        await anyio.sleep(MINUTE)
        market.sandbox.exchange.select(FIRST, market.sandbox.now())
        await anyio.sleep(MINUTE)
        market.listed = market.found = lambda page, rows: drop(rows, [1])
        await anyio.sleep(20 * MINUTE)
    assert [told for told in market.told if "gone" in told] == ["gone 5001"]


async def test_filter_by_currency_works_after_a_restart_with_a_waiting_event() -> None:
    market = Market()
    request = market.publish()
    store, where = MemoryStore(), OfferFilter(currency="USD")
    async with market.watched(offers=True, store=store, where=where):
        market.offer(request)
        await anyio.sleep(MINUTE)
    async with market.client(offers=True) as exchange:
        market.offer(request, 800)
        async with exchange.watch_offers(store=store, interval=HALF_MINUTE) as feed:
            assert isinstance(await anext(aiter(feed)), OfferEvent)
        async with exchange.watch_offers(store=store, interval=HALF_MINUTE, where=OfferFilter(currency="USD")) as feed:
            assert isinstance(await anext(aiter(feed)), OfferEvent)
