"""Tests of pages that fail: a scan keeps the pages it has read, and requests others in different sizes."""

from __future__ import annotations

from collections import Counter

import anyio
import attrs
import pytest
from tests.unit.feed.rig import DAY, HOUR, Rig, Service, live, scans

from freight_exchange.errors import BadRequestError, RateLimitedError, ServerError
from freight_exchange.feed.core.watermark import WIDEST
from freight_exchange.models import RateRequest
from freight_exchange.store import Store
from freight_exchange.wire import Rows

pytestmark = pytest.mark.virtual_time

DOWN = ServerError("down", status=503)


@attrs.define
class Limited(Service):
    """Service that answers sixty pages a minute, and sends a Retry-After beyond that."""

    minute: int = -1
    in_minute: int = 0

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        now = anyio.current_time()
        if int(now // 60) != self.minute:
            self.minute, self.in_minute = int(now // 60), 0
        self.in_minute += 1
        if self.in_minute > 60:
            raise RateLimitedError("slowly", status=429, retry_after=60 - now % 60)
        return await Service.page(self, number, rows, window)


async def test_first_scan_of_many_pages_is_read_to_its_end_under_a_rate_limit(store: Store) -> None:
    service = Limited(clamp=10, latency=0.1)
    service.publish(*range(1, 1501), age=DAY)
    rig = Rig(service, store=store, start="backfill")
    with anyio.fail_after(HOUR):
        await rig.prime()
    assert len(rig.event_keys) == 1500
    # Up to the end and down again; only refused requests are in addition.
    assert sum(window == WIDEST for _, _, window in service.pages) < 310
    assert scans(rig) & Counter({"five days": 9}) == {"five days": 1}


@pytest.mark.parametrize("interval", [30.0, 300.0])
async def test_first_scan_after_an_outage_trusts_no_page_size(store: Store, interval: float) -> None:
    service = Service()
    rig = await live(service, store, interval=interval)
    service.publish(*range(1, 11))
    await rig.scan(2)
    service.clamp = 4
    service.publish(*range(11, 19))
    service.faults[:] = [DOWN] * 24
    await rig.scan_until_well()
    assert sorted(index for _, index in rig.event_keys) == [*range(1, 19)]
    await rig.scan_for(2 * interval)
    service.pages.clear()
    await rig.scan()
    assert len(service.pages) == 1


@attrs.define
class Unhurried(Service):
    """Service that answers one page a second, refuses faster requests, and grows by a request every twenty seconds."""

    last: float = -1.0
    born: int = 0

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        now = anyio.current_time()
        if now < self.last + 1:
            self.pages.append((number, rows, window))
            raise RateLimitedError("slowly", status=429, retry_after=2)
        self.last = now
        while self.born < now // 20:
            self.born += 1
            self.publish(1000 + self.born)
        return await Service.page(self, number, rows, window)


async def test_changing_listing_is_read_to_its_end_under_a_rate_limit(store: Store) -> None:
    service = Unhurried(clamp=20, latency=0.1)
    service.publish(*range(1, 201), age=DAY)
    rig = Rig(service, store=store, start="backfill")
    with anyio.fail_after(HOUR / 3):
        await rig.prime()
    assert {index for _, index in rig.event_keys} >= set(range(1, 201))
    assert scans(rig)["five days"] == 1
    assert not scans(rig, complete=False)["five days"]


async def test_recent_updates_that_fail_are_not_requested_without_end(store: Store) -> None:
    service = Service(clamp=20, latency=1.0)
    service.publish(*range(1, 61), age=DAY)
    refused: list[float] = []

    class Refusing(Service):
        async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
            if window < WIDEST:
                refused.append(anyio.current_time())
                raise DOWN
            if len(service.pages) == 3:
                service.publish(1000)
            return await service.page(number, rows, window)

    rig = Rig(Refusing(), store=store, start="backfill")
    await rig.prime()
    # One repetition at once; then the scan continues without recent updates.
    assert len(refused) % 2 == 0
    assert len(refused) < 10


async def test_pages_of_a_deep_scan_are_kept_when_a_later_page_fails(store: Store) -> None:
    service = Service(clamp=3, latency=0.5)
    rig = await live(service, store)
    service.publish(*range(1, 31))
    await rig.scan_for(10 * 60)
    rig = rig.restart()
    service.pages.clear()
    while len(service.pages) < 6:
        await rig.scan()
    service.faults[:] = [DOWN] * 24
    await rig.scan_for(600)
    deep = [number for number, _, window in service.pages if window == WIDEST]
    assert deep.count(1) <= 3
    assert scans(rig)["five days"] == 1


async def test_deep_scan_without_progress_for_long_is_given_up(store: Store) -> None:
    service = Stuck(clamp=3)
    rig = await live(service, store)
    service.publish(*range(1, 31))
    rig = rig.restart()
    await rig.scan_for(3 * HOUR)
    assert scans(rig)["five days"] == 0
    assert scans(rig, complete=False)["five days"] >= 1
    assert scans(rig)["half an hour"] >= 1
    service.publish(99)
    await rig.scan(10)
    assert ("new", 99) in rig.event_keys
    assert rig.poller.progress.phase == "live"
    service.page_that_fails = 10**9
    await rig.scan_for(2 * HOUR)
    assert scans(rig)["five days"] == 1


@attrs.define
class Stuck(Service):
    """Service that never answers a later page of a deep window."""

    page_that_fails: int = 7

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        if window >= 6 * HOUR and number == self.page_that_fails:
            self.faults.insert(0, DOWN)
        return await Service.page(self, number, rows, window)


@attrs.define
class Slow(Service):
    """Service that never answers a page of many rows in time."""

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        if min(rows, len(self.requests)) > 300:
            self.faults.insert(0, ServerError("gateway time-out", status=504))
        return await Service.page(self, number, rows, window)


async def test_a_service_that_cannot_give_large_pages_is_asked_for_smaller_ones(store: Store) -> None:
    service = Slow(latency=5.0)
    service.publish(*range(1, 501), age=DAY)
    rig = Rig(service, store=store, start="backfill")
    with anyio.fail_after(600):
        await rig.prime()
    assert len(rig.event_keys) == 500
    assert rig.journal.state.clamp is None


@attrs.define
class Choking(Service):
    """Service that fails on pages of more than ten rows."""

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        if rows > 10:
            self.faults.insert(0, ServerError("out of memory", status=500))
        return await Service.page(self, number, rows, window)


async def test_a_service_that_fails_on_all_but_small_pages_is_read_by_the_smallest(store: Store) -> None:
    service = Choking()
    service.publish(*range(1, 41), age=DAY)
    rig = Rig(service, store=store, start="backfill")
    with anyio.fail_after(3600):
        await rig.prime()
    assert len(rig.event_keys) == 40


@attrs.define
class RefusesPagesPastTheEnd(Service):
    """Service that answers 400 to pages past the end."""

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        page = await Service.page(self, number, rows, window)
        if number and not page.records:
            raise BadRequestError("no such page", status=400)
        return page


async def test_pages_refused_past_the_end_do_not_delay_the_scans_after_them(store: Store) -> None:
    """A scan of one full page requests the next one, up to twice."""
    service = RefusesPagesPastTheEnd(clamp=5)
    service.publish(*range(1, 6))
    rig = await live(service, store, interval=600.0)
    began = anyio.current_time()
    for number in range(24):
        service.publish(*range(1, 6), notes=f"revision {number}")
        await rig.scan()
    assert any(number for number, _, _ in service.pages)
    assert anyio.current_time() - began < 24 * 660
