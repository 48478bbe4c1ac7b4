"""Sailings and other scheduled routes, and drafts of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import attrs

from freight_exchange.models import validation
from freight_exchange.models._base import NOTHING, Frozen, Record, frozen
from freight_exchange.models.carrier import Carrier

__all__ = ["Route", "RouteDraft"]


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Route(Record):
    """A scheduled route (service document, Route). What a reply leaves out is `None`.

    Attributes:
        index: The route's identifier.
        origin, destination: Port or city.
        cy_cutoff: Until when the container yard takes containers, aware, in the route's zone.
        cfs_cutoff: Until when the container freight station takes freight, aware, in the route's zone.
        departure: Estimated departure, aware, in the route's zone.
        arrival: Estimated arrival, naive: the route's zone does not apply to it, and the service names no
            other.
        carrier: The index of the carrier.
        vessel: The vessel's name.
        voyage_id: The voyage's code.
        timezone: The zone's name. Where it is missing or no known zone, the times above stay naive.
        extra: Fields of the reply that this package does not know, and dates that it could not read.
    """

    index: int
    origin: str | None = None
    destination: str | None = None
    cy_cutoff: datetime | None = None
    cfs_cutoff: datetime | None = None
    departure: datetime | None = None
    arrival: datetime | None = None
    carrier: int | None = None
    vessel: str | None = None
    voyage_id: str | None = None
    timezone: str | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)


@attrs.frozen(kw_only=True, init=False, eq=False, repr=False)
class RouteDraft(Frozen):
    """A route to create (service document, 4.5).

    Args:
        origin, destination: Port or city.
        cy_cutoff, cfs_cutoff, departure: Naive for the wall time of the route's zone, or aware, which is
            converted. An ambiguous wall time is the first of the two; one that a clock change skips is kept
            as it is written.
        arrival: Estimated arrival, naive: the route's zone does not apply to it, so an aware one has no zone
            to go to and is refused.
        carrier: A carrier or its index.
        vessel: The vessel's name.
        voyage_id: The voyage's code.
        timezone: The name of a zone, e.g. `Asia/Hong_Kong`; it applies to the cut-offs and the departure.

    The draft holds the cut-offs and the departure aware, in the route's zone, as a `Route` does.

    Raises:
        ValidationError: A value cannot be right; `field` names it.
    """

    origin: str
    destination: str
    cy_cutoff: datetime
    cfs_cutoff: datetime
    departure: datetime
    arrival: datetime
    carrier: int
    vessel: str
    voyage_id: str
    timezone: str

    def __init__(
        self,
        *,
        origin: str,
        destination: str,
        cy_cutoff: datetime,
        cfs_cutoff: datetime,
        departure: datetime,
        arrival: datetime,
        carrier: int | Carrier,
        vessel: str,
        voyage_id: str,
        timezone: str,
    ) -> None:
        zone = validation.timezone(timezone, "timezone")
        validation.fill(
            self,
            {
                "origin": validation.text(origin, "origin"),
                "destination": validation.text(destination, "destination"),
                "cy_cutoff": validation.zoned(cy_cutoff, zone, "cy_cutoff"),
                "cfs_cutoff": validation.zoned(cfs_cutoff, zone, "cfs_cutoff"),
                "departure": validation.zoned(departure, zone, "departure"),
                "arrival": validation.naive(arrival, "arrival"),
                "carrier": validation.identifier(carrier.index if isinstance(carrier, Carrier) else carrier, "carrier"),
                "vessel": validation.text(vessel, "vessel"),
                "voyage_id": validation.text(voyage_id, "voyage_id"),
                "timezone": zone.key,
            },
        )
