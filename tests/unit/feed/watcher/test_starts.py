"""Tests of the rules of starts and long pauses, with a small service in virtual time."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.unit.feed.rig import DAY, HOUR, Hiding, Rig, Service

from freight_exchange.errors import NotFoundError, ServerError
from freight_exchange.feed.core.watermark import WIDEST
from freight_exchange.feed.events import Gap
from freight_exchange.store import Store

pytestmark = pytest.mark.virtual_time

DOWN = ServerError("down", status=503)


async def live(service: Service, store: Store, **options: Any) -> Rig:
    rig = Rig(service, store=store, **options)
    with anyio.fail_after(30 * DAY):
        await rig.prime()
    await rig.scan()
    return rig


async def test_rule_9_start_now_reports_nothing_that_is_listed_and_every_later_change(store: Store) -> None:
    service = Service(clamp=3)
    service.publish(*range(10), age=HOUR)
    rig = await live(service, store)
    assert not rig.events
    service.publish(3, notes="moved")
    service.publish(77)
    await rig.scan()
    assert sorted(rig.event_keys) == [("new", 77), ("updated", 3)]


async def test_rule_9_a_restart_never_primes_again(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(1)
    await anyio.sleep(HOUR)
    rig = rig.restart()
    await rig.prime()
    await rig.scan()
    assert rig.event_keys == [("new", 1)]


async def test_rule_9_a_first_scan_that_failed_has_not_primed(store: Store) -> None:
    service = Service(clamp=2)
    service.publish(1, 2, 3, 4, 5)
    rig = Rig(service, store=store)
    service.faults[:] = [None, DOWN, DOWN, DOWN]
    await rig.scan()
    assert not rig.journal.state.is_primed
    rig = rig.restart()
    service.publish(2, notes="moved before it was known")
    await rig.prime()
    assert rig.journal.state.is_primed
    assert not rig.events


async def test_rule_9_backfill_reports_all_and_each_once_though_the_first_scan_failed(store: Store) -> None:
    service = Service(clamp=2)
    service.publish(1, 2, 3, 4, 5, age=4 * DAY)
    rig = Rig(service, store=store, start="backfill")
    service.faults[:] = [None, DOWN, DOWN, DOWN]
    await rig.prime()
    await rig.scan()
    assert Counter(rig.event_keys) == {("new", index): 1 for index in (1, 2, 3, 4, 5)}


async def test_rule_9_start_with_a_time_reports_requests_updated_within_it(store: Store) -> None:
    service = Service()
    service.publish(1, age=2 * HOUR)
    service.publish(2, age=HOUR / 2)
    rig = await live(service, store, start=timedelta(hours=1))
    assert rig.event_keys == [("new", 2)]
    service.publish(1, notes="moved")
    await rig.scan()
    assert rig.event_keys == [("new", 2), ("updated", 1)]


async def test_rule_9_an_outage_between_the_two_first_scans_shortens_nothing(store: Store) -> None:
    service = Service()
    service.publish(1, age=0.75 * HOUR)
    rig = Rig(service, store=store, start=timedelta(hours=1))
    await rig.scan()
    assert not rig.journal.state.is_primed
    service.faults[:] = [DOWN] * 800
    await rig.prime()
    assert anyio.current_time() > HOUR / 2
    assert rig.event_keys == [("new", 1)]


async def test_rule_9_an_outage_at_the_very_start_shortens_nothing(store: Store) -> None:
    """The start counts back from the entry of the feed, not from the recovery of the service."""
    service = Service()
    service.publish(1, age=0.75 * HOUR)
    rig = Rig(service, store=store, start=timedelta(hours=1))
    service.faults[:] = [DOWN] * 800
    await rig.prime()
    assert anyio.current_time() > HOUR / 2
    assert rig.event_keys == [("new", 1)]


async def test_a_wrong_address_raises_while_priming_and_an_outage_does_not(store: Store) -> None:
    service = Service(faults=[DOWN] * 10)
    rig = Rig(service, store=store)
    await rig.prime()
    assert rig.journal.state.is_primed
    other = Rig(Service(faults=[NotFoundError("nothing here", status=404)]))
    with pytest.raises(NotFoundError):
        await other.prime()
    assert other.poller.progress.phase == "stopped"


async def test_rule_10_five_days_of_silence_are_a_gap_reported_once(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    slept = rig.clock.read().wall
    await anyio.sleep(6 * DAY)
    rig = rig.restart()
    service.pages.clear()
    service.faults[:] = [DOWN] * 7
    await rig.scan_until_well()
    # Longer than the margin of a reported gap.
    await anyio.sleep(1200)
    await rig.scan(2)
    (gap,) = [event for event in rig.events if isinstance(event, Gap)]
    assert abs(gap.since.timestamp() - (slept - 60)) < 40
    assert timedelta(days=1) < gap.until - gap.since < timedelta(days=1, minutes=30)
    assert service.windows[0] == WIDEST


async def test_rule_10_a_gap_is_there_after_a_crash_before_the_scan_was_complete(store: Store) -> None:
    service = Service(clamp=2)
    rig = await live(service, store)
    await anyio.sleep(6 * DAY)
    service.publish(*range(5))
    rig = rig.restart()
    service.faults[:] = [None, DOWN, DOWN, DOWN]
    await rig.scan()
    rig = rig.restart(run="a third")
    assert [event.kind for event in rig.events] == ["gap", "new", "new"]
    await rig.scan()
    assert [event.kind for event in rig.events].count("gap") == 1


async def test_rule_10_a_gap_that_grows_before_it_is_closed_is_reported_to_its_end(store: Store) -> None:
    service = Service(clamp=2)
    rig = await live(service, store)
    await anyio.sleep(6 * DAY)
    service.publish(*range(5))
    rig = rig.restart()
    service.faults[:] = [None, DOWN, DOWN, DOWN]
    await rig.scan()
    await anyio.sleep(DAY)
    await rig.scan(2)
    first, second = [event for event in rig.events if isinstance(event, Gap)]
    assert second.since == first.until
    assert timedelta(days=2) < second.until - first.since < timedelta(days=2, hours=1)


async def test_rule_10_a_gap_that_opens_within_a_scan_is_reported_once(store: Store) -> None:
    """The watermark is at the start of that scan, which is older than the service's window."""
    service = Service(clamp=2)
    rig = await live(service, store)
    await anyio.sleep(2 * DAY)
    service.publish(*range(5))

    def sleep_once(page: int) -> None:
        if page == 1:
            service.on_page = lambda _: None
            rig.clock.wall += 6 * DAY

    service.on_page = sleep_once
    await rig.scan(3)
    assert service.windows[0] == WIDEST
    (gap,) = [event for event in rig.events if isinstance(event, Gap)]
    assert timedelta(days=3) < gap.until - gap.since < timedelta(days=3, minutes=30)


