"""Tests of listings that lack a third of their requests or more: a failure first, then withdrawals if it lasts."""

from __future__ import annotations

from datetime import timedelta
from itertools import cycle

import anyio
import attrs
import pytest
from tests.unit.feed.rig import DAY, HOUR, Partial, Rig, Service

from freight_exchange.errors import ServerError
from freight_exchange.feed.core.absence import doubts
from freight_exchange.feed.core.planning.planner import settling_tier
from freight_exchange.feed.core.state import AbsenceDoubt
from freight_exchange.feed.core.watermark import WIDEST
from freight_exchange.hooks import Degraded, Recovered
from freight_exchange.models import RateRequest
from freight_exchange.store import Store
from freight_exchange.wire import Rows

pytestmark = pytest.mark.virtual_time


@attrs.define
class Failing(Service):
    """Service that answers `[]` to listings and look-ups while it is `away`."""

    away: bool = False

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        page = await Service.page(self, number, rows, window)
        return Rows((), ()) if self.away else page

    async def find(self, index: int) -> RateRequest | None:
        found = await Service.find(self, index)
        return None if self.away else found


async def live(store: Store, *, interval: float, standing: int = 30) -> tuple[Failing, Rig]:
    service = Failing()
    rig = Rig(service, store=store, interval=interval)
    await rig.prime()
    service.publish(*range(1, standing + 1))
    await rig.scan_for(600.0)
    return service, rig


@pytest.mark.parametrize("interval", [5.0, 300.0])
async def test_empty_listings_for_most_of_an_hour_withdraw_nothing(store: Store, interval: float) -> None:
    service, rig = await live(store, interval=interval)
    service.away = True
    await rig.scan_for(0.9 * HOUR)
    assert rig.poller.progress.quiet_for > 0
    service.publish(31)
    service.away = False
    await rig.scan_for(HOUR)
    assert rig.poller.progress.phase == "live"
    assert sorted(rig.event_keys) == [("new", index) for index in range(1, 32)]
    assert [type(event) for event in rig.reported if isinstance(event, Degraded | Recovered)] == [Degraded, Recovered]


async def test_empty_listings_send_no_more_requests_than_full_ones(store: Store) -> None:
    service, rig = await live(store, interval=30.0)
    service.away = True
    service.pages.clear()
    await rig.scan_for(HOUR)
    assert len(service.pages) + len(service.lookups) <= HOUR / 30.0


async def test_watermark_does_not_advance_while_most_requests_are_missing(store: Store) -> None:
    service, rig = await live(store, interval=30.0)
    service.away = True
    await rig.scan_for(0.5 * HOUR)
    assert rig.journal.state.watermark.least(rig.clock.read()) > 0.3 * HOUR


async def test_requests_that_stay_lacking_are_withdrawn_in_the_end(store: Store) -> None:
    service, rig = await live(store, interval=30.0)
    service.withdraw(*range(1, 31))
    await rig.scan_for(1.5 * HOUR)
    assert sorted(rig.event_keys[30:]) == [("withdrawn", index) for index in range(1, 31)]
    assert rig.poller.progress.phase == "live"


async def test_doubt_lasts_through_restarts(store: Store) -> None:
    service, rig = await live(store, interval=30.0)
    service.away = True
    began = anyio.current_time()
    for run in range(5):
        await rig.scan_for(0.2 * HOUR)
        assert len(rig.event_keys) == 30
        rig = rig.restart(run=f"run {run}")
    assert rig.journal.state.absence_doubt is not None
    assert rig.journal.state.absence_doubt.since == pytest.approx(began, abs=400.0)
    await rig.scan_for(0.5 * HOUR)
    assert len(rig.event_keys) == 60


async def test_few_of_many_that_vanish_at_once_are_withdrawn_soon(store: Store) -> None:
    service, rig = await live(store, interval=30.0)
    # Older than the deep scans of every five minutes look back.
    await rig.scan_for(HOUR)
    service.publish(101, 102, 103)
    await rig.scan(2)
    service.withdraw(101, 102, 103)
    await rig.scan_for(600.0)
    assert sorted(rig.event_keys[33:]) == [("withdrawn", index) for index in (101, 102, 103)]


async def test_lone_recent_request_is_not_withdrawn_by_empty_listings(store: Store) -> None:
    """An empty listing lacks the only request of a narrow window. A wider one proves the reason."""
    service, rig = await live(store, interval=5.0)
    service.publish(31)
    await rig.scan(2)
    service.away = True
    await rig.scan_for(600.0)
    service.away = False
    await rig.scan_for(600.0)
    assert sorted(rig.event_keys) == [("new", index) for index in range(1, 32)]


