"""Tests of fields that come and go between replies: two releases of the service behind one address."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest
from tests.unit.feed.rig import HOUR, Rig, Service

from freight_exchange.feed.events import RequestEvent, SchemaChanged
from freight_exchange.models import RateRequest
from freight_exchange.store import Store
from freight_exchange.wire import Rows

pytestmark = pytest.mark.virtual_time


@attrs.define
class TwoReleases(Service):
    """Service in which every other page, or a random share, comes from a release that sends other fields."""

    older: dict[str, Any] = attrs.field(factory=dict)
    chance: Random | None = None
    replies: int = 0

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        page = await Service.page(self, number, rows, window)
        self.replies += 1
        if self.replies % 2 if self.chance is None else self.chance.random() < 0.5:
            return page
        return Rows(tuple(attrs.evolve(record, **self.older) for record in page.records), page.broken)


async def live(store: Store, count: int, **older: Any) -> tuple[TwoReleases, Rig]:
    service = TwoReleases(older=older)
    rig = Rig(service, store=store, interval=300.0)
    await rig.prime()
    service.publish(*range(1, count + 1), incoterm="FOB", extra={"carbon": 12})
    await rig.scan(2)
    return service, rig


async def touched_for_two_hours(service: TwoReleases, rig: Rig) -> None:
    for _ in range(24):
        await rig.scan_for(HOUR / 12)
        for index in service.requests:
            service.touch(index)


def updates(rig: Rig) -> list[RequestEvent]:
    return [event for event in rig.events if isinstance(event, RequestEvent) and event.kind == "updated"]


@pytest.mark.parametrize("older", [{"extra": {}}, {"incoterm": None}])
@pytest.mark.parametrize("count", [1, 10])
async def test_field_that_comes_and_goes_is_reported_a_few_times_only(
    store: Store, count: int, older: dict[str, Any]
) -> None:
    service, rig = await live(store, count, **older)
    await touched_for_two_hours(service, rig)
    assert len(updates(rig)) <= 4 * count
    assert len([event for event in rig.events if isinstance(event, SchemaChanged)]) <= 4


@pytest.mark.parametrize("seed", [0, 3, 4, 7])
async def test_releases_that_take_turns_on_requests_that_come_and_go_are_reported_a_few_times(
    store: Store, seed: int
) -> None:
    """No request is listed for long enough to make its own field count as unsteady."""
    service = TwoReleases(older={"extra": {}}, chance=Random(seed))
    rig = Rig(service, store=store, interval=600.0)
    await rig.prime()
    for turn in range(24):
        service.publish(*range(4 * turn, 4 * turn + 4), incoterm="FOB", extra={"carbon": 12})
        await rig.scan()
    assert len([event for event in rig.events if isinstance(event, SchemaChanged)]) <= 5


async def test_other_updates_of_such_a_request_are_reported(store: Store) -> None:
    service, rig = await live(store, 1, extra={})
    await touched_for_two_hours(service, rig)
    so_far = len(updates(rig))
    service.publish(1, incoterm="FOB", extra={"carbon": 13})
    await touched_for_two_hours(service, rig)
    service.publish(1, incoterm="FOB", origin="Rotterdam", extra={"carbon": 13})
    await touched_for_two_hours(service, rig)
    assert [event.changed for event in updates(rig)[so_far:]] == [("carbon",), ("origin",)]
