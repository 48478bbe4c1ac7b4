"""Freight of a request: gross weight, chargeable quantity, and warnings about implausible values."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs

from freight_exchange import cargo
from freight_exchange.cli.render.record import to_json
from freight_exchange.errors import ValidationError
from freight_exchange.words import Packaging, RequestType

if TYPE_CHECKING:
    from freight_exchange.cargo import Basis, Cargo, CargoWarning, GrossWeight, Per
    from freight_exchange.models import Bid, Listing, RateRequest, RateRequestDraft

__all__ = ["Chargeable", "chargeable", "find_warnings", "format_units", "gross_weight", "request_to_json"]


@attrs.frozen
class Chargeable:
    """Chargeable quantity.

    Attributes:
        amount: The quantity, in the unit.
        unit: `kg` by air and road; `W/M`, revenue tons, by sea.
        basis: The measure that decides.
    """

    amount: Decimal
    unit: str
    basis: Basis

    def __str__(self) -> str:
        return f"{self.amount:f} {self.unit}"


def chargeable(freight: RateRequest | RateRequestDraft | Listing | Bid, per: Per) -> Chargeable | None:
    """Compute the chargeable quantity; `None` for warehousing, and if a measure is missing."""
    try:
        match freight.type:
            case RequestType.SHIPPING:
                tons = cargo.revenue_tons(freight, per=per)
                return Chargeable(tons.tons, "W/M", tons.basis)
            case RequestType.AIR_FREIGHT:
                weight = cargo.air_chargeable_weight(freight, per=per)
            case RequestType.TRUCKING:
                weight = cargo.road_chargeable_weight(freight, per=per)
            case _:
                return None
    except ValidationError:
        return None
    return Chargeable(weight.kilograms, "kg", weight.basis)


def gross_weight(freight: Cargo, per: Per) -> GrossWeight | None:
    """Compute the weight of all units; `None` if a measure is missing."""
    try:
        return cargo.gross_weight(freight, per=per)
    except ValidationError:
        return None


def format_units(freight: RateRequest | RateRequestDraft | Bid) -> str:
    """Format quantity and packaging, such as `20 pallets`."""
    if freight.packaging is None or freight.quantity is None:
        return str(freight.quantity or freight.packaging or "")
    plural = "s" if freight.quantity != 1 and isinstance(freight.packaging, Packaging) else ""
    return f"{freight.quantity} {freight.packaging}{plural}"


def find_warnings(freight: RateRequest | RateRequestDraft, per: Per) -> list[CargoWarning]:
    """Check the weight against the volume, and the Incoterm against the mode of transport."""
    weight = gross_weight(freight, per)
    found = [None if weight is None else weight.warning, cargo.incoterm_warning(freight.incoterm, freight.type)]
    return [
        attrs.evolve(warning, message=_replace_argument_names(warning.message))
        for warning in found
        if warning is not None
    ]


def request_to_json(request: RateRequest, per: Per) -> dict[str, Any]:
    """Convert a request to a JSON object, with the values computed from its fields."""
    weight, quantity = gross_weight(request, per), chargeable(request, per)
    return {
        **to_json(request),
        "volume": to_json(request.volume),
        "weight_per": per,
        "gross_weight": None if weight is None else to_json(weight.kilograms),
        "chargeable": None
        if quantity is None
        else {"amount": to_json(quantity.amount), "unit": quantity.unit, "by": quantity.basis},
        "doubts": to_json(find_warnings(request, per)),
    }


def _replace_argument_names(message: str) -> str:
    for per, words in (("unit", "if it is that of one unit"), ("total", "if it is that of all units")):
        message = message.replace(f'with per="{per}"', words)
    return message