async def test_wall_clock_that_is_set_back_after_a_restart_of_the_machine_makes_no_gap(store: Store) -> None:
    """Monotonic clocks count after the start of a run, even if no scan is complete yet."""
    service = Service(clamp=2)
    rig = await live(service, store)
    await anyio.sleep(HOUR)
    rig.clock.boot_id = "next start"
    rig = rig.restart()
    service.publish(*range(5))
    service.faults[:] = [None, DOWN, DOWN, DOWN]
    await rig.scan()
    rig.clock.wall -= DAY
    await rig.scan_until_well()
    assert sorted(rig.event_keys) == [("new", index) for index in range(5)]
    assert not [event for event in rig.events if isinstance(event, Gap)]


async def test_rule_10_just_under_five_days_are_not_a_gap(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    await anyio.sleep(WIDEST - 200)
    rig = rig.restart()
    await rig.scan()
    assert not rig.events


async def test_long_first_scan_shows_how_far_it_is(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    service = Service(clamp=20, latency=0.5)
    service.publish(*range(1, 2001))
    rig = Rig(service, store=store)
    caplog.set_level(logging.INFO, logger="freight_exchange.feed")
    progress: list[tuple[str, int]] = []
    with anyio.move_on_after(40.0):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rig.poller.prime)
            for _ in range(3):
                await anyio.sleep(10.0)
                progress.append((rig.poller.progress.phase, rig.poller.progress.pages))
    assert [phase for phase, _ in progress] == ["priming"] * 3
    assert 0 < progress[0][1] < progress[1][1] < progress[2][1]
    assert 2 <= sum("requests so far" in line for line in caplog.messages) <= 3


async def test_update_that_is_listed_beside_the_first_scan_is_new_though_later_scans_lack_it(store: Store) -> None:
    service = Hiding(clamp=3, latency=0.1)
    service.publish(*range(1, 13), age=DAY)
    rig = Rig(service, store=store, interval=300.0)
    await rig.poller.prime()
    published = iter(range(101, 104))

    def publish(number: int) -> None:
        # Each moves the listing: the scan asks for recent updates, to know what need not have been seen.
        service.publish(*[index for index in [next(published, 0)] if index])

    service.on_page = publish
    while rig.journal.state.stage == "listing":
        await rig.scan()
    service.hidden = frozenset(range(101, 104))
    await rig.scan_for(0.9 * HOUR)
    service.hidden = frozenset()
    await rig.scan_for(2 * HOUR)
    assert Counter(rig.event_keys) == dict.fromkeys((("new", index) for index in range(101, 104)), 1)
