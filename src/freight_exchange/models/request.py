"""Rate requests, as the service lists them, and drafts of them."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: F401 - for get_type_hints of the generated __init__
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
    """A shipper's request for offers (service document, Rate request). Fields that a reply lacks are `None`.

    Attributes:
        index: The request's identifier.
        ref_id: Its reference code.
        commodity: The goods.
        type: The mode of transport, or an undocumented word.
        status: Its state.
        origin, destination: Port or city.
        need_date: The required arrival, naive: the service names no zone. The service may alter it.
        notes: In results, a sentence composed by the service.
        quantity: Number of packaging units.
        packaging: The kind of unit.
        length, width, height: Lengths of one packaging unit, in `measure_unit`. The service may return them in another
            order.
        measure_unit: Unit of the lengths: `m` in the document. `volume` and `cargo` convert or refuse other units.
        weight: Weight in `mass_unit`. By the document it is that of one packaging unit, but samples also make sense as
            totals. So `cargo` has an argument for it.
        mass_unit: Unit of the weight: `kg` in the document. `cargo` and filters convert or refuse other units.
        incoterm: Three letters.
        hazardous: Whether the goods are dangerous.
        extra: Fields of the reply that are unknown to this package, and dates that it could not read.
    """

    status: RequestStatus | UnknownWord | None = None


@attrs.frozen(kw_only=True, init=False, eq=False, repr=False)
class RateRequestDraft(Frozen):
    """A rate request to publish (service document, 4.3).

    Args:
        commodity: The goods.
        type: A `RequestType` or its word in any case.
        origin, destination: Port or city.
        arrival: The estimated arrival, naive: the service has no zone for it. Fractions of a second are not sent.
        packaging: A `Packaging` or its word in any case.
        quantity: Number of packaging units, a positive whole number.
        length, width, height: Metres per unit, positive.
        weight: Kilograms per unit, positive.
        incoterm: Three letters, kept in upper case.
        hazardous: Whether the goods are dangerous.
        notes: Information for forwarders.

    Raises:
        ValidationError: A value is invalid; `field` names it.
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
        validation.set_fields(
            self,
            {
                "commodity": validation.text(commodity, "commodity"),
                "type": validation.enum_member(type, RequestType, "type"),
                "origin": validation.text(origin, "origin"),
                "destination": validation.text(destination, "destination"),
                "arrival": validation.naive_datetime(arrival, "arrival"),
                "packaging": validation.enum_member(packaging, Packaging, "packaging"),
                "quantity": validation.count(quantity, "quantity"),
                "length": validation.amount(length, "length"),
                "width": validation.amount(width, "width"),
                "height": validation.amount(height, "height"),
                "weight": validation.amount(weight, "weight"),
                "incoterm": validation.incoterm(incoterm, "incoterm"),
                "hazardous": validation.boolean(hazardous, "hazardous"),
                "notes": None if notes is None else validation.text(notes, "notes", allow_empty=True),
            },
        )

    @property
    def volume(self) -> Decimal:
        """Exact cubic metres of all packaging units. It is the only measure that the service returns unchanged."""
        unit = EXACT.multiply(EXACT.multiply(self.length, self.width), self.height)
        return EXACT.multiply(Decimal(self.quantity), unit)
