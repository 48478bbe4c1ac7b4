"""Tests of the rules of watermark, pages, scans, schedule and pace, with a small service in virtual time."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import anyio
import pytest
from tests.unit.feed.rig import DAY, HOUR, Rig, Service, live

from freight_exchange.errors import (
    BadRequestError,
    DecodeError,
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    RateLimitedError,
    ServerError,
)
from freight_exchange.feed.core.watermark import WIDEST
from freight_exchange.feed.events import Gap
from freight_exchange.hooks import Degraded, Recovered, Scan
from freight_exchange.store import Store

pytestmark = pytest.mark.virtual_time

DOWN = ServerError("down", status=503)


async def test_rule_1_each_window_covers_the_watermarks_age_the_allowance_and_a_scan(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    await rig.scan(5)
    assert all(92 <= window <= 99 for window in service.windows)


async def test_rule_1_a_silence_widens_the_window_by_itself(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    await anyio.sleep(200)
    service.publish(1, age=190)
    await rig.scan()
    assert rig.event_keys == [("new", 1)]
    assert 260 <= service.windows[0] <= 275


async def test_rule_1_scan_whose_window_slid_past_the_watermark_is_repeated_with_a_wider_one(store: Store) -> None:
    """The check after a scan finds that a page took longer than allowed for, and lacked its first rows."""
    service = Service()
    rig = await live(service, store)
    watermark = rig.journal.state.watermark
    service.latency = 90.0
    await rig.scan()
    assert (rig.journal.state.watermark, rig.poller.progress.phase) == (watermark, "catching-up")
    service.latency = 0.0
    await rig.scan()
    assert service.windows[1] > service.windows[0] + 90
    assert rig.journal.state.watermark.time > watermark.time
    assert rig.poller.progress.phase == "live"


async def test_rule_1_time_asleep_counts(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    rig.clock.asleep = service.asleep = 8 * HOUR
    await rig.scan()
    assert service.windows[0] > 8 * HOUR


async def test_rule_1_wall_clock_set_forward_widens_the_window_and_reports_a_gap(store: Store) -> None:
    """No clock distinguishes a step of the wall clock from a suspended machine. A needless gap is harmless."""
    service = Service()
    rig = await live(service, store)
    rig.clock.wall += 9 * DAY
    await rig.scan(2)
    assert service.windows[0] == WIDEST
    assert service.windows[1] < 100
    (gap,) = [event for event in rig.events if isinstance(event, Gap)]
    assert gap.until - gap.since < timedelta(days=4, minutes=15)


async def test_rule_1_wall_clock_set_forward_by_less_than_the_widest_window_is_not_a_gap(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    rig.clock.wall += 4.9 * DAY
    await rig.scan(2)
    assert service.windows[0] > 4.9 * DAY
    assert service.windows[1] < 100
    assert not rig.events


async def test_rule_1_watermark_is_when_page_0_was_requested(store: Store) -> None:
    """The next scan reaches an update that was made while later pages were read."""
    service = Service(clamp=2, latency=1.0)
    rig = await live(service, store)
    service.publish(1, 2, 3)
    await rig.scan()
    sent = rig.journal.state.watermark.reading.loop
    assert anyio.current_time() - sent >= len(service.pages) >= 3


async def test_rule_2_a_row_that_slips_to_an_earlier_page_is_not_lost(store: Store) -> None:
    service = Service(clamp=2)
    rig = await live(service, store)
    service.publish(*range(6))

    def leave(number: int) -> None:
        service.requests.pop(5, None)

    service.on_page = leave
    await rig.scan()
    assert {index for _, index in rig.event_keys} >= {0, 1, 2, 3, 4}


async def test_rule_2_the_learned_clamp_is_asked_for_and_survives_a_restart(store: Store) -> None:
    service = Service(clamp=5)
    rig = await live(service, store)
    service.publish(*range(12))
    await rig.scan()
    assert rig.journal.state.clamp == 5
    rig = rig.restart()
    assert rig.journal.sizes.clamp("feed") == 5
    await rig.scan(2)
    assert service.pages[-1][1] == 5


@pytest.mark.parametrize("fault", [DecodeError("no collection"), NotFoundError("gone", status=404), DOWN])
async def test_rule_3_a_reply_without_the_listing_is_never_an_empty_one(
    store: Store, fault: FreightExchangeError
) -> None:
    service = Service()
    rig = await live(service, store)
    watermark = rig.journal.state.watermark
    service.publish(1)
    service.faults[:] = [fault] * 4
    await rig.scan()
    assert rig.journal.state.watermark == watermark
    assert rig.poller.progress.phase == "backing-off"
    await rig.scan_until_well()
    assert rig.event_keys == [("new", 1)]


async def test_rule_4_scan_that_fails_half_way_reports_its_requests_and_proves_nothing(store: Store) -> None:
    service = Service(clamp=2)
    rig = await live(service, store)
    watermark = rig.journal.state.watermark
    service.publish(*range(5))
    service.faults[:] = [None, DOWN, DOWN, DOWN]
    await rig.scan()
    assert len(rig.event_keys) == 2
    assert rig.journal.state.watermark == watermark
    await rig.scan_until_well()
    assert Counter(rig.event_keys) == {("new", index): 1 for index in range(5)}


async def test_rule_4_the_page_is_asked_for_again_and_not_the_scan(store: Store) -> None:
    service = Service(clamp=2)
    rig = await live(service, store)
    service.publish(1, 2, 3)
    service.faults[:] = [None, DOWN]
    await rig.scan()
    assert [number for number, _, _ in service.pages][:3] == [0, 1, 1]
    assert rig.poller.progress.phase == "live"
    assert len(rig.event_keys) == 3


async def test_rule_5_request_shown_too_late_for_narrow_scans_is_found_by_deep_ones(store: Store) -> None:
    service = Service(late=400.0)
    rig = await live(service, store)
    service.publish(1)
    await rig.scan_for(900)
    assert rig.event_keys == [("new", 1)]
    assert rig.journal.state.late == 1
    assert rig.journal.state.allowance == 120.0
    assert service.windows[-1] > 30 + 120


async def test_rule_5_a_deep_scan_takes_the_place_of_a_narrow_one(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    rig.reported.clear()
    await rig.scan_for(2.5 * HOUR)
    scans = Counter(scan.tier for scan in rig.reported if isinstance(scan, Scan))
    assert scans["six hours"] == 2
    assert 25 <= scans["half an hour"] <= 30
    assert 290 <= sum(scans.values()) <= 310
    assert len(service.pages) == sum(scans.values())


async def test_rule_5_a_restart_looks_five_days_back(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    rig = rig.restart()
    await rig.prime()
    await rig.scan(2)
    assert service.windows[0] == WIDEST
    assert service.windows[1] < 100


async def test_rule_11_one_request_for_an_idle_poll_at_the_interval_give_or_take_a_tenth(store: Store) -> None:
    service = Service()
    service.publish(1, age=HOUR)
    rig = await live(service, store)
    began = anyio.current_time()
    await rig.scan(100)
    assert len(service.pages) == 100
    assert 2900 < anyio.current_time() - began < 3100


async def test_rule_11_the_first_phase_is_random(store: Store) -> None:
    service = Service()
    rig = Rig(service, store=store)
    await rig.prime()
    primed = anyio.current_time()
    await rig.scan()
    assert 0 < anyio.current_time() - primed < 26


async def test_rule_11_missed_ticks_are_skipped(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    await anyio.sleep(HOUR)
    began = anyio.current_time()
    await rig.scan(3)
    assert len(service.pages) == 3
    assert anyio.current_time() - began > 50


async def test_rule_11_outage_is_waited_out_with_no_more_requests_than_in_health(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.faults[:] = [DOWN] * 300
    began = anyio.current_time()
    await rig.scan_until_well()
    assert 300 * 30 < anyio.current_time() - began < 300 * 60
    degraded = [reported for reported in rig.reported if isinstance(reported, Degraded)]
    recovered = [reported for reported in rig.reported if isinstance(reported, Recovered)]
    assert (len(degraded), len(recovered)) == (1, 1)
    assert degraded[0].retry_in >= 30
    assert recovered[0].after > 100


async def test_rule_11_retry_after_is_honoured_and_capped(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.faults[:] = [RateLimitedError("slowly", status=429, retry_after=1e9)] * 3
    await rig.scan()
    began = anyio.current_time()
    await rig.scan()
    assert 3600 <= anyio.current_time() - began <= 3601


async def test_rejected_login_ends_the_feed_and_other_errors_do_not(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.faults[:] = [LoginRejectedError("no", status=401)]
    with pytest.raises(LoginRejectedError):
        await rig.scan()
    stopped: str = rig.poller.progress.phase
    assert stopped == "stopped"
    service.faults[:] = [BadRequestError("no", status=400)] * 4
    await rig.scan()
    assert rig.poller.progress.phase == "backing-off"
