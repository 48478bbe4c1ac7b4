"""Requests that look-ups find and scans do not list."""

from __future__ import annotations

import attrs
import pytest
from tests.unit.feed.rig import DAY, HOUR, Rig, Service

from freight_exchange.models import RateRequest
from freight_exchange.store import Store
from freight_exchange.wire import Rows

pytestmark = pytest.mark.virtual_time


@attrs.define
class Frozen(Service):
    """Service that stops listing some requests, and still finds all."""

    unlisted: frozenset[int] = frozenset()

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        page = await Service.page(self, number, rows, window)
        return Rows(tuple(record for record in page.records if record.index not in self.unlisted), page.broken)


async def live(store: Store, interval: float = 120.0) -> tuple[Frozen, Rig]:
    service = Frozen()
    rig = Rig(service, store=store, interval=interval)
    await rig.prime()
    service.publish(1, 2)
    await rig.scan(2)
    return service, rig


async def test_request_withdrawn_while_unlisted_is_reported_as_withdrawn(store: Store) -> None:
    service, rig = await live(store)
    service.unlisted = frozenset({1})
    await rig.scan_for(HOUR / 2)
    assert service.lookups == [2, 1]
    service.withdraw(1)
    await rig.scan_for(3 * HOUR)
    assert sorted(rig.event_keys) == [("new", 1), ("new", 2), ("withdrawn", 1)]


async def test_request_that_stays_unlisted_is_looked_up_rarely_and_never_withdrawn(store: Store) -> None:
    service, rig = await live(store, interval=900.0)
    service.unlisted = frozenset({1})
    await rig.scan_for(DAY / 2)
    assert 3 <= service.lookups.count(1) <= 8
    await rig.scan_for(6 * DAY)
    assert service.lookups.count(1) <= 12
    assert len(service.lookups) == 2 * service.lookups.count(1)
    assert sorted(rig.event_keys) == [("new", 1), ("new", 2)]


@attrs.define
class WholeHours(Service):
    """Service that counts windows in whole hours, rounded down, so that only deep scans list requests."""

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        return await Service.page(self, number, rows, int(window // HOUR * HOUR))


async def test_request_that_only_six_hour_scans_list_is_reported_as_withdrawn(store: Store) -> None:
    """Half-hour scans lack it, so they do not prove when it was updated."""
    rig = Rig(service := WholeHours(), store=store, interval=300.0)
    await rig.prime()
    service.publish(1)
    await rig.scan_for(2.5 * HOUR)
    service.publish(2)
    service.withdraw(1)
    await rig.scan_for(3 * HOUR)
    assert rig.event_keys == [("new", 1), ("new", 2), ("withdrawn", 1)]
