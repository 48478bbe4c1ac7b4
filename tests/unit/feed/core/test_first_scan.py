"""Tests of the first scan: a feed is entered after its first page, and delivers events during the rest."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any

import anyio
import pytest
from tests.unit.feed.rig import DAY, HOUR, Rig, Service, scans

from freight_exchange.errors import NotFoundError, ServerError
from freight_exchange.feed.core.watermark import WIDEST
from freight_exchange.feed.events import RequestEvent
from freight_exchange.hooks import Scan, ScanProgress
from freight_exchange.models import RateRequest
from freight_exchange.options import Start
from freight_exchange.store import Store
from freight_exchange.wire import Rows

pytestmark = pytest.mark.virtual_time

STARTS: tuple[Start, ...] = ("now", "backfill", timedelta(hours=1))
DOWN = ServerError("down", status=503)


def large_market(**options: Any) -> Service:
    """Return requests of two days, in sixty pages of one second each."""
    service = Service(clamp=10, latency=1.0, **options)
    for index in range(1, 601):
        service.publish(index, age=2 * DAY * index / 600)
    return service


@pytest.mark.parametrize("start", STARTS, ids=str)
async def test_feed_is_entered_after_its_first_pages(store: Store, start: Start) -> None:
    service = large_market()
    rig = Rig(service, store=store, start=start)
    await rig.poller.prime()
    assert len(service.pages) <= 4
    assert rig.poller.progress.phase == "priming"
    assert not rig.journal.state.is_primed


async def test_backfill_hands_out_events_while_the_listing_is_read(store: Store) -> None:
    service = large_market()
    rig = Rig(service, store=store, start="backfill")
    await rig.poller.prime()
    assert len(rig.event_keys) == 10
    await rig.scan()
    assert 10 < len(rig.event_keys) <= 50
    await rig.prime()
    assert Counter(rig.event_keys) == {("new", index): 1 for index in service.requests}


async def test_window_of_a_start_is_handed_out_before_the_listing_is_read(store: Store) -> None:
    service = large_market()
    rig = Rig(service, store=store, start=timedelta(hours=1))
    await rig.poller.prime()
    await rig.scan()
    recent = [("new", index) for index in range(1, 13)]
    assert rig.event_keys == recent
    assert len(service.pages) < 10
    await rig.prime()
    assert rig.event_keys == recent


class Behind(Service):
    """Service that shows request 5 only to narrow scans: a server that lags answers the deep ones."""

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        page = await Service.page(self, number, rows, window)
        return page if window < HOUR else Rows(tuple(one for one in page.records if one.index != 5), ())


async def test_request_within_start_that_changes_before_it_is_handed_out_is_new(store: Store) -> None:
    service = Behind(clamp=10, latency=1.0)
    for index in range(1, 601):
        service.publish(index, age=10.0 * index)
    rig = Rig(service, store=store, start=timedelta(hours=2))
    await rig.poller.prime()
    service.publish(5, notes="moved")
    await rig.prime()
    assert Counter(rig.event_keys) == {("new", index): 1 for index in service.requests}


@pytest.mark.parametrize("start", STARTS, ids=str)
async def test_request_published_during_the_first_scan_is_new_and_handed_out_soon(store: Store, start: Start) -> None:
    service = large_market()
    rig = Rig(service, store=store, start=start)
    await rig.poller.prime()
    published: dict[int, float] = {}
    kinds: dict[int, str] = {}
    handed_out: dict[int, float] = {}
    last = 0
    while not rig.journal.state.is_primed:
        if len(published) < 10 and anyio.current_time() > 12.0 * len(published):
            index = 3000 + len(published)
            service.publish(index)
            published[index] = anyio.current_time()
        await rig.scan()
        for event in rig.feed_store.pending(after=last, limit=1000):
            last = event.id
            if event.index is not None and event.index >= 3000:
                assert kinds.setdefault(event.index, event.kind) == "new"
                handed_out[event.index] = anyio.current_time()
    assert len(published) == 10
    assert handed_out.keys() == published.keys()
    assert max(handed_out[index] - published[index] for index in published) < 60.0
    assert max(Counter(rig.event_keys).values()) == 1


async def test_start_now_reports_nothing_that_was_there_before(store: Store) -> None:
    service = large_market()
    service.publish(*range(2001, 2011), age=1.0)
    rig = Rig(service, store=store)
    await rig.prime()
    await rig.scan_for(7 * HOUR)
    assert rig.event_keys == []


class Shuffled(Service):
    """Lists requests in another order on each page of the widest window."""

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        if window < WIDEST:
            return await Service.page(self, number, rows, window)
        self.pages.append((number, rows, window))
        await anyio.sleep(self.latency)
        listed = Random(len(self.pages)).sample([*self.requests.values()], len(self.requests))
        size = min(rows, self.clamp)
        return Rows(tuple(row.record for row in listed[number * size : (number + 1) * size]), ())


@pytest.mark.parametrize("latency", [0.1, 0.2, 0.3, 0.4])
async def test_start_now_reports_nothing_that_was_updated_just_before_its_baseline(
    store: Store, latency: float
) -> None:
    """Windows are rounded, so that later ones may reach back further by parts of a second."""
    service = Shuffled(clamp=10, latency=latency)
    for index in range(200):
        service.publish(index, age=60.0 + 0.1 * index)
    rig = Rig(service, store=store)
    await rig.prime()
    assert rig.event_keys == []


async def test_event_of_a_long_window_says_that_it_may_be_from_before_the_entry(store: Store) -> None:
    """Windows of slow pages reach back before the entry, so that a long scan omits nothing."""
    service = Service(clamp=4, latency=1.0)
    for index in range(1, 101):
        service.publish(index, age=10.0 * index)
    updated = {index: row.updated for index, row in service.requests.items()}
    rig = Rig(service, store=store)
    await rig.poller.prime()
    service.latency = 15.0
    while rig.journal.state.stage == "listing":
        service.publish(*range(1001, 1005))
        await rig.scan()
    await rig.prime()
    new = {event.request.index: event for event in rig.events if isinstance(event, RequestEvent)}
    assert {*range(1001, 1005)} <= new.keys()
    older = [index for index in new if index in updated]
    assert older
    for index in older:
        since, _ = new[index].observed_between
        assert since is None or since.timestamp() - rig.clock.wall <= updated[index]


async def test_update_during_the_first_scan_is_reported_once(store: Store) -> None:
    service = large_market()
    rig = Rig(service, store=store)
    await rig.poller.prime()
    await rig.scan()
    # The first page shows request 3; no page has shown requests 590 and 591.
    service.publish(3, 590, notes="moved")
    service.touch(591)
    await rig.prime()
    await rig.scan(3)
    # Without an earlier state, an update is new: the feed has never seen the request.
    assert Counter(rig.event_keys) == {("updated", 3): 1, ("new", 590): 1, ("new", 591): 1}


async def test_request_of_the_baseline_that_is_touched_later_is_no_event(store: Store) -> None:
    service = large_market()
    rig = Rig(service, store=store)
    await rig.poller.prime()
    while rig.journal.state.stage != "settling":
        assert not rig.journal.state.is_primed
        await rig.scan()
    await anyio.sleep(100.0)
    await rig.scan(2)
    service.touch(400)
    await rig.prime()
    await rig.scan(3)
    assert rig.event_keys == []


@pytest.mark.parametrize("start", STARTS, ids=str)
@pytest.mark.parametrize("kills", [1, 4])
async def test_killed_first_scan_loses_and_repeats_nothing(store: Store, start: Start, kills: int) -> None:
    service = large_market()
    rig = Rig(service, store=store, start=start)
    await rig.poller.prime()
    published = []
    for kill in range(kills):
        for _ in range(kill):
            await rig.scan()
        published.append(3000 + kill)
        service.publish(published[-1])
        with anyio.move_on_after(7.0 * kill):
            await rig.scan(100)
        rig = rig.restart(run=f"run {kill}")
        await rig.poller.prime()
    await rig.prime()
    await rig.scan(3)
    reported = Counter(rig.event_keys)
    assert set(reported.values()) == {1}
    assert {index for _, index in reported if index >= 3000} == {*published}
    old = {index for _, index in reported if index < 3000}
    if start == "now":
        assert not old
    elif start == "backfill":
        assert old == set(range(1, 601))
    else:
        assert old == set(range(1, 13))


async def test_first_scan_goes_on_after_a_long_time_without_a_program(store: Store) -> None:
    service = large_market()
    rig = Rig(service, store=store)
    await rig.poller.prime()
    await rig.scan()
    await anyio.sleep(HOUR)
    service.publish(3000)
    await anyio.sleep(2 * HOUR)
    rig = rig.restart()
    service.pages.clear()
    await rig.prime()
    assert rig.event_keys == [("new", 3000)]
    # First what was missed, and then the listing from its start.
    assert 3 * HOUR < service.windows[0] < 3 * HOUR + 120
    assert WIDEST in service.windows


@pytest.mark.parametrize("start", STARTS, ids=str)
async def test_configuration_error_is_raised_on_entry_and_failure_later_is_not(store: Store, start: Start) -> None:
    other = Rig(Service(faults=[NotFoundError("nothing here", status=404)]), start=start)
    with pytest.raises(NotFoundError):
        await other.poller.prime()
    service = large_market()
    rig = Rig(service, store=store, start=start)
    await rig.poller.prime()
    service.faults[:] = [NotFoundError("nothing here", status=404)] * 3
    await rig.scan(2)
    assert {rig.poller.progress.phase} <= {"backing-off", "priming"}
    await rig.prime()
    assert rig.poller.progress.phase == "live"


async def test_progress_of_the_first_scan_is_reported(store: Store) -> None:
    service = large_market()
    rig = Rig(service, store=store)
    await rig.poller.prime()
    pages = []
    while rig.poller.progress.phase == "priming":
        pages.append(rig.poller.progress.pages)
        await rig.scan()
    assert pages == sorted(pages)
    progress = [reported for reported in rig.reported if isinstance(reported, ScanProgress) and reported.first]
    assert [reported.pages for reported in progress] == [*range(1, len(progress) + 1)]
    assert len(progress) >= 60
    assert {reported.tier for reported in progress} == {"five days"}
    assert max(reported.requests for reported in progress) == 600
    (first,) = (reported for reported in rig.reported if isinstance(reported, Scan) and reported.tier == "five days")
    assert first.complete


async def test_pages_that_shrink_hide_nothing_that_is_published_during_the_first_scan(store: Store) -> None:
    service = large_market()
    rig = Rig(service, store=store)
    await rig.poller.prime()
    service.publish(*range(3001, 3011))
    while len(rig.event_keys) < 10:
        await rig.scan()
    service.publish(*range(3011, 3017))
    service.clamp = 3
    # The reader is slow: later narrow scans do not reach back so far.
    await anyio.sleep(200.0)
    narrow = scans(rig)["narrow"]
    while scans(rig)["narrow"] == narrow:
        await rig.scan()
    service.clamp = 10
    await rig.prime()
    assert sorted(rig.event_keys) == [("new", index) for index in range(3001, 3017)]


async def test_pages_that_shrink_hide_nothing_from_the_scan_that_decides(store: Store) -> None:
    service = Service(clamp=10)
    service.publish(*range(1, 31), age=DAY)
    rig = Rig(service, store=store, interval=300.0)
    await rig.poller.prime()
    service.publish(*range(101, 107))
    while rig.journal.state.stage != "settling":
        assert not rig.journal.state.is_primed
        await rig.scan()
    service.clamp = 3
    await rig.prime()
    assert sorted(rig.event_keys) == [("new", index) for index in range(101, 107)]


@pytest.mark.parametrize("after", [1, 2, 3])
async def test_pages_that_shrink_during_the_first_scan_hide_nothing_from_it(store: Store, after: int) -> None:
    service = Service(clamp=20)
    service.publish(*range(1, 61), age=DAY)
    rig = Rig(service, store=store, start="backfill")

    def lower_clamp(number: int) -> None:
        service.clamp = 4 if len(service.pages) >= after else 20

    service.on_page = lower_clamp
    await rig.prime()
    assert sorted(rig.event_keys) == [("new", index) for index in range(1, 61)]


async def test_scan_that_lacks_much_decides_nothing(store: Store) -> None:
    service = Service(clamp=10, latency=5.0)
    service.publish(*range(1, 61), age=DAY)
    rig = Rig(service, store=store)

    def publish_at_the_end(number: int) -> None:
        # The first scan reads the pages forward and then back: only its last one lists these.
        if number == 1 and any(page == 5 for page, _, _ in service.pages):
            service.publish(*range(101, 107))

    service.on_page = publish_at_the_end
    await rig.poller.prime()
    while rig.journal.state.stage != "settling":
        assert not rig.journal.state.is_primed
        service.publish(*range(201, 211), notes=str(anyio.current_time()))
        await rig.scan()
    service.on_page = lambda number: None
    # A failure hides most of what was updated recently.
    hidden = {index: service.requests.pop(index) for index in (*range(101, 107), *range(201, 209))}
    await rig.scan_for(HOUR / 2)
    assert rig.journal.state.stage == "settling"
    service.requests |= hidden
    await rig.scan_for(HOUR)
    assert rig.journal.state.is_primed
    kinds = Counter(rig.event_keys)
    assert all(kinds["new", index] == 1 for index in (*range(101, 107), *range(201, 211)))
    assert not any(kind == "withdrawn" for kind, _ in kinds)


async def test_request_that_only_the_first_scan_saw_updated_is_reported_as_withdrawn(store: Store) -> None:
    service = Service(clamp=10)
    service.publish(*range(1, 31), age=DAY)
    rig = Rig(service, store=store, interval=300.0)
    await rig.poller.prime()
    service.publish(30, origin="Bergen")
    while not rig.event_keys:
        await rig.scan()
    service.withdraw(30)
    await rig.scan_for(3 * HOUR)
    assert rig.event_keys == [("updated", 30), ("withdrawn", 30)]


async def test_withdrawal_during_the_first_scan_is_reported_after_it(store: Store) -> None:
    service = large_market()
    rig = Rig(service, store=store)
    await rig.poller.prime()
    service.publish(3000)
    while not rig.event_keys:
        await rig.scan()
    service.withdraw(3000, 600)
    await rig.prime()
    assert rig.event_keys == [("new", 3000)]
    await rig.scan_for(HOUR)
    assert rig.event_keys == [("new", 3000), ("withdrawn", 3000)]


async def test_page_size_of_the_first_scan_is_known_to_the_narrow_scans_after_it(store: Store) -> None:
    service = large_market()
    rig = Rig(service, store=store)
    await rig.prime()
    service.pages.clear()
    for number in range(4):
        service.publish(number, number + 10, notes="changed")
        await rig.scan()
    assert len(service.pages) == 4
