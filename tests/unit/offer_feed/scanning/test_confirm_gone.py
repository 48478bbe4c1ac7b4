"""Tests of the proof that an offer is gone: two scans that lack it, and a look-up that can be trusted."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import attrs
import pytest
from tests.unit.offer_feed.rig import rig_with

from freight_exchange.errors import NotFoundError, ServerError
from freight_exchange.hooks import Degraded, Recovered
from freight_exchange.models import Listing
from freight_exchange.offer_feed.events import OfferEvent

pytestmark = pytest.mark.virtual_time

HOUR = 3600.0


async def test_offer_is_gone_after_two_scans_and_a_look_up() -> None:
    rig = await rig_with((1, 11), (1, 12))
    del rig.service.requests[1][11]
    await rig.scan()
    assert [kind for kind, *_ in rig.event_keys] == ["new", "new"]
    await rig.scan()
    assert rig.event_keys[2:] == [("gone", 1, 11)]
    assert rig.service.lookups == [1]
    await rig.scan(3)
    assert rig.service.lookups == [1]


async def test_request_that_is_gone_takes_its_offers_along() -> None:
    rig = await rig_with((1, 11), (2, 21))
    del rig.service.requests[1]
    await rig.scan(2)
    assert rig.event_keys[2:] == [("gone", 1, 11)]


async def test_request_that_only_listings_lack_is_not_gone() -> None:
    rig = await rig_with((1, 11), (2, 21))
    rig.service.hidden.add(1)
    await rig.scan(6)
    assert [kind for kind, *_ in rig.event_keys] == ["new", "new"]
    assert rig.service.lookups == [1, 1, 1]


async def test_offer_that_returns_is_changed_and_reports_it() -> None:
    rig = await rig_with((1, 11), (1, 12))
    kept = rig.service.requests[1].pop(11)
    await rig.scan(2)
    rig.service.requests[1][11] = kept
    await rig.scan()
    event = rig.events[-1]
    assert isinstance(event, OfferEvent)
    assert (event.kind, event.returned, event.changed) == ("changed", True, ())


async def test_failed_look_up_is_repeated_after_the_next_scan() -> None:
    rig = await rig_with((1, 11), (1, 12))
    del rig.service.requests[1][11]
    rig.service.lookup_faults = [ServerError("down", status=503)]
    await rig.scan(2)
    assert [kind for kind, *_ in rig.event_keys] == ["new", "new"]
    await rig.scan()
    assert rig.event_keys[2:] == [("gone", 1, 11)]


async def test_bare_404_denies_a_request_the_third_time() -> None:
    rig = await rig_with((1, 11), (2, 21))
    del rig.service.requests[1]
    rig.service.lookup_faults = [NotFoundError("no", status=404) for _ in range(3)]
    await rig.scan(3)
    assert [kind for kind, *_ in rig.event_keys] == ["new", "new"]
    await rig.scan()
    assert rig.event_keys[2:] == [("gone", 1, 11)]


async def test_empty_listing_counts_as_a_failure_first_and_counts_after_an_hour() -> None:
    rig = await rig_with((1, 11))
    kept = dict(rig.service.requests)
    rig.service.requests.clear()
    began = anyio.current_time()
    await rig.scan(3)
    assert [type(reported) for reported in rig.reported if isinstance(reported, Degraded | Recovered)] == [Degraded]
    assert [kind for kind, *_ in rig.event_keys] == ["new"]
    rig.service.requests.update(kept)
    await rig.scan()
    assert isinstance(rig.reported[-1], Recovered)
    rig.service.requests.clear()
    while anyio.current_time() < began + 2 * HOUR:
        await rig.scan()
    assert [kind for kind, *_ in rig.event_keys] == ["new", "gone"]


async def test_many_absent_offers_count_as_a_failure_first() -> None:
    rig = await rig_with(*((request, 10 * request) for request in range(1, 7)))
    for request in range(1, 4):
        rig.service.requests[request].clear()
    await rig.scan(3)
    assert {kind for kind, *_ in rig.event_keys} == {"new"}
    assert rig.poller.phase == "backing-off"


async def test_listing_of_nothing_after_a_doubt_that_has_lasted_counts_as_a_failure_first_again() -> None:
    rig = await rig_with(*((request, 10 * request) for request in range(1, 7)))
    # Look-ups find what listings lack: the doubt lasts, and proves nothing.
    rig.service.hidden = {1, 2, 3, 4}
    began = anyio.current_time()
    while anyio.current_time() < began + 1.2 * HOUR:
        await rig.scan()
    reported = rig.event_keys
    rig.service.requests.clear()
    began = anyio.current_time()
    while anyio.current_time() < began + 0.5 * HOUR:
        await rig.scan()
    assert ("gone", 5, 50) not in rig.event_keys[len(reported) :]
    assert rig.poller.phase == "backing-off"
    while anyio.current_time() < began + 2 * HOUR:
        await rig.scan()
    assert {("gone", request, 10 * request) for request in range(1, 7)} <= set(rig.event_keys)


@pytest.mark.parametrize(
    "view", [lambda listing: None, lambda listing: attrs.evolve(listing, offers=())], ids=["nothing", "no offers"]
)
async def test_look_ups_that_find_no_offer_at_all_prove_nothing(
    view: Callable[[Listing], Listing | None], caplog: pytest.LogCaptureFixture
) -> None:
    rig = await rig_with((1, 11), (2, 21))
    rig.service.view = view
    rig.service.hidden.add(1)
    await rig.scan(10)
    assert [kind for kind, *_ in rig.event_keys] == ["new", "new"]
    # The request, and one with a listed offer, after three scans; then no more for ten minutes.
    assert rig.service.lookups == [1, 2] * 3
    assert [record.message.partition(";")[0] for record in caplog.records] == [
        "the look-up of request 2 found no offers although some are listed"
    ]
    rig.service.view = lambda listing: listing
    del rig.service.requests[1]
    await rig.scan(30)
    assert rig.event_keys[2:] == [("gone", 1, 11)]


@pytest.mark.parametrize("failing", [1, 2, 3, 4])
async def test_look_up_that_always_fails_holds_up_no_other(failing: int) -> None:
    rig = await rig_with(*((request, 10 * request + place) for request in range(1, 9) for place in (1, 2)))
    for request in (1, 2, 3, 4):
        del rig.service.requests[request][10 * request + 1]
    rig.service.unfindable = {failing}
    await rig.scan(6)
    gone = {request for kind, request, _ in rig.event_keys if kind == "gone"}
    assert gone == {1, 2, 3, 4} - {failing}


async def test_offer_on_a_request_that_cannot_be_looked_up_is_never_gone() -> None:
    rig = await rig_with((-1, 1), (2, 21))
    del rig.service.requests[-1][1]
    await rig.scan(4)
    assert [kind for kind, *_ in rig.event_keys] == ["new", "new"]
    assert rig.service.lookups == []
