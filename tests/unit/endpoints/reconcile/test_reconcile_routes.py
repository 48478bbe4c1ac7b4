"""Tests of routes with an unknown outcome: what identifies them, and what cannot."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import attrs
import pytest
from tests.unit.endpoints.doubtful_write import OLD_ROUTE, ROUTE, DoubtfulWrite

from freight_exchange import (
    Applied,
    Conflict,
    NotApplied,
    Route,
    RouteDraft,
    StillUnknown,
)

pytestmark = pytest.mark.virtual_time


async def test_a_route_changed_by_another_is_a_conflict() -> None:
    setup = DoubtfulWrite("update")
    async with setup.client() as exchange, setup.sandbox.client(setup.sandbox.rival) as other:
        error = await setup.doubt(exchange, applied=False)
        await other.routes.update(attrs.evolve(await other.routes.get(OLD_ROUTE), vessel="Somebody else's"))
        verdict = await error.reconcile()
    assert isinstance(verdict, Conflict)
    assert isinstance(verdict.record, Route)
    assert verdict.record.vessel == "Somebody else's"


async def test_an_update_of_a_route_that_was_never_read() -> None:
    setup = DoubtfulWrite("update")
    facts = {field.name: getattr(ROUTE, field.name) for field in attrs.fields(RouteDraft)}
    async with setup.client() as exchange:
        error = await setup.doubt(
            exchange, applied=False, send=lambda client: client.routes.update(Route(index=OLD_ROUTE, **facts))
        )
        verdict = await error.reconcile()
        assert isinstance(verdict, StillUnknown)
        assert [route.index for route in verdict.candidates if isinstance(route, Route)] == [OLD_ROUTE]
        assert isinstance(await error.reconcile(baseline=await exchange.routes.list().collect()), NotApplied)


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("changed", ["vessel", "origin"])
async def test_an_update_of_a_route_that_is_not_shown_whole(applied: bool, changed: str) -> None:
    setup = DoubtfulWrite("update", optional_fields="absent")
    async with setup.client() as exchange:
        route = await exchange.routes.get(OLD_ROUTE)
        assert route.vessel is None
        hidden: dict[str, Any] = {
            "cy_cutoff": ROUTE.cy_cutoff,
            "cfs_cutoff": ROUTE.cfs_cutoff,
            "voyage_id": "041E",
            "vessel": "Old",
        }
        image = attrs.evolve(route, **(hidden | {changed: "Changed"}))
        error = await setup.doubt(exchange, applied=applied, send=lambda client: client.routes.update(image))
        verdict = await error.reconcile()
    if changed == "origin" and not applied:
        assert isinstance(verdict, NotApplied)
    else:
        # It looks like the new image, but somebody else's with another vessel would look the same.
        assert isinstance(verdict, StillUnknown)


@pytest.mark.parametrize("quirks", [{"optional_fields": "absent"}, {"date_form": "zero"}])
async def test_a_new_route_that_is_not_shown_whole(quirks: dict[str, Any]) -> None:
    setup = DoubtfulWrite("create", **quirks)
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        assert isinstance(await error.reconcile(), StillUnknown)


async def test_a_route_alike_counts_unless_it_was_there() -> None:
    setup = DoubtfulWrite("create")
    async with setup.client() as exchange:
        await exchange.routes.create(ROUTE)
        before = await exchange.routes.list().collect()
        error = await setup.doubt(exchange, applied=False)
        assert isinstance(await error.reconcile(), Applied)
        assert isinstance(await error.reconcile(baseline=before), NotApplied)


async def test_parts_of_a_second_are_not_sent_and_not_missed() -> None:
    setup = DoubtfulWrite("create")
    facts = {field.name: getattr(ROUTE, field.name) for field in attrs.fields(RouteDraft)}
    draft = RouteDraft(**(facts | {"departure": datetime(2030, 4, 4, 6, 0, 0, 500), "vessel": "Anchor  PRUDENCE"}))
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True, send=lambda client: client.routes.create(draft))
        assert isinstance(await error.reconcile(), Applied)
