"""Routes (service document, 4.5)."""

from __future__ import annotations

from datetime import datetime

from freight_exchange import wire
from freight_exchange.endpoints.service import Listed, Service, expect, index_of
from freight_exchange.models import Carrier, CreateRoute, Route, RouteDraft, UpdateRoute
from freight_exchange.paging import Paginator
from freight_exchange.wire import encoder

_LIST = Listed("routes.list", "GET", "route", wire.ROUTES)


class Routes:
    """Routes: `exchange.routes`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def list(
        self,
        *,
        origin: str | None = None,
        destination: str | None = None,
        carrier: Carrier | int | None = None,
        vessel: str | None = None,
        voyage_id: str | None = None,
        timezone: str | None = None,
        departure: datetime | None = None,
        arrival: datetime | None = None,
        cy_cutoff: datetime | None = None,
        cfs_cutoff: datetime | None = None,
        departs_from: datetime | None = None,
        departs_until: datetime | None = None,
        arrives_from: datetime | None = None,
        arrives_until: datetime | None = None,
        cy_from: datetime | None = None,
        cy_until: datetime | None = None,
        cfs_from: datetime | None = None,
        cfs_until: datetime | None = None,
        page_size: int | None = None,
        window: int = 1,
        sweep: bool = False,
    ) -> Paginator[Route]:
        """List the routes that match the filters (service document, 4.5).

        Args:
            departure, arrival, cy_cutoff, cfs_cutoff: Exact times. All times are naive, as the service compares them.
            departs_from, departs_until, arrives_from, arrives_until: Earliest and latest departure and arrival.
            cy_from, cy_until, cfs_from, cfs_until: Earliest and latest cut-off of container yard and freight station.
            page_size, window, sweep: As `Paginator` has them.
        """
        given = {**locals(), "carrier": None if carrier is None else index_of(carrier, "carrier", Carrier)}
        filters = encoder.encode_route_filters(given)
        return self._service.listing(_LIST._replace(parameters=filters), page_size, window, sweep)

    async def get(self, index: int) -> Route:
        """Return the route with this index (service document, 4.5); raise `NotFoundError` without one."""
        return await self._service.lookup(_LIST, index)

    async def create(self, draft: RouteDraft) -> Route | None:
        """Create a route (service document, 4.5); return the route in the reply, or `None` if it has none.

        Raises:
            ValidationError: `draft` is not a `RouteDraft`; nothing was sent.
            OutcomeUnknownError: The route may or may not have been created; `reconcile()` finds out.
            BadRequestError: The service found the route invalid.
        """
        expect(draft, RouteDraft, "draft")
        return await self._write("POST", draft, CreateRoute(draft))

    async def update(self, route: Route) -> Route | None:
        """Replace the route that has this index with this entire route (service document, 4.5).

        Change the route as it was read (`attrs.evolve(route, vessel="...")`), so that unreadable dates are sent back as
        received. To tell an update that did not happen from one that somebody has undone, `reconcile(baseline=[...])`
        needs the route as it was before.

        Raises:
            ValidationError: `route` is not a `Route`, or lacks a field, which the update would erase; nothing was sent.
        """
        expect(route, Route, "route")
        return await self._write("PUT", route, UpdateRoute(route))

    async def _write(self, method: str, route: Route | RouteDraft, write: CreateRoute | UpdateRoute) -> Route | None:
        body = encoder.encode_route(route, self._service.conventions.carrier_field)
        return await self._service.write(write, method, "route", body, wire.decode_optional, wire.ROUTES)
