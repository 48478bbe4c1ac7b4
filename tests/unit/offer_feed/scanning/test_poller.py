"""Tests of scans of the feed of offers: events, and the proof that an offer is gone."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.offer_feed.rig import OfferRig, OfferService, rig_with

from freight_exchange.errors import (
    BadRequestError,
    LoginRejectedError,
    ServerError,
)
from freight_exchange.feed.core.watermark import MIN_RETENTION
from freight_exchange.hooks import Degraded, Recovered, Scan
from freight_exchange.models import UnknownWord
from freight_exchange.offer_feed.events import OfferEvent
from freight_exchange.offer_feed.scanning.journal import OfferJournal

pytestmark = pytest.mark.virtual_time

HOUR = 3600.0


async def test_pending_offers_of_the_first_scan_are_new() -> None:
    service = OfferService()
    service.publish(1, 2)
    service.offer(1, 11)
    service.offer(2, 21)
    service.approve(2, 21)
    rig = await rig_with(service=service)
    assert rig.event_keys == [("new", 1, 11)]


async def test_silent_first_scan_reports_later_offers_only() -> None:
    rig = await rig_with((1, 11), is_silent=True)
    rig.service.offer(1, 12)
    await rig.scan()
    assert rig.event_keys == [("new", 1, 12)]


async def test_each_offer_is_reported_once_over_restarts() -> None:
    rig = await rig_with((1, 11))
    await rig.scan(2)
    rig = await rig.restart()
    rig.service.offer(1, 12)
    await rig.scan(2)
    assert rig.event_keys == [("new", 1, 11), ("new", 1, 12)]


async def test_clock_of_the_feed_goes_on_steadily_after_a_restart_of_the_machine() -> None:
    rig = await rig_with((1, 11))
    start = attrs.evolve(rig.clock.read(), run="next run", boot_id="next start")
    rig.feed_store.release()
    rig = OfferRig(rig.service, store=rig.store)
    journal = OfferJournal(rig.feed_store, rig.journal._run, is_silent=False, now=start, retention=MIN_RETENTION)
    watermark = journal.state.watermark
    assert watermark.time_at(attrs.evolve(start, loop=start.loop + 30, wall=start.wall - 7200)) < HOUR


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        ({"amount": 99}, ("amount",)),
        ({"currency": 2}, ("currency",)),
        ({"terms": "ten days"}, ("terms",)),
        ({"rates": {"Ocean": Decimal(90)}}, ("rates",)),
        ({"status": UnknownWord("under review")}, ("status",)),
    ],
)
async def test_changed_names_the_fields(fields: dict[str, Any], changed: tuple[str, ...]) -> None:
    rig = await rig_with((1, 11))
    rig.service.offer(1, 11, **fields)
    await rig.scan()
    (_, event) = rig.events
    assert isinstance(event, OfferEvent)
    assert (event.kind, event.changed) == ("changed", changed)
    assert event.previous is not None
    assert event.previous.amount == 100


async def test_change_and_back_are_two_events() -> None:
    rig = await rig_with((1, 11))
    for amount in (90, 100):
        rig.service.offer(1, 11, amount)
        await rig.scan()
    assert [kind for kind, *_ in rig.event_keys] == ["new", "changed", "changed"]


@pytest.mark.parametrize(("name", "empty"), [("terms", ""), ("rates", {})])
async def test_empty_terms_and_rates_equal_missing_ones(name: str, empty: Any) -> None:
    rig = await rig_with((1, 11))
    rig.service.offer(1, 11, **{name: empty})
    await rig.scan()
    rig.service.offer(1, 11)
    await rig.scan()
    assert rig.event_keys == [("new", 1, 11)]


async def test_undocumented_fields_are_not_a_change() -> None:
    rig = await rig_with((1, 11))
    rig.service.offer(1, 11, extra={"views": 3})
    await rig.scan()
    assert rig.event_keys == [("new", 1, 11)]


async def test_approval_is_answered_and_its_rivals_are_not_gone() -> None:
    rig = await rig_with((1, 11), (1, 12))
    rig.service.approve(1, 12)
    await rig.scan(5)
    assert rig.event_keys[2:] == [("answered", 1, 12)]
    event = rig.events[-1]
    assert isinstance(event, OfferEvent)
    assert (event.answer, event.changed) == ("approved", ("status",))
    assert rig.service.lookups == []


async def test_declined_status_is_answered() -> None:
    rig = await rig_with((1, 11))
    rig.service.offer(1, 11, status=UnknownWord("Declined"))
    await rig.scan()
    event = rig.events[-1]
    assert isinstance(event, OfferEvent)
    assert (event.kind, event.answer) == ("answered", "declined")


async def test_failed_page_proves_no_absence() -> None:
    service = OfferService(clamp=2)
    rig = await rig_with(*((request, 10 * request) for request in range(1, 6)), service=service)
    rig.service.requests[5][50] = rig.service.requests[5].pop(50)
    before = len(rig.event_keys)
    for _ in range(3):
        rig.service.faults += [None, ServerError("down", status=503), ServerError("down", status=503)]
        await rig.scan()
        rig.service.faults.clear()
    assert len(rig.event_keys) == before


async def test_scan_of_one_page_is_one_request_and_writes_no_request() -> None:
    rig = await rig_with(*((request, 10 * request) for request in range(1, 11)))
    # The service does not cut a page that is shorter than an earlier one.
    rig.service.publish(11)
    await rig.scan()
    del rig.service.requests[11]
    # If a scan lacks a request, one sweep looks for it after hidden pages.
    await rig.scan()
    pages = len(rig.service.pages)
    rows = dict(rig.journal._rows)
    await rig.scan(5)
    assert len(rig.service.pages) == pages + 5
    assert rig.journal._rows == rows


async def test_scan_of_several_pages_asks_for_each_once() -> None:
    service = OfferService(clamp=4)
    rig = await rig_with(*((request, 10 * request) for request in range(1, 11)), service=service)
    await rig.scan()
    pages = len(rig.service.pages)
    await rig.scan(3)
    assert len(rig.service.pages) == pages + 3 * 3


async def test_offers_behind_pages_of_hidden_rows_are_found_in_each_scan() -> None:
    service = OfferService(clamp=4, shadows=9)
    rig = await rig_with((1, 11), (2, 21), service=service)
    assert rig.event_keys == [("new", 2, 21), ("new", 1, 11)]
    service.offer(1, 12)
    await rig.scan()
    assert rig.event_keys[2:] == [("new", 1, 12)]
    del service.requests[1][11]
    await rig.scan(2)
    assert rig.event_keys[3:] == [("gone", 1, 11)]
    assert service.lookups == [1]


async def test_offers_behind_rows_that_are_newly_hidden_are_looked_for() -> None:
    service = OfferService(clamp=4)
    rig = await rig_with((1, 11), (2, 21), service=service)
    service.shadows = 9
    service.offer(1, 12)
    await rig.scan()
    assert rig.event_keys[2:] == [("new", 1, 12)]


async def test_request_behind_hidden_rows_at_the_end_is_found_within_an_hour() -> None:
    service = OfferService(clamp=4)
    rig = await rig_with((2, 21), service=service)
    service.shadows = 9
    service.publish(1)
    service.offer(1, 11)
    await rig.scan()
    assert rig.event_keys[1:] == []
    await rig.scan(140)
    assert rig.event_keys[1:] == [("new", 1, 11)]


async def test_failed_sweep_proves_nothing_and_is_repeated() -> None:
    rig = await rig_with((1, 11), (2, 21))
    del rig.service.requests[1]
    for _ in range(4):
        # The page of the scan comes, and all pages of the sweep fail.
        rig.service.faults = [None, *[ServerError("down", status=503) for _ in range(9)]]
        await rig.scan()
    rig.service.faults = []
    assert (rig.event_keys[2:], rig.service.lookups) == ([], [])
    await rig.scan(2)
    assert rig.event_keys[2:] == [("gone", 1, 11)]


async def test_rejected_login_ends_the_feed() -> None:
    rig = await rig_with((1, 11))
    rig.service.faults = [LoginRejectedError("no", status=401)]
    with pytest.raises(LoginRejectedError):
        await rig.scan()
    assert rig.poller.phase == "stopped"


async def test_refusal_before_the_first_scan_is_raised() -> None:
    service = OfferService(faults=[BadRequestError("no", status=400) for _ in range(9)])
    with pytest.raises(BadRequestError):
        await OfferRig(service).start()


async def test_failure_is_reported_once_and_scans_go_on() -> None:
    rig = await rig_with((1, 11))
    rig.service.faults = [ServerError("down", status=503) for _ in range(6)]
    rig.service.offer(1, 12)
    while rig.service.faults:
        await rig.scan()
    await rig.scan()
    kinds = [type(reported) for reported in rig.reported if not isinstance(reported, Scan)]
    assert kinds == [Degraded, Recovered]
    assert rig.event_keys == [("new", 1, 11), ("new", 1, 12)]


async def test_failing_first_scan_is_backing_off() -> None:
    """A replica of a fleet then hands over its scans."""
    service = OfferService()
    service.publish(1)
    service.faults = [ServerError("down", status=503) for _ in range(6)]
    rig, phases = OfferRig(service), list[str]()
    while not rig.journal.state.is_primed:
        await rig.poller.scan()
        phases.append(rig.poller.phase)
    assert {*phases[:-1]} == {"backing-off"}
    assert phases[-1] == "live"


async def test_listed_requests_outlive_pruning_and_finished_events_do_not() -> None:
    rig = await rig_with((1, 11))
    until = anyio.current_time() + 10 * 86_400
    rig.feed_store.acknowledge([stored.id for stored in rig.feed_store.pending()], at=0.0)
    while anyio.current_time() < until:
        await anyio.sleep(HOUR)
        await rig.scan()
    rig = await rig.restart()
    await rig.scan()
    assert rig.event_keys == []
    assert rig.feed_store.history(1)[1] == []


async def test_request_without_offers_for_days_is_dropped() -> None:
    rig = await rig_with((1, 11), (2, 21))
    rig.service.publish(3, 4)
    await rig.scan()
    del rig.service.requests[1], rig.service.requests[3]
    until = anyio.current_time() + 8 * 86_400
    while anyio.current_time() < until:
        await anyio.sleep(HOUR)
        await rig.scan()
    assert rig.journal.known.keys() == {2, 4}
    # A dropped request is recorded again, without an event.
    count = len(rig.event_keys)
    rig.service.offer(4, 41)
    await rig.scan()
    assert rig.event_keys[count:] == [("new", 4, 41)]
