"""Tests of a watcher's claims, which it can prove: withdrawals, times, and the limits of what it sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.feed.rig import DAY, HOUR, Rig, Service

from freight_exchange.errors import NotFoundError, ServerError
from freight_exchange.feed.core.changes.diff import digest
from freight_exchange.feed.events import RequestEvent
from freight_exchange.hooks import Scan
from freight_exchange.models import RateRequest
from freight_exchange.store import MemoryStore, Store
from freight_exchange.wire import Rows

pytestmark = pytest.mark.virtual_time

BARE = NotFoundError("Not Found", status=404)


@pytest.fixture
def store() -> Iterator[Store]:
    kept = MemoryStore()
    yield kept
    kept.close()


async def live(service: Service, store: Store, **options: Any) -> Rig:
    rig = Rig(service, store=store, **options)
    await rig.prime()
    await rig.scan()
    service.pages.clear()
    rig.reported.clear()
    return rig


@attrs.define
class HidesFromLookUps(Service):
    """Service that does not find request 1, as if one of its databases was away."""

    async def find(self, index: int) -> RateRequest | None:
        found = await super().find(index)
        return None if index == 1 else found


@pytest.mark.parametrize("interval", [30.0, 300.0])
async def test_request_that_was_shown_late_is_not_withdrawn_though_narrow_scans_lack_it(
    store: Store, interval: float
) -> None:
    service = HidesFromLookUps()
    service.publish(9)
    rig = await live(service, store, interval=interval)
    service.late = 1200.0
    service.publish(1)
    service.late = 0.0
    for _ in range(120):
        # A listing of nothing would be no reason to look it up.
        service.publish(9)
        await rig.scan()
        if rig.event_keys and anyio.current_time() > 2 * HOUR:
            break
    assert [event for event in rig.event_keys if event[1] == 1] == [("new", 1)]


async def test_request_that_the_next_scan_after_a_deep_one_lacks_is_withdrawn_within_two_scans(store: Store) -> None:
    service = Service()
    service.publish(9)
    rig = await live(service, store, interval=300.0)
    await rig.scan_for(HOUR / 2)
    service.publish(1)
    while not rig.event_keys or service.windows[-1] < 1800:
        service.publish(1, notes=f"changed at {anyio.current_time()}")
        await rig.scan()
    service.withdraw(1)
    service.publish(9)
    await rig.scan(3)
    assert rig.event_keys[-1] == ("withdrawn", 1)


async def test_a_bare_404_counts_only_once_it_was_repeated_several_times(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(1)
    await rig.scan()
    book = service.requests.pop(1)
    service.lookup_faults = [BARE, BARE]
    with anyio.fail_after(2 * HOUR):
        while len(service.lookups) < 2:
            await rig.scan()
    service.requests[1] = book
    await rig.scan_for(2 * HOUR)
    assert rig.event_keys == [("new", 1)]


class Bare(Service):
    """Service that answers look-ups of unknown requests with a bare 404."""

    async def find(self, index: int) -> RateRequest | None:
        found = await Service.find(self, index)
        if found is None:
            raise BARE
        return found


async def test_a_service_that_answers_look_ups_with_a_bare_404_has_withdrawals_too(store: Store) -> None:
    service = Bare()
    rig = await live(service, store)
    service.publish(1, 2)
    await rig.scan()
    service.withdraw(1)
    await rig.scan_for(2 * HOUR)
    assert rig.event_keys == [("new", 1), ("new", 2), ("withdrawn", 1)] or rig.event_keys == [
        ("new", 2),
        ("new", 1),
        ("withdrawn", 1),
    ]
    assert Counter(service.lookups)[1] == 3


async def test_wall_clock_that_is_set_back_does_not_turn_time_back(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    rig.clock.wall -= HOUR
    happened = datetime.fromtimestamp(rig.clock.read().wall, UTC)
    service.publish(1)
    await rig.scan()
    (event,) = rig.events
    assert isinstance(event, RequestEvent)
    earliest, latest = event.observed_between
    assert earliest is not None
    assert earliest <= happened <= latest


async def test_another_version_that_writes_other_digests_reports_nothing_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(*range(30))
    await rig.scan()
    assert len(rig.events) == 30
    monkeypatch.setattr("freight_exchange.feed.core.changes.page_states.digest", lambda request: digest(request)[::-1])
    next_one = rig.restart()
    await next_one.scan(3)
    assert len(next_one.events) == 30
    service.publish(3, notes="changed")
    await next_one.scan()
    assert next_one.event_keys[30:] == [("updated", 3)]


async def test_requests_that_vanish_steadily_do_not_make_every_scan_a_deep_one(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    began, count = anyio.current_time(), 0
    while anyio.current_time() < began + 6 * HOUR:
        count += 1
        service.publish(count)
        if count > 3:
            service.withdraw(count - 3)
        await rig.scan_for(30.0)
    tiers = Counter(reported.tier for reported in rig.reported if isinstance(reported, Scan))
    assert tiers["narrow"] > 0.75 * tiers.total()
    assert Counter(rig.event_keys)["withdrawn", 1] == 1
    reported = Counter(kind for kind, _ in rig.event_keys)
    assert reported["withdrawn"] > 0.9 * reported["new"]


async def test_a_service_that_ignores_the_offset_is_reported_in_the_status(store: Store) -> None:
    class Stuck(Service):
        async def page(self, number: int, rows: int, window: int):  # type: ignore[no-untyped-def]  # as the rig's
            return await super().page(0, rows, window)

    service = Stuck(clamp=20)
    rig = await live(service, store)
    assert not rig.poller.progress.offset_ignored
    service.publish(*range(50))
    await rig.scan(2)
    assert rig.poller.progress.offset_ignored
    await rig.scan_for(2 * HOUR)
    # A request outside its one page is not absent, and is not looked up again and again.
    assert (len(rig.event_keys), len(service.lookups)) == (20, 0)
    service.publish(*range(100, 103))
    await rig.scan_for(1 * HOUR)
    assert (len(rig.event_keys), len(service.lookups)) == (23, 0)
    service.publish(*range(103, 120))
    await rig.scan_for(1 * HOUR)
    assert (len(rig.event_keys), len(service.lookups)) == (40, 0)
    service.clamp = 10_000
    await rig.scan_for(2 * HOUR)
    assert len(rig.event_keys) == 70


async def test_reader_who_leaves_in_the_middle_widens_the_next_scans_only_briefly(store: Store) -> None:
    service = Service(clamp=20, latency=1.0)
    rig = await live(service, store)
    service.publish(*range(40))
    with anyio.move_on_after(31):
        await rig.poller.scan()
    assert rig.poller._queue.narrow is not None
    await anyio.sleep(25 * 60)
    await rig.scan(3)
    service.pages.clear()
    await rig.scan(5)
    assert min(service.windows) < 400


async def before(rig: Rig, tier: str) -> None:
    """Scan until the next scan has this depth."""
    while True:
        await anyio.sleep(max(0.0, rig.poller._pacer.due - anyio.current_time()))
        depth = rig.poller._queue._planner.next_plan(
            rig.journal.state, rig.clock.read(), unconfirmed_since=None, deep=True
        )
        if depth.tier.name == tier:
            return
        await rig.scan()


async def test_updates_that_only_a_deep_scan_sees_are_not_a_schema_change(store: Store) -> None:
    """Its requests gained a field by their shippers, as a concurrent narrow scan shows."""
    service = Service()
    rig = await live(service, store)
    service.publish(*range(1, 8))
    await rig.scan_for(400)
    await before(rig, "half an hour")
    for index in range(1, 8):
        service.publish(index, notes=f"pick up at gate {index}")
    await rig.scan_for(1 * HOUR)
    assert Counter(kind for kind, _ in rig.event_keys) == {"new": 7, "updated": 7}
    assert len(rig.events) == 14


async def test_narrow_scan_of_several_pages_that_ends_with_an_error_reports_too(store: Store) -> None:
    """The service may not have such a page, or be unavailable for a moment."""

    class Ending(Service):
        async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
            page = await super().page(number, rows, window)
            if number and not page.records:
                raise BARE
            return page

    service = Ending(clamp=3)
    rig = await live(service, store)
    service.publish(1, 2, 3, 4, 5, 6)
    await rig.scan_for(400)
    await before(rig, "half an hour")
    for index in range(1, 7):
        service.publish(index, notes=f"pick up at gate {index}")
    scans = len(rig.reported)
    service.faults = [None, ServerError("down", status=503)]
    await rig.scan_for(60)
    assert {hook.complete for hook in rig.reported[scans:] if isinstance(hook, Scan)} == {True}
    assert Counter(kind for kind, _ in rig.event_keys) == {"new": 6, "updated": 6}
    assert len(rig.events) == 12


async def test_after_a_schema_change_an_update_of_that_field_alone_is_reported(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(*range(1, 11))
    await rig.scan_for(400)
    await before(rig, "half an hour")
    # No shipper has updated any of them: the service differs.
    for index in range(1, 10):
        service.requests[index].record = attrs.evolve(service.requests[index].record, notes="none")
    await rig.scan()
    assert [event.kind for event in rig.events[10:]] == ["schema_changed"]
    await before(rig, "half an hour")
    service.publish(10, notes="dangerous")
    await rig.scan_for(1 * HOUR)
    assert rig.event_keys[10:] == [("updated", 10)]


async def test_bounds_of_an_event_include_the_time_that_a_machine_was_suspended(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    await rig.scan(3)
    # Its own clocks stood still for a day; somebody's update came in the middle of it.
    happened = datetime.fromtimestamp(rig.clock.read().wall + 43_200, UTC)
    rig.clock.wall += 86_400
    service.publish(1)
    await rig.scan()
    (event,) = rig.events
    assert isinstance(event, RequestEvent)
    earliest, latest = event.observed_between
    assert earliest is not None
    assert earliest < happened < latest


async def test_suspended_machine_withdraws_no_request_outside_of_the_window(store: Store) -> None:
    """Its clocks do not show that the last update is six days old, and outside of the service's window."""

    class Narrowing(Service):
        async def find(self, index: int) -> RateRequest | None:
            found = await super().find(index)
            return found if found is not None and self.requests[index].updated >= self.now() - 5 * DAY else None

    service = Narrowing()
    rig = Rig(service, store=store, interval=300.0)
    await rig.prime()
    await rig.scan()
    service.publish(1)
    await rig.scan_for(3.5 * DAY)
    service.asleep += 2 * DAY
    rig.clock.wall += 2 * DAY
    await rig.scan_for(1.2 * DAY)
    assert rig.event_keys == [("new", 1)]
    # What is published afterwards is soon known again to be gone.
    service.publish(2)
    await rig.scan_for(4 * HOUR)
    service.withdraw(2)
    await rig.scan_for(12 * HOUR)
    assert rig.event_keys == [("new", 1), ("new", 2), ("withdrawn", 2)]