async def test_page_size_that_shrinks_below_half_is_found_out_without_look_ups(store: Store) -> None:
    service = Failing()
    rig = Rig(service, store=store, interval=10.0)
    await rig.prime()
    service.publish(*range(1, 9))
    await rig.scan(2)
    service.clamp = 4
    service.publish(9)
    await rig.scan_for(200.0)
    assert {index for _, index in rig.event_keys} == {*range(1, 10)}
    assert not service.lookups
    assert rig.poller.progress.phase == "live"


async def test_page_size_that_shrinks_while_much_is_lacking_is_found_out(store: Store) -> None:
    """A shorter page looks like the last one, so the scan would lack nearly all requests."""
    service = Service(clamp=20)
    rig, touched = Rig(service, store=store), cycle(range(1, 41))
    await rig.prime()

    async def scan_while_touched(hours: float) -> None:
        until = anyio.current_time() + hours * HOUR
        while anyio.current_time() < until:
            service.touch(next(touched))
            await rig.poller.scan()

    service.publish(*range(1, 61))
    await scan_while_touched(0.5)
    service.withdraw(*range(41, 61))
    # Nothing is covered for so long that narrow scans do not reach back far enough.
    await scan_while_touched(1.1)
    assert rig.journal.state.watermark.least(rig.clock.read()) > HOUR / 2
    service.clamp = 7
    await scan_while_touched(0.2)
    assert rig.journal.state.clamp == 7
    await scan_while_touched(1.3)
    assert rig.poller.progress.phase == "live"
    withdrawn = {("withdrawn", index) for index in range(41, 61)}
    assert {key for key in rig.event_keys if key[0] == "withdrawn"} == withdrawn


async def test_requests_that_are_new_to_a_scan_are_no_proof_that_it_lacks_little(store: Store) -> None:
    # At this interval each scan is a deep one.
    service, rig = await live(store, interval=400.0, standing=8)
    for index in range(1, 5):
        service.requests[index].visible_from = 1e9
    service.publish(*range(101, 121))
    await rig.scan()
    assert rig.journal.state.absence_doubt is not None


def next_doubt(before: AbsenceDoubt | None, *, window: int, at: float, listed: int, absent: int) -> AbsenceDoubt | None:
    return doubts.next_doubt(before, scan=7, window=window, at=at, listed=listed, absent=absent)


def test_doubt_begins_with_a_third_of_several() -> None:
    assert next_doubt(None, window=90, at=5.0, listed=6, absent=3) == AbsenceDoubt(
        since=5.0, last=5.0, window=90, scan=7
    )
    assert next_doubt(None, window=90, at=5.0, listed=7, absent=3) is None
    assert next_doubt(None, window=90, at=5.0, listed=0, absent=2) is None


def test_doubt_ends_with_a_scan_that_looks_back_as_far() -> None:
    doubt = AbsenceDoubt(since=0.0, last=0.0, window=90)
    assert next_doubt(doubt, window=189, at=100.0, listed=0, absent=0) == doubt
    assert next_doubt(doubt, window=189, at=100.0, listed=3, absent=1) == doubt
    assert next_doubt(doubt, window=190, at=100.0, listed=0, absent=0) is None
    wide = attrs.evolve(doubt, window=WIDEST)
    assert next_doubt(wide, window=WIDEST, at=100.0, listed=7, absent=3) is None


async def partly_live(store: Store) -> tuple[Partial, Rig]:
    rig = Rig(service := Partial(), store=store, interval=300.0)
    await rig.prime()
    service.publish(*range(1, 13))
    await rig.scan_for(600.0)
    return service, rig


async def test_first_scan_that_lacks_much_of_what_was_delivered_before_it_is_a_failure(store: Store) -> None:
    service = Partial()
    service.publish(*range(1, 9), age=HOUR)
    service.publish(9, 10, age=DAY)
    rig = Rig(service, store=store, start=timedelta(hours=2))
    await rig.poller.prime()
    while rig.journal.state.stage == "window":
        await rig.scan()
    service.hidden = frozenset(range(1, 7))
    await rig.scan_for(HOUR / 4)
    assert (rig.journal.state.is_primed, rig.poller.progress.phase) == (False, "backing-off")
    assert [type(event) for event in rig.reported if isinstance(event, Degraded | Recovered)] == [Degraded]
    service.hidden = frozenset()
    await rig.scan_for(HOUR / 4)
    assert (rig.journal.state.is_primed, rig.poller.progress.phase) == (True, "live")
    assert sorted(rig.event_keys) == [("new", index) for index in range(1, 9)]


