"""Tests of selected bids as a source: which bids count as won, and how often their listing is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import attrs
import pytest

from freight_exchange.feed.events import BidSelected, load_event
from freight_exchange.feed.feed import WatchOptions
from freight_exchange.feed.poller import Poller
from freight_exchange.feed.sources import SelectedBids
from freight_exchange.options import Start
from freight_exchange.store import MemoryStore
from freight_exchange.store import feeds as statements
from freight_exchange.store.fleet import Binding
from freight_exchange.testing import FAULTS, Fault, Profile, Sandbox

pytestmark = pytest.mark.virtual_time

MINUTE = 60.0
BIDS = "quote/bid"
Rows = dict[str, Any]


@attrs.define(eq=False)
class Account:
    """Forwarder with three open bids, whose selections a poller looks for.

    Attributes:
        listed: Changes the rows of the listing of bids in place.
    """

    sandbox: Sandbox = attrs.field(factory=Sandbox)
    listed: Callable[[Rows], None] = lambda rows: None
    bids: dict[int, int] = attrs.field(factory=dict)
    store: MemoryStore = attrs.field(factory=MemoryStore)
    _call: Any = None

    def __attrs_post_init__(self) -> None:
        for _ in range(3):
            request = self.sandbox.publish()
            self.bids[request] = self.sandbox.exchange.offer(
                self.sandbox.forwarder, request, self.sandbox.now(), amount=900
            )
        self.sandbox.strike(Fault(name="listed", when=self._is_listing, times=None, mutate=self._mutate))

    def _is_listing(self, call: Any) -> bool:
        self._call = call
        return bool(call.path == BIDS and call.method == "GET")

    def _mutate(self, reply: Any, now: float, random: object) -> Any:
        if reply.status != 200:
            return reply
        payload = json.loads(reply.body)
        ((name, rows),) = payload.items()
        self.listed(rows)
        return attrs.evolve(reply, body=json.dumps({name: rows}).encode())

    def ignore_the_filter(self, status: str | None) -> None:
        """List all bids with any `type`, the open ones with this status."""

        def mutate(reply: Any, now: float, random: object) -> Any:
            call = attrs.evolve(self._call, query={}, body=b'{"offset": %d, "rowsperpage": 10}' % self._offset())
            self.sandbox.exchange.faults.clear()
            good = self.sandbox.exchange.handle(call, now)
            self.sandbox.strike(fault)
            payload = json.loads(good.body)
            for row in payload["bids"].values():
                row["status"] = status if row["status"] == "Available" else row["status"]
            return attrs.evolve(good, body=json.dumps(payload).encode())

        self.sandbox.exchange.faults.clear()
        fault = Fault(name="unfiltered", when=self._is_listing, times=None, mutate=mutate)
        self.sandbox.strike(fault)

    def _offset(self) -> int:
        return int(json.loads(self._call.body or b"{}").get("offset", 0))

    def select(self, request: int) -> None:
        self.sandbox.exchange.select(self.bids[request], self.sandbox.now())

    def sell(self, number: int) -> None:
        """Select an offer on each of so many new requests."""
        for _ in range(number):
            request = self.sandbox.publish()
            self.bids[request] = self.sandbox.exchange.offer(
                self.sandbox.forwarder, request, self.sandbox.now(), amount=900
            )
            self.select(request)

    async def told(
        self, lasts: float = 5 * MINUTE, *, start: Start = "now", then: Callable[[], object] = int
    ) -> list[BidSelected]:
        """Poll for so long, do something a minute after the start, and return what was told in all."""
        async with self.sandbox.client() as exchange, self.store:
            service, client = exchange._feed_parts()
            await self.store.join(Binding(client.base_url, "me", "bot"))
            feed = self.store.feeds["selected"]
            options = WatchOptions(name="selected", start=start, interval=timedelta(seconds=30))
            poller = Poller(SelectedBids(service), self.store, feed, options, client)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(poller.run)
                await anyio.sleep(MINUTE)
                then()
                await anyio.sleep(lasts)
                tasks.cancel_scope.cancel()
            rows = await self.store.run(statements.events_after, feed, 0, 100)
        return [event for row in rows if isinstance(event := load_event(row.kind, row.payload), BidSelected)]

    @property
    def readings(self) -> int:
        return len(self.sandbox.audit_log.calls_to("GET", BIDS))


def strip(rows: Rows, *indexes: int) -> None:
    """Remove the contacts of all rows, or of those of some requests."""
    for row in rows.values():
        if not indexes or row["index"] in indexes:
            row.pop("loadingPOC", None)
            row.pop("loadingCompany", None)


def _indexes(events: list[BidSelected]) -> list[int]:
    return [event.bid.index for event in events]


async def test_selection_is_told_once_with_the_contact() -> None:
    account = Account()
    told = await account.told(then=lambda: account.select(2))
    assert _indexes(told) == [2]
    assert told[0].bid.contact is not None
    assert _indexes(await account.told()) == [2]


@pytest.mark.parametrize(("start", "told"), [("now", []), (timedelta(hours=1), []), ("backfill", [1])])
async def test_start_decides_about_earlier_selections(start: Any, told: list[int]) -> None:
    account = Account()
    account.select(1)
    assert _indexes(await account.told(start=start)) == told


@pytest.mark.parametrize("status", ["pending", "Open", None, "Available"])
async def test_open_bid_is_not_won_where_the_filter_is_ignored(status: str | None) -> None:
    account = Account()
    account.ignore_the_filter(status)
    assert _indexes(await account.told(then=lambda: account.select(3))) == [3]


@pytest.mark.parametrize(("status", "has_contact"), [("selected", False), ("Won", True), (None, True)])
async def test_contact_or_the_word_makes_a_selection(status: str | None, has_contact: bool) -> None:
    account = Account()

    def change(rows: Rows) -> None:
        for row in rows.values():
            row["status"] = status if row["status"] == "Selected" else row["status"]
        if not has_contact:
            strip(rows)

    account.listed = change
    assert _indexes(await account.told(then=lambda: account.select(2))) == [2]


async def test_selection_without_contact_is_told_after_three_readings() -> None:
    account = Account()

    account.listed = strip
    told = await account.told(then=lambda: account.select(1))
    assert [(event.bid.index, event.bid.contact) for event in told] == [(1, None)]


async def test_contact_is_waited_for_over_three_readings_of_any_number_of_pages() -> None:
    account = Account()
    account.sell(120)

    def select() -> None:
        account.select(2)
        shown_at = anyio.current_time() + 45.0
        account.listed = lambda rows: strip(rows, 2) if anyio.current_time() < shown_at else None

    told = await account.told(30 * MINUTE, then=select)
    assert [event.bid.contact is not None for event in told if event.bid.index == 2] == [True]


async def test_earlier_selection_whose_contact_comes_later_is_not_told() -> None:
    account = Account()
    account.select(1)

    def show() -> None:
        account.listed = lambda rows: None
        account.select(2)

    account.listed = strip
    assert _indexes(await account.told(then=show)) == [2]


async def test_idle_reading_is_one_request_an_interval() -> None:
    account = Account()
    await account.told(60 * MINUTE)
    assert account.readings <= 135 + 12 * 4 + 20


async def test_bids_in_another_order_or_twice_are_read_calmly() -> None:
    account = Account(Sandbox(Profile(order="random", rows_clamp=10)))
    account.sell(30)

    def double(rows: Rows) -> None:
        account.sandbox.exchange.reorder()
        rows.update({str(int(key) + 100): row for key, row in [*rows.items()][:3]})

    account.listed = double
    told = await account.told(20 * MINUTE, start="backfill")
    assert sorted(_indexes(told)) == [*range(4, 34)]
    assert account.readings <= 4 * 135


async def test_failures_end_no_poller_and_get_no_more_requests() -> None:
    account = Account()
    account.sandbox.exchange.faults.clear()
    account.sandbox.strike(*FAULTS["unavailable"](path=BIDS, times=60, skip=20))
    told = await account.told(120 * MINUTE, then=lambda: account.select(2))
    assert _indexes(told) == [2]
    assert account.readings <= 1.2 * (250 + 24 * 4)
