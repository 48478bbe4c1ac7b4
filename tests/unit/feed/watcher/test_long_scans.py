"""Tests of scans of many pages: they end, let others go first, lose no page, and never turn back time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest
from tests.unit.feed.rig import DAY, HOUR, Rig, Service, live

from freight_exchange.errors import BadRequestError, ServerError, StoreError
from freight_exchange.feed.events import RequestEvent
from freight_exchange.hooks import Scan
from freight_exchange.models import RateRequest
from freight_exchange.store import Store
from freight_exchange.wire import Rows

pytestmark = pytest.mark.virtual_time


def lively(service: Service, first: int, *, every: int) -> None:
    """Return a service that gets a new request every few pages."""
    pages = iter(range(10**9))

    def publish(_: int) -> None:
        count = next(pages)
        if count % every == 0:
            service.publish(first + count)

    service.on_page = publish


async def test_a_listing_that_grows_as_fast_as_it_is_read_is_read_to_its_end(store: Store) -> None:
    service = Service(clamp=20, latency=3.0)
    service.publish(*range(1, 401), age=DAY)
    lively(service, 1000, every=9)
    rig = Rig(service, store=store, start="backfill")
    with anyio.fail_after(HOUR):
        await rig.prime()
    assert {index for _, index in rig.event_keys} >= set(range(1, 401))
    assert max(Counter(rig.event_keys).values()) == 1


async def test_recent_updates_are_read_to_their_end_however_many(store: Store) -> None:
    service = Service(clamp=5, latency=1.0)
    service.publish(*range(1, 181), age=DAY)
    reported = [0.0]

    def publish(_: int) -> None:
        while anyio.current_time() - reported[0] >= 4:
            reported[0] += 4
            service.publish(10_000 + int(reported[0]))

    service.on_page = publish
    rig = Rig(service, store=store, start="backfill")
    with anyio.fail_after(DAY / 4):
        await rig.prime()
    assert {index for _, index in rig.event_keys} >= set(range(1, 181))


async def test_listing_that_grows_by_pages_at_a_time_is_read_to_its_end(store: Store) -> None:
    """The pages after such growth list only what the scan has just read."""
    service = Service(clamp=10, latency=2.0)
    service.publish(*range(1, 301), age=DAY)
    published = [0.0]

    def publish(_: int) -> None:
        while anyio.current_time() - published[0] >= 60:
            published[0] += 60
            service.publish(*range(100 * int(published[0]), 100 * int(published[0]) + 21))

    service.on_page = publish
    rig = Rig(service, store=store, start="backfill")
    with anyio.fail_after(3 * HOUR):
        await rig.prime()
    assert {index for _, index in rig.event_keys} >= set(range(1, 301))


async def test_reader_with_short_timeout_reaches_the_end_of_recent_scans(store: Store) -> None:
    service = Service(clamp=5, latency=0.6)
    rig = await live(service, store)
    service.publish(*range(1, 41))
    lively(service, 1000, every=12)
    worst, until = 0.0, anyio.current_time() + 1800
    while anyio.current_time() < until:
        with anyio.move_on_after(1.0):
            await rig.poller.scan()
        worst = max(worst, rig.journal.state.watermark.least(rig.clock.read()))
    assert worst < 400


async def test_narrow_scans_overtake_a_deep_one_and_the_watermark_never_goes_back(store: Store) -> None:
    service = Service(clamp=5, latency=2.0)
    service.publish(*range(1, 301), age=20 * 60.0)
    rig = await live(service, store)
    service.pages.clear()
    readings, until = [], anyio.current_time() + 2 * HOUR
    while anyio.current_time() < until:
        await rig.scan()
        readings.append(rig.journal.state.watermark.reading.loop)
        assert rig.poller.progress.phase == "live"
    assert readings == sorted(readings)
    tiers = [reported.tier for reported in rig.reported if isinstance(reported, Scan)]
    assert {"narrow", "half an hour", "six hours"} <= set(tiers)
    pages = [window for _, _, window in service.pages]
    first_deep = next(place for place, window in enumerate(pages) if window >= 1800)
    assert any(window < 600 for window in pages[first_deep : first_deep + 40])
    assert any(window >= 1800 for window in pages[first_deep + 40 :])


async def test_finds_of_a_deep_scan_are_handed_out_before_its_end(store: Store) -> None:
    service = Service(clamp=3, latency=1.0)
    rig = await live(service, store)
    service.late = HOUR
    service.publish(*range(1, 31))
    await rig.scan_for(HOUR - 600)
    assert not rig.events
    while not rig.events:
        await rig.scan()
    assert len(rig.events) < 30
    await rig.scan_for(2 * HOUR)
    assert sorted(index for _, index in rig.event_keys) == [*range(1, 31)]


async def test_a_slow_reader_after_days_of_silence_loses_nothing(store: Store) -> None:
    service = Service(clamp=10)
    rig = await live(service, store)
    begun = anyio.current_time()
    service.publish(*range(1, 201))
    await anyio.sleep(begun + 4.9 * DAY - anyio.current_time())
    rig = rig.restart()
    await rig.prime()
    for _ in range(40):
        await rig.scan()
        await anyio.sleep(2000.0)
    assert sorted(rig.event_keys) == [("new", index) for index in range(1, 201)]


async def test_a_reader_with_a_short_timeout_comes_to_the_end_of_a_scan(store: Store) -> None:
    service = Service(clamp=5, latency=0.6)
    rig = await live(service, store)
    service.publish(*range(1, 61))
    for _ in range(120):
        with anyio.move_on_after(1.0):
            await rig.poller.scan()
    assert sorted(rig.event_keys) == [("new", index) for index in range(1, 61)]
    assert rig.journal.state.watermark.least(rig.clock.read()) < 60


async def test_page_that_could_not_be_written_does_not_undo_later_updates(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(clamp=3)
    rig = await live(service, store)
    service.publish(*range(1, 31), age=20 * 60.0)
    service.publish(31, notes="B")
    commit, failing = rig.feed_store.commit, True

    def full(*args: Any, **named: Any) -> int:
        if failing and service.pages[-1][2] >= 1800:
            raise StoreError("the disk is full")
        return commit(*args, **named)

    monkeypatch.setattr(type(rig.feed_store), "commit", lambda _, *args, **named: full(*args, **named))
    with pytest.raises(StoreError):
        await rig.scan_for(HOUR)
    failing = False
    service.publish(31, notes="C")
    await anyio.sleep(120)
    await rig.scan_for(2 * HOUR)
    requests = [event.request for event in rig.events if isinstance(event, RequestEvent)]
    notes = [request.notes for request in requests if request.index == 31]
    assert notes[-1] == "C"
    assert notes in (["B", "C"], ["C"])


async def test_request_that_cannot_be_looked_up_does_not_end_the_feed(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(-5, 0)
    await rig.scan()
    service.withdraw(-5, 0)
    await rig.scan_for(HOUR)
    assert rig.event_keys == [("new", 0), ("new", -5)]
    assert not service.lookups


async def test_retry_after_is_honoured_for_every_status(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    failure = ServerError("the service failed", status=503)
    failure.retry_after = 15.0
    service.pages.clear()
    service.faults = [failure] * 6
    began = anyio.current_time()
    await rig.scan_until_well()
    # Three tries of a page are one scan, each after the pause that was asked for.
    assert anyio.current_time() - began >= 6 * 15.0


async def test_a_hook_that_raises_does_not_undo_the_pace(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    rig.reported = []
    service.pages.clear()
    rig.poller._reports._hooks = type(rig.poller._reports._hooks)((_raising,))
    began = anyio.current_time()
    for _ in range(10):
        await rig.poller.scan()
    assert anyio.current_time() - began >= 9 * 27.0
    assert rig.poller.progress.phase == "live"


def _raising(_: object) -> None:
    raise KeyError("a bug in a hook")


class Refusing(Service):
    """Service that refuses pages beyond the end."""

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        page = await Service.page(self, number, rows, window)
        if number and not page.records:
            raise BadRequestError("no such page", status=400)
        return page


async def test_refused_page_beyond_recent_updates_costs_no_pause(store: Store) -> None:
    service = Refusing(clamp=3, latency=0.1)
    service.publish(*range(1, 13), age=DAY)
    rig = Rig(service, store=store, start="backfill")
    published = iter(range(101, 107))

    def publish(number: int) -> None:
        # Each moves the listing: the scan asks for recent updates, to know what need not have been seen.
        service.publish(*[index for index in [next(published, 0)] if index])

    service.on_page = publish
    await rig.prime()
    assert [window for number, _, window in service.pages if number and window < 1000]
    assert rig.poller.progress._pacer.quiet_until < 0
    assert Counter(rig.event_keys) == dict.fromkeys((("new", index) for index in (*range(1, 13), *range(101, 107))), 1)
