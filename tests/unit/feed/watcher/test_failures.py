"""Tests of failures that affect some scans and not others: the others have their turns."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.feed.rig import DAY, HOUR, HandClock, Rig, Service, live, scans

from freight_exchange.errors import ServerError
from freight_exchange.feed.core.watermark import WIDEST
from freight_exchange.feed.events import Gap
from freight_exchange.hooks import Degraded, Recovered, Scan
from freight_exchange.models import RateRequest
from freight_exchange.store import Store
from freight_exchange.wire import Rows

pytestmark = pytest.mark.virtual_time

DOWN = ServerError("down", status=503)


# A start that hands out a part


async def test_oldest_requests_within_start_do_not_slide_out_of_the_window(store: Store) -> None:
    service = Service(clamp=5, latency=2.0)
    service.publish(*range(1, 101), age=HOUR / 2)
    for index in range(101, 131):
        service.publish(index, age=HOUR - 100 + 3 * (index - 101))
    rig = Rig(service, store=store, start=timedelta(hours=1))
    await rig.prime()
    assert Counter(rig.event_keys) == {("new", index): 1 for index in range(1, 131)}


async def test_start_that_takes_longer_than_ten_minutes_completes(store: Store) -> None:
    service = Service(clamp=10, latency=4.0)
    service.publish(*range(1, 1001), age=DAY)
    rig = Rig(service, store=store, start=timedelta(days=2))
    with anyio.fail_after(DAY / 2):
        await rig.prime()
    assert len(rig.event_keys) == 1000


# Depths that fail


@attrs.define
class Shallow(Service):
    """Service that fails on windows of five days."""

    shallow: bool = False

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        if self.shallow and window >= WIDEST:
            self.faults.insert(0, DOWN)
        return await Service.page(self, number, rows, window)


async def test_a_depth_that_fails_rests_and_the_others_have_their_turns(store: Store) -> None:
    service = Shallow()
    rig = await live(service, store, interval=120.0)
    await rig.scan_for(23.9 * HOUR)
    service.shallow = True
    rig.reported.clear()
    service.late = 400.0
    service.publish(1)
    await rig.scan_for(6 * HOUR)
    assert ("new", 1) in rig.event_keys
    assert scans(rig)["six hours"] >= 5
    assert scans(rig)["half an hour"] >= 40
    assert 5 <= scans(rig, complete=False)["five days"] <= 12
    changes = [type(one) for one in rig.reported if isinstance(one, Degraded | Recovered)]
    assert changes == [Degraded]
    service.shallow = False
    await rig.scan_for(6 * HOUR)
    assert isinstance(next(one for one in reversed(rig.reported) if isinstance(one, Degraded | Recovered)), Recovered)


async def test_a_deep_scan_that_fails_after_a_restart_gives_way_to_narrow_ones_and_comes_soon(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    rig = rig.restart()
    service.faults[:] = [DOWN] * 4
    await rig.scan_for(600)
    assert service.windows[0] == WIDEST
    assert min(service.windows[:5]) < 200
    assert scans(rig)["five days"] == 1


async def test_after_an_outage_no_depth_rests_any_longer(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    rig = rig.restart()
    service.faults[:] = [DOWN] * 1000
    await rig.scan_until_well()
    await rig.scan(2)
    assert scans(rig)["five days"] == 1
    assert [type(one) for one in rig.reported if isinstance(one, Degraded | Recovered)] == [
        Degraded,
        Recovered,
    ]


# Turns


@pytest.mark.parametrize("interval", [3.0, 30.0])
async def test_a_deep_scan_goes_on_while_narrow_ones_take_all_the_time_there_is(store: Store, interval: float) -> None:
    service = Service(clamp=3, latency=4.0)
    rig = await live(service, store, interval=interval)
    service.publish(*range(1, 16))
    await rig.scan_for(600)
    service.late = 600.0
    service.publish(*range(101, 116))
    await rig.scan_for(3 * HOUR)
    assert {index for _, index in rig.event_keys} >= set(range(101, 116))
    assert scans(rig)["half an hour"] > 3


async def test_a_long_allowance_does_not_keep_deep_scans_from_pausing(store: Store) -> None:
    service = Service()
    rig = await live(service, store, allowance=1800.0)
    service.publish(*range(1, 301), age=10 * HOUR)
    service.clamp, service.latency = 3, 2.0
    rig = rig.restart()
    for index in range(5001, 5005):
        service.publish(index)
        await rig.scan_for(50)
        assert ("new", index) in rig.event_keys
    assert scans(rig)["five days"] == 0


async def test_neither_numbers_of_scans_nor_the_last_success_go_back(store: Store) -> None:
    service = Service(clamp=5, latency=2.0)
    service.publish(*range(1, 101), age=20 * 60.0)
    rig = await live(service, store)
    numbers, successes = list[int](), list[Any]()
    for _ in range(150):
        await rig.scan()
        numbers.append(rig.journal.state.scan)
        successes.append(rig.poller.progress.last_success)
    assert numbers == sorted(numbers)
    assert successes == sorted(successes)
    assert scans(rig)["half an hour"] >= 1


# Clocks


@pytest.mark.parametrize("back", [DAY, 8 * DAY])
async def test_wall_clock_that_is_set_back_stops_no_watermark_without_a_boot_id(store: Store, back: float) -> None:
    service = Service()
    rig = await live(service, store, clock=HandClock(boot_id=""))
    rig.clock.wall -= back
    await rig.scan_for(600)
    assert rig.journal.state.watermark.least(rig.clock.read()) < 60
    assert min(service.windows[-3:]) < 100


async def test_machine_that_was_suspended_for_days_reports_the_gap(store: Store) -> None:
    """Its monotonic clocks stood still, and its wall clock was set."""
    service = Service()
    rig = await live(service, store)
    before = rig.clock.read().wall
    for index in range(1, 7):
        service.asleep += DAY
        service.publish(index)
    rig.clock.wall += 6 * DAY
    await rig.scan(3)
    (gap,) = [event for event in rig.events if isinstance(event, Gap)]
    assert before - 100 < gap.since.timestamp() < before
    assert timedelta(days=1) < gap.until - gap.since < timedelta(days=1, minutes=15)
    assert sorted(index for _, index in rig.event_keys) == [2, 3, 4, 5, 6]


# Deadlines


async def test_failing_scans_are_reported_though_a_reader_left_while_a_hook_received_one(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    reported, scope = list[str](), anyio.CancelScope()

    async def hook(event: Any) -> None:
        await anyio.sleep(0.01)
        if isinstance(event, Scan) and event.error is not None:
            scope.cancel()
        await anyio.sleep(0.01)
        reported.append(type(event).__name__)

    rig.poller._reports._hooks = type(rig.poller._reports._hooks)((hook,))
    service.faults[:] = [DOWN] * 12
    with scope:
        await rig.scan_for(HOUR)
    assert scope.cancelled_caught
    scope = anyio.CancelScope()
    await rig.scan_until_well()
    assert [name for name in reported if name != "Scan"] == ["Degraded", "Recovered"]


async def test_rule_11_a_poll_has_a_deadline_of_its_own(store: Store) -> None:
    """Its window ages while it waits for pages, and a new one reaches further."""
    service = Service(clamp=5)
    rig = await live(service, store)
    rig.reported.clear()
    covered = rig.journal.state.watermark
    service.latency = 40.0
    service.publish(*range(100))
    with anyio.fail_after(HOUR):
        while not any(isinstance(reported, Degraded) for reported in rig.reported):
            await rig.scan()
    (lost,) = (reported for reported in rig.reported if isinstance(reported, Scan) and reported.error is not None)
    assert (lost.tier, lost.complete) == ("narrow", False)
    assert lost.elapsed == pytest.approx(600)
    assert "not done within 600 s" in str(lost.error)
    assert rig.journal.state.watermark == covered
    service.latency = 0.0
    await rig.scan_for(HOUR)
    assert sorted(rig.event_keys) == [("new", index) for index in range(100)]


# Readers who leave


async def test_a_reader_who_always_leaves_before_a_page_comes_is_logged_and_held_to_a_pace(store: Store) -> None:
    service = Service(latency=1.5)
    rig = await live(service, store)
    service.publish(1)
    rig.reported.clear()
    until = anyio.current_time() + 600
    while anyio.current_time() < until:
        with anyio.move_on_after(1):
            await rig.poller.scan()
    assert (rig.event_keys, rig.poller.progress.phase) == ([], "backing-off")
    (reported,) = (reported for reported in rig.reported if isinstance(reported, Degraded))
    assert "wait longer" in str(reported.error)
    assert len(service.pages) < 120
    await rig.scan()
    assert (rig.event_keys, rig.poller.progress.phase) == ([("new", 1)], "live")
    assert any(isinstance(reported, Recovered) for reported in rig.reported)


async def test_reader_who_leaves_while_others_would_wait_is_not_a_failure(store: Store) -> None:
    """His scan is kept, and the next reader continues it."""
    service = Service(latency=0.5)
    rig = await live(service, store)
    rig.reported.clear()
    for index in range(40):
        service.publish(index)
        with anyio.move_on_after(1 + index % 3 * 14.7):
            await rig.poller.scan()
    await rig.scan()
    assert sorted(rig.event_keys) == [("new", index) for index in range(40)]
    assert not any(isinstance(reported, Degraded) for reported in rig.reported)
