"""Tests of failures that recur within an hour, while requests are really withdrawn."""

from __future__ import annotations

import anyio
import pytest
from tests.unit.feed.rig import HOUR, Partial, Rig

from freight_exchange.store import Store

pytestmark = pytest.mark.virtual_time

MINUTE = 60.0


@pytest.mark.parametrize(
    ("interval", "first", "recovery", "second"),
    [(120.0, 20, 30, 40), (120.0, 57, 5, 30), (360.0, 45, 30, 50), (600.0, 30, 40, 40), (1140.0, 30, 70, 43)],
)
async def test_requests_that_two_failures_hide_are_not_withdrawn(
    store: Store, interval: float, first: int, recovery: int, second: int
) -> None:
    rig = Rig(service := Partial(), store=store, interval=interval)
    await rig.prime()
    await rig.scan_for(6.2 * HOUR)
    service.publish(*range(1, 31))
    await rig.scan()
    service.withdraw(*range(19, 31))
    for length, hidden in ((first, range(1, 19)), (recovery, ()), (second, range(1, 19)), (180, ())):
        service.hidden = frozenset(hidden)
        await rig.scan_for(length * MINUTE)
    assert sorted(rig.event_keys)[30:] == [("withdrawn", index) for index in range(19, 31)]
    assert rig.poller.progress.phase == "live"


async def test_requests_hidden_at_the_end_of_a_doubt_are_not_withdrawn_if_more_vanished_before(
    store: Store,
) -> None:
    rig = Rig(service := Partial(), store=store, interval=360.0)
    await rig.prime()
    await rig.scan_for(6.2 * HOUR)
    service.publish(*range(1, 15))
    await rig.scan()
    service.withdraw(*range(1, 6))
    await rig.scan_for(5 * MINUTE)
    service.withdraw(*range(6, 10))
    await rig.scan_for(47 * MINUTE)
    service.hidden = frozenset(range(10, 13))
    await rig.scan_for(35 * MINUTE)
    service.hidden = frozenset()
    await rig.scan_for(2 * HOUR)
    assert sorted(rig.event_keys)[14:] == [("withdrawn", index) for index in range(1, 10)]
    assert rig.poller.progress.phase == "live"


async def test_failure_after_a_stop_withdraws_no_requests_that_the_doubt_before_it_did_not_reach(store: Store) -> None:
    rig = Rig(service := Partial(), store=store, interval=360.0)
    await rig.prime()
    service.publish(*range(1, 31))
    await rig.scan_for(HOUR)
    service.publish(*range(31, 37))
    await rig.scan()
    service.withdraw(31, 32, 33)
    while rig.journal.state.absence_doubt is None:
        await rig.scan()
    await anyio.sleep(5 * HOUR)
    rig = rig.restart()
    service.hidden = frozenset(range(1, 31))
    await rig.scan_for(30 * MINUTE)
    service.hidden = frozenset()
    await rig.scan_for(HOUR)
    assert sorted(rig.event_keys)[36:] == [("withdrawn", index) for index in (31, 32, 33)]
    assert rig.poller.progress.phase == "live"


async def test_failure_before_the_end_of_a_doubt_withdraws_nothing(store: Store) -> None:
    rig = Rig(service := Partial(), store=store, interval=120.0)
    await rig.prime()
    service.publish(*range(1, 9))
    await rig.scan_for(3 * HOUR)
    service.publish(*range(9, 20))
    await rig.scan_for(3 * HOUR)
    withdrawn = (1, 4, 5, 7, 9, 12, 13, 14, 16, 17, 18)
    service.withdraw(*withdrawn)
    for length, hidden in ((20, range(1, 20)), (39, ()), (57, (6, 15, 19)), (26 * 60, ())):
        service.hidden = frozenset(hidden)
        await rig.scan_for(length * MINUTE)
    assert sorted(rig.event_keys)[19:] == [("withdrawn", index) for index in withdrawn]
    assert rig.poller.progress.phase == "live"


async def test_one_request_that_comes_and_goes_does_not_prolong_a_doubt(store: Store) -> None:
    rig = Rig(service := Partial(), store=store, interval=600.0)
    await rig.prime()
    await rig.scan_for(HOUR)
    begun, oldest = anyio.current_time(), 1
    for step in range(80):
        # One request each seven and a half minutes; each is open for one and a half hours.
        service.publish(step + 1)
        if step + 1 - oldest >= 12:
            service.withdraw(oldest)
            oldest += 1
        if step == 24:
            service.withdraw(*range(oldest, oldest + 6))
            oldest += 6
        if step % 8 == 0:
            service.publish(1000)
        elif step % 8 == 4:
            service.withdraw(1000)
        while anyio.current_time() < begun + (step + 1) * 7.5 * MINUTE:
            await rig.scan()
    withdrawn = {index for kind, index in rig.event_keys if kind == "withdrawn"}
    assert withdrawn >= set(range(1, oldest - 24))