class _LeftError(BaseException):
    """Stands for a native cancellation, which ends the waiting task after the thread has written to the store."""


async def test_a_scan_whose_reader_left_during_its_last_commit_counts_once(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(1)
    await rig.scan()
    service.withdraw(1)
    await before(rig, "half an hour")
    run = rig.journal._run

    async def torn(work: Callable[[], Any]) -> Any:
        rig.journal._run = run
        await run(work)
        raise _LeftError

    rig.journal._run = torn
    with pytest.raises(_LeftError):
        await rig.scan()
    assert rig.seen(1).missed_scans == 1
    pages = len(service.pages)
    await rig.scan()
    assert rig.seen(1).missed_scans == 1
    assert len(service.pages) == pages
    assert rig.event_keys == [("new", 1)]


async def test_request_that_a_shipper_completes_within_one_poll_is_updated(store: Store) -> None:
    service = Service()
    service.publish(*range(100, 150), incoterm="CIF")
    rig = await live(service, store)
    service.publish(1, 2, 3)
    await rig.scan()
    for index, incoterm in ((1, "FOB"), (2, "EXW"), (3, "CIF")):
        service.publish(index, incoterm=incoterm)
    await rig.scan_for(1 * HOUR)
    assert Counter(rig.event_keys) == Counter((kind, index) for kind in ("new", "updated") for index in (1, 2, 3))


async def test_a_timer_that_fires_early_makes_no_second_scan(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = anyio.sleep

    async def early(seconds: float) -> None:
        await sleep(max(0.0, seconds - 0.004) if seconds > 0.01 else seconds)

    service = Service(latency=0.0001)
    rig = await live(service, store)
    monkeypatch.setattr(anyio, "sleep", early)
    await rig.scan_for(1 * HOUR)
    assert len(service.windows) <= 3600 / 27 + 2
