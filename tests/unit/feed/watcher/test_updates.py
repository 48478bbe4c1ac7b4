"""Tests of shippers' updates that look like a schema change of the service, and of requests that return."""

from __future__ import annotations

import anyio
import attrs
import pytest
from tests.unit.feed.rig import DAY, Rig, Service, live

from freight_exchange.errors import ServerError
from freight_exchange.feed.events import RequestEvent, SchemaChanged
from freight_exchange.models import RateRequest
from freight_exchange.store import Store
from freight_exchange.wire import Rows

pytestmark = pytest.mark.virtual_time


@attrs.define
class Annotating(Service):
    """Service whose shippers add notes to one request after another, every five seconds."""

    annotated: dict[int, str] = attrs.field(factory=dict)

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        while len(self.annotated) < anyio.current_time() // 5:
            self.annotate()
        return await Service.page(self, number, rows, window)

    def annotate(self) -> None:
        count = len(self.annotated)
        index = 1 + count * 37 % (len(self.requests) or 1)
        if index in self.requests and index not in self.annotated:
            self.annotated[index] = f"notes {count}"
            self.requests[index].record = attrs.evolve(self.requests[index].record, notes=f"notes {count}")
            self.touch(index)
        else:
            self.annotated[-count] = ""


@pytest.mark.parametrize("start", ["now", "backfill"])
async def test_update_during_a_long_first_scan_is_never_taken_for_a_schema_change(store: Store, start: str) -> None:
    service = Annotating(clamp=5, latency=0.3)
    service.publish(*range(1, 152), age=DAY)
    rig = Rig(service, store=store, start=start)  # type: ignore[arg-type]  # one of the two words
    await rig.prime()
    known = {index: rig.seen(index).last_seen for index in service.requests}
    await rig.scan_for(400)
    assert not any(isinstance(event, SchemaChanged) for event in rig.events)
    reported = {event.request.index: event.request.notes for event in rig.events if isinstance(event, RequestEvent)}
    later = {
        index: notes
        for index, notes in service.annotated.items()
        if index > 0 and known[index] < service.requests[index].updated < service.now() - 60
    }
    assert len(later) > 10
    assert {index: reported.get(index) for index in later} == later


async def test_withdrawn_request_that_is_listed_again_is_reported_as_returned_and_not_as_new(store: Store) -> None:
    service = Service()
    service.publish(9)
    rig = Rig(service, store=store)
    await rig.prime()
    service.publish(1)
    await rig.scan(2)
    service.withdraw(1)
    await rig.scan_for(600)
    assert rig.event_keys == [("new", 1), ("withdrawn", 1)]
    service.publish(1)
    await rig.scan(2)
    service.publish(1, notes="heavy")
    await rig.scan(2)
    *_, back, changed = (event for event in rig.events if isinstance(event, RequestEvent))
    assert (back.kind, back.returned, back.changed, back.previous) == ("updated", True, (), back.request)
    assert (changed.kind, changed.returned, changed.changed) == ("updated", False, ("notes",))


async def test_recent_updates_that_come_slowly_date_the_requests_that_they_list(store: Store) -> None:
    """They come too slowly to show all updates since, but a window that lists a request still dates its update."""
    service = Service(latency=11.0)
    service.publish(1)
    service.publish(*range(2, 9), age=1000.0)

    def release(number: int) -> None:
        for index in range(2, 9):
            listed = service.requests[index]
            listed.record = attrs.evolve(listed.record, extra={"carbon": 1})

    service.on_page = release
    rig = Rig(service, store=store, start="backfill")
    await rig.prime()
    assert min(service.windows) < 600
    assert [rig.seen(index).updated_after >= -600 for index in (1, 2)] == [True, False]


async def test_page_that_cannot_be_checked_shows_what_is_listed(store: Store) -> None:
    """The page restarts the count: a request that an earlier scan lacked is missing for the first time after it."""
    service = Service()
    service.publish(*range(1, 9))
    rig = await live(service, store)
    service.publish(9)
    await rig.scan()
    hidden = service.requests.pop(9)
    while not rig.seen(9).missed_scans:
        await rig.scan()
    service.requests[9] = hidden
    for listed in service.requests.values():
        listed.record = attrs.evolve(listed.record, extra={"carbon": 1})
    await anyio.sleep(320)
    service.faults[:] = [None, *[ServerError("down", status=503)] * 100]
    await rig.scan()
    assert rig.seen(9).missed_scans == 0
