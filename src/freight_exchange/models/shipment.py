"""The freight fields that rate requests, listings and bids share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

import attrs

from freight_exchange.models._base import EXACT, NOTHING, Record, frozen
from freight_exchange.models.enums import Packaging, RequestType, UnknownWord
from freight_exchange.models.units import metres_per

__all__ = ["Shipment"]


@attrs.frozen(kw_only=True, init=False, repr=False, eq=False)
class Shipment(Record):
    """The freight of a rate request: base of `RateRequest`, `Listing` and `Bid`."""

    index: int
    ref_id: str | None = None
    commodity: str | None = None
    type: RequestType | UnknownWord | None = None
    origin: str | None = None
    destination: str | None = None
    need_date: datetime | None = None
    notes: str | None = None
    quantity: int | None = None
    packaging: Packaging | UnknownWord | None = None
    length: Decimal | None = None
    width: Decimal | None = None
    height: Decimal | None = None
    measure_unit: str | None = None
    weight: Decimal | None = None
    mass_unit: str | None = None
    incoterm: str | None = None
    hazardous: bool | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)

    @property
    def volume(self) -> Decimal | None:
        """Cubic metres of all packaging units, exact.

        `None` if the quantity or a dimension is missing, or `measure_unit` is an unknown unit.
        """
        if self.quantity is None or self.length is None or self.width is None or self.height is None:
            return None
        metres = metres_per(self.measure_unit)
        if metres is None:
            return None
        unit = EXACT.multiply(EXACT.multiply(self.length, self.width), self.height)
        if metres != 1:
            unit = EXACT.multiply(unit, EXACT.power(metres, 3))
        return EXACT.multiply(Decimal(self.quantity), unit)
