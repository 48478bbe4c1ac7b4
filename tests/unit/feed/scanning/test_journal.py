"""Tests of the journal: a page, its events and the watermark are one commit, and a restart reads all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from tests.unit.feed.rig import HOUR, Rig, Service, live

from freight_exchange.errors import ServerError, StoreError
from freight_exchange.feed.core.changes.observation import Schema
from freight_exchange.feed.core.clock_lags import ClockLag
from freight_exchange.feed.core.planning.scanner import OPERATION
from freight_exchange.feed.core.state import State
from freight_exchange.feed.core.watermark import Watermark
from freight_exchange.models import RateRequest
from freight_exchange.platform.clock import Reading
from freight_exchange.store import Store
from freight_exchange.store.protocol import Commit
from freight_exchange.wire import Rows

pytestmark = pytest.mark.virtual_time

DOWN = ServerError("down", status=503)
READING = Reading(run="r", loop=1.5, boot_id="b", boot=2.5, wall=1.7e9 + 0.125)


def test_a_state_comes_back_as_it_was() -> None:
    state = State(
        watermark=Watermark(12.25, READING),
        stage="primed",
        allowance=120.0,
        scan=77,
        tiers={"five days": 1.0, "half an hour": 9.5},
        longest=40,
        clamp=40,
        late=3,
        gap_until=4.5,
        schema=Schema(fields=frozenset({"b", "a"}), at=7.0),
        clock_lags=(ClockLag(by=7200.0, until=1.0), ClockLag(by=60.0, until=8.0)),
    )
    assert State.load(state.dump()) == state


def test_an_empty_state_comes_back_too() -> None:
    state = State(watermark=Watermark(0.0, READING), allowance=60.0)
    assert State.load(state.dump()) == state


async def test_next_run_continues_with_the_same_state(store: Store) -> None:
    service = Service(clamp=4)
    rig = await live(service, store)
    service.publish(*range(9))
    await rig.scan()
    before = rig.journal.state
    assert before.scan
    assert before.clamp == 4
    rig = rig.restart()
    assert rig.journal.state == before


async def test_failed_commit_changes_nothing_and_its_request_is_found_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(1)
    before = rig.journal.state
    commit: Callable[..., int] = rig.feed_store.commit

    def full(decide: Callable[[Any], Commit], **options: Any) -> int:
        def decide_and_fail(found: Any) -> Commit:
            decide(found)
            raise StoreError("the disk is full")

        return commit(decide_and_fail, **options)

    monkeypatch.setattr(rig.feed_store, "commit", full)
    with pytest.raises(StoreError):
        await rig.scan()
    assert rig.journal.state is before
    monkeypatch.undo()
    assert not rig.events
    await rig.scan()
    assert rig.event_keys == [("new", 1)]


async def test_watermark_and_its_events_are_one_commit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between two commits would lose the events, or report them twice."""
    service = Service()
    rig = await live(service, store)
    # Otherwise a single row would be the largest page so far, and would cause a probe.
    rig.journal.sizes.record_rows("feed", 50)
    watermark = rig.journal.state.watermark
    service.publish(1)
    commits = list[Commit]()
    commit: Callable[..., int] = rig.feed_store.commit

    def noting(decide: Callable[[Any], Commit], **options: Any) -> int:
        def noted(found: Any) -> Commit:
            commits.append(decide(found))
            return commits[-1]

        return commit(noted, **options)

    monkeypatch.setattr(rig.feed_store, "commit", noting)
    await rig.scan()
    (last,) = [written for written in commits if written.events]
    assert last.state is not None
    assert State.load(last.state).watermark.time > watermark.time
    assert [row.index for row in last.requests] == [1]