async def test_second_time_without_many_requests_withdraws_none_that_were_listed_in_between(store: Store) -> None:
    service, rig = await partly_live(store)
    service.hidden = frozenset(range(1, 9))
    await rig.scan_for(1.2 * HOUR)
    service.hidden = frozenset()
    while (state := rig.journal.state).watermark.time - state.tiers["six hours"] < HOUR - 600.0:
        await rig.scan()
    service.publish(*range(1, 13), notes="fragile")
    await rig.scan()
    reported = len(rig.event_keys)
    # The next scan looks further back than the one that listed them.
    service.hidden = frozenset(range(1, 9))
    await rig.scan_for(0.5 * HOUR)
    assert rig.event_keys[reported:] == []
    assert ("updated", 1) in rig.event_keys[-12:]


async def test_empty_listings_after_a_scan_that_lacked_much_withdraw_none_that_it_listed(store: Store) -> None:
    service, rig = await partly_live(store)
    service.hidden = frozenset(range(1, 9))
    while (doubt := rig.journal.state.absence_doubt) is None or not doubts.is_checked(doubt):
        # What is updated meanwhile is listed by the scans that lack the rest.
        service.publish(*range(9, 13), notes=str(anyio.current_time()))
        await rig.scan()
    assert rig.journal.state.scan == rig.seen(9).last_scan
    reported = len(rig.event_keys)
    service.hidden = frozenset(range(1, 13))
    await rig.scan_for(0.5 * HOUR)
    assert not [(kind, index) for kind, index in rig.event_keys[reported:] if index >= 9]


async def test_request_that_a_doubtful_scan_lists_is_not_looked_up_though_earlier_scans_lacked_it(store: Store) -> None:
    service, rig = await partly_live(store)
    service.hidden, service.lookup_faults = frozenset({1}), [ServerError("down", status=503)] * 9
    while not service.lookups:
        await rig.scan()
    service.hidden = frozenset(range(2, 13))
    while rig.poller.progress.phase != "backing-off":
        await rig.scan()
    service.lookup_faults.clear()
    service.hidden = frozenset({1})
    service.lookups.clear()
    while rig.poller.progress.phase == "backing-off":
        await rig.scan()
    assert 1 not in service.lookups
    assert ("withdrawn", 1) not in rig.event_keys


def test_doubt_is_settled_by_deeper_scans() -> None:
    windows = [
        settling_tier(AbsenceDoubt(since=0.0, last=0.0, window=window), 9.0).window for window in (90, 1800, 21600)
    ]
    assert windows == [1800, 21600, WIDEST]
    lasted = AbsenceDoubt(since=0.0, last=3599.0, window=WIDEST)
    assert settling_tier(lasted, 3600.0).window == WIDEST
    assert settling_tier(attrs.evolve(lasted, last=3600.0), 3700.0).window == 0


def test_only_a_scan_about_as_deep_checks_a_doubt_that_has_lasted() -> None:
    doubt = AbsenceDoubt(since=0.0, last=3500.0, window=22_000)
    narrow = next_doubt(doubt, window=4000, at=3600.0, listed=0, absent=3)
    assert settling_tier(narrow, 3700.0).window == 21_600
    deep = next_doubt(narrow, window=21_600, at=3900.0, listed=0, absent=3)
    assert settling_tier(deep, 4000.0).window == 0
    later = next_doubt(deep, window=4000, at=4200.0, listed=0, absent=3)
    assert later is not None
    assert later.last == 4200.0


@pytest.mark.parametrize("others", [0, 1])
async def test_last_request_of_a_window_is_withdrawn_once_a_listing_of_others_lacks_it(
    store: Store, others: int
) -> None:
    """Empty listings may be failures. If the service lists nothing at all, a withdrawal takes an hour."""
    service = Service()
    service.publish(*range(9, 9 + others))
    rig = Rig(service, store=store, interval=30.0)
    await rig.prime()
    await rig.scan_for(7 * HOUR)
    service.publish(1)
    await rig.scan(2)
    service.withdraw(1)
    await rig.scan_for(0.5 * HOUR)
    assert rig.event_keys[1:] == [("withdrawn", 1)] * others
    await rig.scan_for(1.5 * HOUR)
    assert rig.event_keys[1:] == [("withdrawn", 1)]


async def test_request_that_is_listed_soon_after_a_lag_of_the_clock_is_withdrawn_by_a_scan_as_deep(
    store: Store,
) -> None:
    # At this interval each scan is a deep one.
    rig = Rig(service := Partial(), store=store, interval=400.0)
    await rig.prime()
    rig.clock.wall += HOUR
    await rig.scan()
    service.publish(1, 9)
    await rig.scan()
    assert ("new", 1) in rig.event_keys
    began = anyio.current_time() - service.windows[-1]
    service.hidden = frozenset({1})
    while ("withdrawn", 1) not in rig.event_keys:
        service.touch(9)
        service.pages.clear()
        await rig.scan()
    assert max(anyio.current_time() - window for window in service.windows) <= began
