"""Routes (service document, 4.5)."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

from freight_exchange import wire
from freight_exchange.endpoints.shared.arguments import expect, index_of
from freight_exchange.endpoints.shared.conventions import Listed
from freight_exchange.endpoints.shared.service import Service
from freight_exchange.errors import OutcomeUnknownError
from freight_exchange.models import Carrier, CreateRoute, Route, RouteDraft, UpdateRoute
from freight_exchange.paging import Paginator

__all__ = ["Routes", "SeenRoutes"]

_LIST = Listed("routes.list", "GET", "route")
_MAX_SEEN = 1024


class SeenRoutes:
    """Routes by index, as a client last read them; the reconciliation of an update compares with them."""

    def __init__(self) -> None:
        self._routes: OrderedDict[int, Route] = OrderedDict()

    def remember(self, route: Route) -> None:
        self._routes[route.index] = route
        self._routes.move_to_end(route.index)
        if len(self._routes) > _MAX_SEEN:
            self._routes.popitem(last=False)

    def forget(self, index: int) -> None:
        self._routes.pop(index, None)

    def before(self, route: Route) -> Route | None:
        return self._routes.get(route.index)


class Routes:
    """Routes: `exchange.routes`."""

    def __init__(self, service: Service, seen: SeenRoutes) -> None:
        self._service = service
        self._seen = seen

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
            origin, destination: Port or city.
            carrier: A carrier or its index.
            vessel, voyage_id, timezone: Exact values of the route.
            departure, arrival, cy_cutoff, cfs_cutoff: Exact times. All times are naive, as the service compares them.
            departs_from, departs_until, arrives_from, arrives_until: Earliest and latest departure and arrival.
            cy_from, cy_until, cfs_from, cfs_until: Earliest and latest cut-off of container yard and freight station.
            page_size: Largest number of rows in a page; default: the client's `page_size`.
            window: Pages in flight at a time.
            sweep: Read the listing again until no row that was there throughout can be missing.

        Raises:
            ValidationError: An argument is invalid.
        """
        filters = wire.encode_route_filters(
            {
                "origin": origin,
                "destination": destination,
                "carrier": None if carrier is None else index_of(carrier, "carrier", Carrier),
                "vessel": vessel,
                "voyage_id": voyage_id,
                "timezone": timezone,
                "departure": departure,
                "arrival": arrival,
                "cy_cutoff": cy_cutoff,
                "cfs_cutoff": cfs_cutoff,
                "departs_from": departs_from,
                "departs_until": departs_until,
                "arrives_from": arrives_from,
                "arrives_until": arrives_until,
                "cy_from": cy_from,
                "cy_until": cy_until,
                "cfs_from": cfs_from,
                "cfs_until": cfs_until,
            }
        )
        return self._service.listing(
            _LIST._replace(parameters=filters),
            wire.ROUTES,
            self._identify,
            page_size=page_size,
            window=window,
            sweep=sweep,
        )

    async def get(self, index: int) -> Route:
        """Return the route with this index (service document, 4.5).

        Raises:
            ValidationError: The index is not a positive integer.
            NotFoundError: There is no such route.
            DecodeError: The route cannot be read.
        """
        return await self._service.lookup(_LIST, index, wire.ROUTES, self._identify)

    async def create(self, draft: RouteDraft) -> Route | None:
        """Create a route (service document, 4.5).

        Returns the route in the reply, or `None` if the reply has none.

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
        received. Returns the route in the reply, or `None` if the reply has none.

        Raises:
            ValidationError: `route` is not a `Route`, or lacks a field, which the update would erase; nothing was sent.
            OutcomeUnknownError: The route may or may not have been updated; `reconcile()` finds out.
            BadRequestError: The service found the route invalid.
        """
        expect(route, Route, "route")
        return await self._write("PUT", route, UpdateRoute(route, self._seen.before(route)))

    async def _write(self, method: str, route: Route | RouteDraft, write: CreateRoute | UpdateRoute) -> Route | None:
        body = wire.encode_route(route, self._service.conventions.carrier_field)
        try:
            written = await self._service.write(method, "route", body, wire.decode_written_route, write, optional=True)
        except OutcomeUnknownError:
            if isinstance(route, Route):
                # Its content is unknown now, until reconciliation has read it.
                self._seen.forget(route.index)
            raise
        if written is not None:
            self._seen.remember(written)
        elif isinstance(route, Route):
            self._seen.remember(route)
        return written

    def _identify(self, route: Route) -> int:
        self._seen.remember(route)
        return route.index
