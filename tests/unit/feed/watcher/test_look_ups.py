"""Tests of look-ups of missing requests: a failing one harms no other request, and none is forgotten."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import anyio
import attrs
import pytest
from tests.unit.feed.rig import HOUR, Rig, Service, live

from freight_exchange.errors import (
    AuthenticationError,
    DecodeError,
    LoginRejectedError,
    NotFoundError,
    RateLimitedError,
)
from freight_exchange.hooks import Degraded, Scan
from freight_exchange.models import RateRequest
from freight_exchange.store import Store
from freight_exchange.wire import Rows

virtual_time = pytest.mark.virtual_time


@attrs.define
class Mute(Service):
    """Service that gives no usable answer about some requests."""

    mute: frozenset[int] = frozenset({1})

    async def find(self, index: int) -> RateRequest | None:
        if index in self.mute:
            self.lookups.append(index)
            await anyio.sleep(self.latency)
            raise DecodeError("no collection", raw={"message": "No records found."})
        return await Service.find(self, index)


async def watching_two(service: Service, store: Store) -> Rig:
    """Return a watcher that has reported request 1, and knows request 9 from before its start."""
    service.publish(9)
    rig = await live(service, store)
    service.publish(1)
    await rig.scan()
    return rig


@virtual_time
async def test_failing_look_up_does_not_delay_or_fail_scans(store: Store) -> None:
    service = Mute()
    rig = await watching_two(service, store)
    service.publish(2)
    await rig.scan()
    rig.reported.clear()
    service.withdraw(1, 2)
    await rig.scan_for(2 * HOUR)
    assert rig.event_keys == [("new", 1), ("new", 2), ("withdrawn", 2)]
    assert rig.poller.progress.phase == "live"
    assert sorted(service.windows)[len(service.windows) // 2] < 100
    assert not [reported for reported in rig.reported if isinstance(reported, Degraded)]
    assert all(reported.complete for reported in rig.reported if isinstance(reported, Scan))
    assert 5 <= service.lookups.count(1) < 100


@attrs.define
class Locked(Service):
    """Service whose logins fail with a 404 of a gateway."""

    async def find(self, index: int) -> RateRequest | None:
        self.lookups.append(index)
        raise NotFoundError("the service has nothing there", status=404, path="login")


@virtual_time
async def test_404_to_a_login_proves_no_withdrawal(store: Store) -> None:
    service = Locked()
    rig = await live(service, store)
    service.publish(1)
    await rig.scan()
    service.withdraw(1)
    await rig.scan_for(2 * HOUR)
    assert rig.event_keys == [("new", 1)]
    assert len(service.lookups) > 3


@virtual_time
async def test_withdrawal_is_reported_once_its_look_up_succeeds(store: Store) -> None:
    service = Mute()
    rig = await live(service, store, interval=120.0)
    service.publish(1)
    await rig.scan()
    service.withdraw(1)
    await rig.scan_for(3 * HOUR)
    assert rig.event_keys == [("new", 1)]
    service.mute = frozenset()
    await rig.scan_for(3 * HOUR)
    assert rig.event_keys == [("new", 1), ("withdrawn", 1)]


@virtual_time
async def test_many_look_ups_that_fail_slowly_do_not_hold_up_the_scans(store: Store) -> None:
    service = Mute(latency=20.0, mute=frozenset(range(1, 31)))
    rig = await live(service, store)
    service.publish(*range(1, 121))
    await rig.scan()
    service.withdraw(*range(1, 31))
    times, until = [], anyio.current_time() + HOUR
    while anyio.current_time() < until:
        await rig.scan()
        times.append(anyio.current_time())
    assert max(later - earlier for earlier, later in pairwise(times)) < 200
    assert len(service.lookups) >= 25


@virtual_time
async def test_failing_look_ups_and_scans_send_no_more_than_scans_alone(store: Store) -> None:
    service = Mute(mute=frozenset(range(1, 11)))
    rig = await live(service, store)
    service.publish(*range(1, 31))
    await rig.scan()
    service.withdraw(*range(1, 11))
    service.lookup_faults[:] = [RateLimitedError("slowly", status=429)] * 1000
    service.mute = frozenset()
    service.pages.clear()
    await rig.scan_for(HOUR)
    assert len(service.windows) + len(service.lookups) <= HOUR / 30


@virtual_time
@pytest.mark.parametrize("controls", [0, 1])
async def test_look_up_whose_token_is_refused_delays_the_next_scan(store: Store, controls: int) -> None:
    service = Service()
    rig = await watching_two(service, store)
    service.withdraw(1)
    # A control comes first; the refused token cost three requests, and the scan is the fourth.
    refused = AuthenticationError("no", status=401, attempts=2)
    service.lookup_faults[:] = [*[None] * controls, refused]
    with anyio.fail_after(HOUR):
        while len(service.lookups) <= controls:
            await rig.scan()
    looked_up = anyio.current_time()
    service.pages.clear()
    while not service.pages:
        await rig.scan()
    assert anyio.current_time() - looked_up >= 4 * 30


@virtual_time
async def test_rate_limit_ends_the_look_ups_of_this_scan(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(*range(1, 6))
    await rig.scan()
    service.withdraw(*range(1, 6))
    service.lookup_faults[:] = [RateLimitedError("slowly", status=429, retry_after=30.0)] * 2
    while not service.lookups:
        await rig.scan()
    assert len(service.lookups) == 1
    await rig.scan()
    assert len(service.lookups) == 2
    await rig.scan()
    assert len(rig.event_keys) == 10


@virtual_time
async def test_reader_with_short_timeout_gets_scans_and_later_the_look_up(store: Store) -> None:
    service = Service(latency=0.6)
    rig = await watching_two(service, store)
    service.withdraw(1)
    service.pages.clear()
    until = anyio.current_time() + 1200
    while anyio.current_time() < until:
        with anyio.move_on_after(1.0):
            await rig.poller.scan()
    assert rig.event_keys == [("new", 1), ("withdrawn", 1)]
    assert service.lookups == [9, 9, 1, 1]
    assert len(service.pages) < 90


@virtual_time
async def test_request_that_is_listed_again_is_not_looked_up(store: Store) -> None:
    service = Mute()
    rig = await live(service, store)
    service.publish(1)
    await rig.scan()
    record = service.requests[1].record
    service.withdraw(1)
    while not service.lookups:
        await rig.scan()
    service.publish(1)
    assert service.requests[1].record == record
    await rig.scan_for(HOUR)
    assert service.lookups == [1]
    assert rig.event_keys == [("new", 1)]


@virtual_time
async def test_a_login_rejected_by_a_look_up_ends_the_feed(store: Store) -> None:
    service = Service()
    rig = await watching_two(service, store)
    service.withdraw(1)
    service.lookup_faults[:] = [LoginRejectedError("no", status=401)]
    with pytest.raises(LoginRejectedError):
        await rig.scan_for(HOUR)
    assert rig.poller.progress.phase == "stopped"


@virtual_time
async def test_after_a_deep_scan_that_lacked_something_narrow_ones_stay_narrow(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(*range(1, 301))
    await rig.scan()
    await anyio.sleep(10 * HOUR)
    rig = rig.restart()
    await rig.scan(4)
    service.clamp, service.latency = 3, 1.0
    rig = rig.restart(run="a third")
    service.withdraw(1)
    rig.reported.clear()
    service.pages.clear()
    for index in range(1001, 1016):
        service.publish(index)
        await rig.scan_for(60)
        assert ("new", index) in rig.event_keys
    await rig.scan_for(HOUR)
    assert ("withdrawn", 1) in rig.event_keys
    narrow = [reported.window for reported in rig.reported if isinstance(reported, Scan) and reported.tier == "narrow"]
    assert max(narrow) < 1800
    assert [reported.tier for reported in rig.reported if isinstance(reported, Scan)].count("five days") == 2


@attrs.define
class TwoMachines(Service):
    """Service with two machines that answer in any order; the second one lags by 50 seconds."""

    random: Random = attrs.field(factory=lambda: Random(3))

    def meet_one(self) -> None:
        lag = self.random.choice((0.0, 50.0))
        for listed in self.requests.values():
            listed.visible_from = listed.updated + lag

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        self.meet_one()
        return await Service.page(self, number, rows, window)

    async def find(self, index: int) -> RateRequest | None:
        self.meet_one()
        record = await Service.find(self, index)
        return record if record is not None and self.requests[index].visible_from <= self.now() else None


@virtual_time
async def test_request_that_only_one_of_two_machines_shows_yet_is_not_withdrawn(store: Store) -> None:
    service = TwoMachines()
    rig = await live(service, store, interval=5.0)
    for index in range(1, 201):
        service.publish(index)
        await rig.scan_for(20.0)
    await rig.scan_for(120.0)
    assert sorted(rig.event_keys) == [("new", index) for index in range(1, 201)]
    service.publish(201)
    await rig.scan_for(51.0)
    service.withdraw(201)
    await rig.scan_for(2 * HOUR)
    assert rig.event_keys[-1] == ("withdrawn", 201)


class Empty(Service):
    """Service whose look-ups fail with an empty answer."""

    async def find(self, index: int) -> RateRequest | None:
        self.lookups.append(index)
        return None


@virtual_time
async def test_look_ups_that_find_nothing_that_is_listed_withdraw_nothing(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    service = Empty()
    rig = await live(service, store)
    service.publish(1, 2, 3)
    await rig.scan()
    service.requests[1].visible_from = 1e9
    await rig.scan_for(2 * HOUR)
    assert len(rig.event_keys) == 3
    assert 1 not in service.lookups
    assert len(service.lookups) <= 12
    assert [record.message for record in caplog.records if "look-up" in record.message] == [
        "the look-up of request 3 found nothing although it is listed; nothing counts as withdrawn until a look-up"
        " works"
    ]


@virtual_time
async def test_withdrawal_is_reported_once_look_ups_find_listed_requests(store: Store) -> None:
    service = Mute(mute=frozenset({1, 2, 3}))
    rig = await live(service, store)
    service.publish(1, 2, 3)
    await rig.scan()
    service.withdraw(1)
    await rig.scan_for(HOUR)
    assert {*service.lookups} == {2, 3}
    service.mute = frozenset()
    await rig.scan_for(HOUR)
    assert rig.event_keys[3:] == [("withdrawn", 1)]


@virtual_time
async def test_events_are_delivered_before_missing_requests_are_looked_up(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(1, 2)
    await rig.scan()
    service.withdraw(1)
    while not rig.seen(1).missed_scans:
        await rig.scan()
    service.publish(3)
    await rig.scan()
    assert rig.event_keys[-1] == ("new", 3)
    assert rig.seen(1).missed_scans == 2
    assert not service.lookups
    await rig.scan()
    assert rig.event_keys[-1] == ("withdrawn", 1)


@virtual_time
async def test_withdrawal_is_looked_up_after_the_pause_that_a_failed_page_costs(store: Store) -> None:
    service = Service()
    rig = await live(service, store, interval=600.0)
    service.publish(1, 2)
    await rig.scan()
    service.withdraw(1)
    while not rig.seen(1).missed_scans:
        await rig.scan()
    # Failed pages, which came when they were asked for again, and the turn that pays for them.
    pacer = rig.poller.progress._pacer

    def fail(number: int) -> None:
        pacer.record_failure(anyio.current_time())

    service.on_page = fail
    while rig.seen(1).missed_scans < 2:
        await rig.scan()
    service.on_page = lambda number: None
    pacer.due = pacer.quiet_until + 1800.0
    assert not service.lookups
    await rig.scan()
    assert rig.event_keys[-1] == ("withdrawn", 1)
    assert anyio.current_time() == pytest.approx(pacer.quiet_until)


@virtual_time
async def test_server_that_gives_less_than_it_did_is_found_out_by_a_scan_that_lacks_a_request(store: Store) -> None:
    """A missing request may follow a page that seemed to be the last one, so the next scan reads to an empty page."""
    service = Empty()
    rig = await live(service, store, interval=10.0)
    service.publish(*range(1, 9))
    await rig.scan()
    service.clamp = 7
    service.publish(9)
    await rig.scan_for(300.0)
    assert not [kind for kind, _ in rig.event_keys if kind == "withdrawn"]
    rig.reported.clear()
    service.pages.clear()
    service.publish(*range(11, 31))
    await rig.scan(2)
    assert {index for kind, index in rig.event_keys if kind == "new"} >= {*range(1, 10), *range(11, 31)}
