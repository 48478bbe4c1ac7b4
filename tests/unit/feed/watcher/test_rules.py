"""Tests of the rules of events and memory, with a small service in virtual time."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import attrs
import pytest
from tests.unit.feed.rig import DAY, HOUR, Listed, Rig, Service, live

from freight_exchange import wire
from freight_exchange.errors import BadRequestError, DecodeError, ServerError
from freight_exchange.feed.events import RequestEvent, SchemaChanged, Unreadable
from freight_exchange.store import Store

pytestmark = pytest.mark.virtual_time

DOWN = ServerError("down", status=503)


async def test_rule_7_new_updated_there_and_back(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    for notes in "aba":
        service.publish(1, notes=notes)
        await rig.scan(2)
    service.touch(1)
    await rig.scan(2)
    assert rig.event_keys == [("new", 1), ("updated", 1), ("updated", 1)]


async def test_rule_7_unreadable_record_is_reported_once_and_before_the_watermark_moves(store: Store) -> None:
    service = Service(broken=(DecodeError("bad", raw={"index": 9, "weight": "x"}),))
    rig = Rig(service, store=store)
    await rig.prime()
    await rig.scan(3)
    rig = rig.restart()
    await rig.scan(2)
    (event,) = rig.events
    assert isinstance(event, Unreadable)
    assert event.index == 9


async def test_rule_7_withdrawn_is_looked_up_after_two_scans_have_lacked_it(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(1, 2)
    await rig.scan()
    gone = datetime.fromtimestamp(rig.clock.read().wall, UTC)
    service.withdraw(1)
    await rig.scan_for(1200)
    assert rig.event_keys[2:] == [("withdrawn", 1)]
    # A look-up that finds a listed request comes before one that counts.
    assert service.lookups == [2, 1]
    event = rig.events[-1]
    assert isinstance(event, RequestEvent)
    earliest, latest = event.observed_between
    assert earliest is not None
    assert earliest <= gone <= latest
    assert event.previous == event.request


async def test_rule_7_request_that_left_the_window_is_not_withdrawn(store: Store) -> None:
    """A request can be missing only from a window that provably contains its last update."""
    service = Service()
    rig = await live(service, store, interval=1200.0)
    service.publish(1)
    await rig.scan()
    await rig.scan_for(6 * DAY)
    assert rig.event_keys == [("new", 1)]
    assert not service.lookups


async def test_rule_7_request_that_a_look_up_finds_is_not_withdrawn(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(1)
    await rig.scan()
    service.requests[1].visible_from = 1e9
    await rig.scan_for(2 * HOUR)
    assert rig.event_keys == [("new", 1)]
    assert {*service.lookups} == {1}


async def test_rule_7_one_scan_that_lacks_it_proves_nothing(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(1)
    await rig.scan()
    for _ in range(30):
        if rig.seen(1).missed_scans:
            break
        service.requests[1].visible_from = 1e9
        await rig.scan()
    service.requests[1].visible_from = 0.0
    await rig.scan_for(HOUR)
    assert rig.seen(1).missed_scans == 0
    assert not service.lookups


async def test_rule_7_a_look_up_that_is_refused_is_made_again_later(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    service.publish(1, 2)
    await rig.scan()
    service.withdraw(1)
    while 1 not in service.lookups:
        service.lookup_faults[:] = [None, BadRequestError("no", status=400)]
        await rig.scan()
    assert len(rig.event_keys) == 2
    await rig.scan_for(2 * HOUR)
    assert service.lookups.count(1) == 2
    assert rig.event_keys[-1] == ("withdrawn", 1)


async def test_rule_7_service_that_gives_no_answer_is_not_asked_forever(store: Store) -> None:
    service = Service(lookup_faults=[BadRequestError("no", status=400)] * 1000)
    rig = await live(service, store)
    service.publish(1)
    await rig.scan()
    service.withdraw(1)
    await rig.scan_for(2 * HOUR)
    assert service.lookups == [1] * 5
    assert rig.event_keys == [("new", 1)]


async def test_rule_7_withdrawals_in_great_number_are_all_reported(store: Store) -> None:
    service = Service()
    rig = await live(service, store, interval=1200.0)
    service.publish(*range(1, 41))
    await rig.scan()
    await rig.scan_for(4 * DAY - 2 * HOUR)
    service.withdraw(*range(1, 41))
    await rig.scan_for(DAY)
    assert Counter(rig.event_keys)["withdrawn", 7] == 1
    assert len(rig.event_keys) == 80


async def test_rule_7_a_look_up_that_fails_is_made_again(store: Store) -> None:
    service = Service(lookup_faults=[DOWN, DOWN])
    rig = await live(service, store, interval=1200.0)
    service.publish(1)
    await rig.scan()
    await rig.scan_for(4 * DAY - 2 * HOUR)
    service.withdraw(1)
    await rig.scan_for(6 * HOUR)
    assert rig.event_keys == [("new", 1), ("withdrawn", 1)]


async def test_rule_7_schema_that_changes_back_is_reported_each_time_by_one_event(store: Store) -> None:
    """No shipper has updated any of them, so the service has changed."""
    service = Service(clamp=6)
    rig = await live(service, store)
    service.publish(*range(12))
    for incoterm in (None, "FOB", None, "FOB"):
        for listed in service.requests.values():
            listed.record = attrs.evolve(listed.record, incoterm=incoterm)
        await rig.scan_for(400)
    changes = [event for event in rig.events if isinstance(event, SchemaChanged)]
    assert [(event.added, event.removed) for event in changes] == [
        (("incoterm",), ()),
        ((), ("incoterm",)),
        (("incoterm",), ()),
    ]
    assert {kind for kind, _ in rig.event_keys} == {"new"}


async def test_number_with_very_many_digits_does_not_end_the_feed(store: Store) -> None:
    service = Service()
    rig = await live(service, store)
    record = wire.decode_one(
        wire.parse(b'{"raterequests":[{"index":1,"serial":%b,"y":0e-80}]}' % (b"7" * 100)), wire.REQUESTS
    )
    service.requests[1] = Listed(record, service.now(), service.now())
    await rig.scan()
    assert rig.event_keys == [("new", 1)]


async def test_late_update_happened_within_the_bounds_of_its_event(store: Store) -> None:
    service = Service(late=50.0)
    rig = await live(service, store)
    happened = datetime.fromtimestamp(rig.clock.read().wall, UTC)
    service.publish(1)
    await rig.scan(3)
    (event,) = rig.events
    assert isinstance(event, RequestEvent)
    earliest, latest = event.observed_between
    assert earliest is not None
    assert earliest <= happened <= latest


async def test_rule_8_memory_is_bounded_by_time_and_not_by_number(store: Store) -> None:
    """A limit by number would forget the first of many requests, and report it again as new."""
    service = Service()
    service.publish(*range(3000))
    rig = await live(service, store, start="backfill")
    assert len(rig.event_keys) == 3000
    rig = rig.restart()
    await rig.scan(2)
    assert len(rig.event_keys) == 3000
    service.publish(0, 2999, notes="moved")
    await rig.scan()
    assert sorted(rig.event_keys[3000:]) == [("updated", 0), ("updated", 2999)]


async def test_rule_8_after_six_days_a_tombstone_is_left(store: Store) -> None:
    service = Service()
    rig = await live(service, store, interval=1200.0)
    service.publish(1, notes="a")
    await rig.scan()
    await rig.scan_for(5.9 * DAY)
    assert rig.seen(1).record is not None
    await rig.scan_for(6 * DAY)
    assert rig.seen(1).record is None
    service.touch(1)
    await rig.scan(2)
    assert rig.event_keys == [("new", 1)]
    service.publish(1, notes="b")
    await rig.scan(2)
    assert rig.event_keys == [("new", 1), ("updated", 1)]


async def test_rule_8_runs_of_less_than_an_hour_forget_too(store: Store) -> None:
    service = Service()
    rig = await live(service, store, interval=1500.0)
    service.publish(1)
    await rig.scan()
    for run in range(12 * 24):
        rig = rig.restart(run=f"run {run}")
        await rig.scan_for(3000)
    assert rig.seen(1).record is None


async def test_no_event_repeats_after_failures(store: Store) -> None:
    service = Service(clamp=3)
    rig = await live(service, store)
    for round in range(30):
        service.publish(*range(round, round + 4), notes=str(round))
        service.faults[:] = [None, DOWN, DOWN, DOWN][: round % 5]
        await rig.scan(2)
        if round % 7 == 0:
            rig = rig.restart(run=str(round))
    await rig.scan_until_well()
    states = [(event.request.index, event.request.notes) for event in rig.events if isinstance(event, RequestEvent)]
    assert len(states) == len(set(states))
    assert dict(states) == {index: service.requests[index].record.notes for index in service.requests}
