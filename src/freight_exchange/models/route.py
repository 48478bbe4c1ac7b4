"""Scheduled routes such as sailings, and drafts of them."""

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
    """A scheduled route (service document, Route). Fields that a reply lacks are `None`.

    Attributes:
        index: The route's identifier.
        origin, destination: Port or city.
        cy_cutoff: The deadline of the container yard, aware, in the route's zone.
        cfs_cutoff: The deadline of the container freight station, aware, in the route's zone.
        departure: Estimated departure, aware, in the route's zone.
        arrival: Estimated arrival, naive, as the route's zone does not apply and the service names no other.
        carrier: The index of the carrier.
        vessel: The vessel's name.
        voyage_id: The voyage's code.
        timezone: The zone's name. If it is missing or unknown, the times above are naive.
        extra: Fields of the reply that are unknown to this package, and dates that it could not read.
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
        cy_cutoff, cfs_cutoff, departure: A naive time is the wall time of the route's zone; an aware one is converted
            to it. An ambiguous wall time is the earlier one; a time that a clock change skips is kept.
        arrival: Estimated arrival. It must be naive, because the route's zone does not apply to it.
        carrier: A carrier or its index.
        vessel: The vessel's name.
        voyage_id: The voyage's code.
        timezone: The name of a zone, e.g. `Asia/Hong_Kong`, for the cut-offs and the departure. The draft keeps
            them as aware times, as a `Route` does.

    Raises:
        ValidationError: A value is invalid; `field` names it.
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
        validation.set_fields(
            self,
            {
                "origin": validation.text(origin, "origin"),
                "destination": validation.text(destination, "destination"),
                "cy_cutoff": validation.zoned_datetime(cy_cutoff, zone, "cy_cutoff"),
                "cfs_cutoff": validation.zoned_datetime(cfs_cutoff, zone, "cfs_cutoff"),
                "departure": validation.zoned_datetime(departure, zone, "departure"),
                "arrival": validation.naive_datetime(arrival, "arrival"),
                "carrier": validation.identifier(carrier.index if isinstance(carrier, Carrier) else carrier, "carrier"),
                "vessel": validation.text(vessel, "vessel"),
                "voyage_id": validation.text(voyage_id, "voyage_id"),
                "timezone": zone.key,
            },
        )