async def test_a_late_find_widens_the_allowance_up_to_half_an_hour(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    for number in range(12):
        service.late = 2.5 * rig.journal.state.allowance + 300
        service.publish(number)
        await rig.scan_for(2 * HOUR)
    assert rig.journal.state.allowance == 1800.0
    assert rig.journal.state.late >= 5
    assert len(rig.event_keys) == 12


@pytest.mark.parametrize("allowance", [1000.0, 3600.0])
async def test_a_late_find_never_shortens_the_allowance(store: Store, allowance: float) -> None:
    service = Service(late=2 * allowance + 500)
    rig = await live(service, store, allowance=allowance)
    service.publish(1)
    await rig.scan_for(4 * HOUR)
    assert rig.event_keys == [("new", 1)]
    assert rig.journal.state.late == 1
    assert rig.journal.state.allowance == max(1800.0, allowance)


async def test_request_that_the_narrow_scan_lists_too_was_not_late(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    for number in range(60):
        service.publish(number)
        await rig.scan()
    assert rig.journal.state.late == 0
    assert rig.journal.state.allowance == 60.0


async def test_allowance_shrinks_from_day_to_day_but_not_below_the_users(store: Store) -> None:
    service = Service(late=400.0)
    rig = await live(service, store, interval=150.0)
    service.publish(1)
    await rig.scan_for(2 * HOUR)
    assert rig.journal.state.allowance == 120.0
    await rig.scan_for(50 * HOUR)
    assert rig.journal.state.allowance == 60.0


async def test_longer_of_the_stored_and_the_configured_allowance_counts(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    rig.feed_store.release()
    assert Rig(service, store=store, allowance=300.0).journal.state.allowance == 300.0


async def test_failed_scan_counts_no_missed_requests(store: Store) -> None:
    service = Service(clamp=2)
    rig = await live(service, store)
    service.publish(1, 2, 3)
    await rig.scan()
    service.faults[:] = [None, DOWN, DOWN, DOWN]
    await rig.scan()
    assert [rig.seen(index).missed_scans for index in (1, 2, 3)] == [0, 0, 0]


async def test_finds_of_look_ups_have_page_sizes_learned_anew_at_intervals_without_refused_sizes(
    store: Store,
) -> None:
    rig = await live(Service(), store)
    rig.journal.sizes.record_refusal(OPERATION, 20)
    longest = list[int]()
    for seconds in (0.0, 599.0, 600.0, 1199.0):
        rig.journal.sizes.record_rows(OPERATION, 15)
        await rig.journal.record_find(RateRequest(index=1), attrs.evolve(READING, loop=READING.loop + seconds))
        longest.append(rig.journal.sizes.longest(OPERATION))
    assert longest == [0, 15, 0, 15]
    assert rig.journal.sizes.size_to_request(OPERATION, 1000) == 20
    assert rig.journal.sizes.clamp(OPERATION) == 20


async def test_page_read_beside_a_scan_is_recorded_except_requests_of_the_scans_own_page(
    store: Store,
) -> None:
    service = Service()
    rig = await live(service, store)
    scan, now = rig.poller._queue.start(), rig.clock.read()
    older, newer, other = RateRequest(index=1), RateRequest(index=1, notes="fragile"), RateRequest(index=2)
    scan.unwritten = (Rows((older,), ()), now, now)
    await rig.journal.record_recent(scan, Rows((newer, other), ()), 95, now, now)
    assert rig.event_keys == [("new", 2)]
    assert scan.event_count == 1
    scan.unwritten = None
    await rig.journal.record_recent(scan, Rows((newer, other), ()), 95, now, now)
    assert rig.event_keys == [("new", 2), ("new", 1)]


async def test_watermark_is_at_the_start_of_the_scan_that_moves_it(store: Store) -> None:
    """A change during the scan may be on none of its pages."""
    service = Service(clamp=5, latency=2.0)
    rig = await live(service, store)
    service.publish(*range(1, 41))
    before = rig.journal.state.watermark.reading
    while rig.journal.state.watermark.reading == before:
        await rig.scan()
    # Eight pages of five.
    assert rig.journal.state.watermark.least(rig.clock.read()) >= 8 * service.latency


async def test_scan_that_fails_after_its_first_page_does_not_move_the_watermark(store: Store) -> None:
    service = Service(clamp=5)
    rig = await live(service, store)
    service.publish(*range(1, 41))
    before = rig.journal.state.watermark
    service.faults[:] = [None, *[DOWN] * 100]
    await rig.scan()
    assert len(rig.event_keys) == 5
    assert rig.journal.state.watermark == before
