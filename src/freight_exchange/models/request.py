"""Rate requests: as the service lists them, and as a shipper drafts them."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import attrs

from freight_exchange.models import validation
from freight_exchange.models._base import EXACT, Frozen
from freight_exchange.models.enums import Packaging, RequestStatus, RequestType, UnknownWord
from freight_exchange.models.shipment import Shipment

__all__ = ["RateRequest", "RateRequestDraft"]


@attrs.frozen(kw_only=True, repr=False, eq=False)
class RateRequest(Shipment):
    """A shipper's request for offers (service document, Rate request). What a reply leaves out is `None`.

    Attributes:
        index: The request's identifier.
        ref_id: Its reference code.
        commodity: What is to be moved.
        type: How; a word that the document does not list stays readable.
        status: Its state.
        origin, destination: Port or city.
        need_date: The arrival asked for, without a zone: the service names none. The service may alter it.
        notes: In results, a sentence that the server composed.
        quantity: Number of packaging units.
        packaging: What one unit is.
        length, width, height: Per packaging unit, in `measure_unit`. The service may return them in another order.
        measure_unit: The unit of the three: `m` in the document. `volume` and `cargo` convert others, or refuse them.
        weight: In `mass_unit`. The document says of one packaging unit; samples make sense per unit or as the total,
            so `cargo` takes the reading as an argument.
        mass_unit: The unit of the weight: `kg` in the document. `cargo` and filters convert others, or refuse them.
        incoterm: Three letters.
        hazardous: Whether the goods are dangerous.
        extra: Fields of the reply that this package does not know, and dates that it could not read.
    """

    status: RequestStatus | UnknownWord | None = None


@attrs.frozen(kw_only=True, init=False, eq=False, repr=False)
class RateRequestDraft(Frozen):
    """A rate request to publish (service document, 4.3).

    Args:
        commodity: What is to be moved.
        type: A `RequestType` or its word in any case.
        origin, destination: Port or city.
        arrival: The estimated arrival, naive: the service has no zone for it. Fractions of a second are not
            sent.
        packaging: A `Packaging` or its word in any case.
        quantity: Number of packaging units, a positive whole number.
        length, width, height: Metres per unit, positive.
        weight: Kilograms per unit, positive.
        incoterm: Three letters, kept in upper case.
        hazardous: Whether the goods are dangerous.
        notes: Information for forwarders.

    Raises:
        ValidationError: A value cannot be right; `field` names it.
    """

    commodity: str
    type: RequestType
    origin: str
    destination: str
    arrival: datetime
    packaging: Packaging
    quantity: int
    length: Decimal
    width: Decimal
    height: Decimal
    weight: Decimal
    incoterm: str
    hazardous: bool
    notes: str | None

    def __init__(
        self,
        *,
        commodity: str,
        type: RequestType | str,
        origin: str,
        destination: str,
        arrival: datetime,
        packaging: Packaging | str,
        quantity: int,
        length: validation.Number,
        width: validation.Number,
        height: validation.Number,
        weight: validation.Number,
        incoterm: str,
        hazardous: bool,
        notes: str | None = None,
    ) -> None:
        validation.fill(
            self,
            {
                "commodity": validation.text(commodity, "commodity"),
                "type": validation.one_of(type, RequestType, "type"),
                "origin": validation.text(origin, "origin"),
                "destination": validation.text(destination, "destination"),
                "arrival": validation.naive(arrival, "arrival"),
                "packaging": validation.one_of(packaging, Packaging, "packaging"),
                "quantity": validation.count(quantity, "quantity"),
                "length": validation.amount(length, "length"),
                "width": validation.amount(width, "width"),
                "height": validation.amount(height, "height"),
                "weight": validation.amount(weight, "weight"),
                "incoterm": validation.incoterm(incoterm, "incoterm"),
                "hazardous": validation.flag(hazardous, "hazardous"),
                "notes": None if notes is None else validation.text(notes, "notes", empty=True),
            },
        )

    @property
    def volume(self) -> Decimal:
        """Cubic metres of all packaging units, exact: all that is sure to come back as it was sent."""
        unit = EXACT.multiply(EXACT.multiply(self.length, self.width), self.height)
        return EXACT.multiply(Decimal(self.quantity), unit)
