"""What a request comes to: its weight, what a carrier would charge for, and what is odd about it. Pure."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs

from freight_exchange import cargo
from freight_exchange.cli.render.tables import plain
from freight_exchange.errors import ValidationError
from freight_exchange.models.enums import Packaging, RequestType

if TYPE_CHECKING:
    from freight_exchange.cargo import Basis, Cargo, CargoWarning, GrossWeight, Per
    from freight_exchange.models import Bid, Listing, RateRequest, RateRequestDraft

__all__ = ["Charge", "as_object", "charge", "doubts", "gross", "units"]


@attrs.frozen
class Charge:
    """What is charged for.

    Attributes:
        amount: How much of it, in the unit.
        unit: `kg` by air and road, `W/M`, revenue tons, by sea.
        by: What decided.
    """

    amount: Decimal
    unit: str
    by: Basis

    def __str__(self) -> str:
        return f"{self.amount:f} {self.unit}"


def charge(freight: RateRequest | RateRequestDraft | Listing | Bid, per: Per) -> Charge | None:
    """What is charged for this freight; `None` for what does not travel, and where a measure is missing."""
    try:
        match freight.type:
            case RequestType.SHIPPING:
                tons = cargo.revenue_tons(freight, per=per)
                return Charge(tons.tons, "W/M", tons.basis)
            case RequestType.AIR_FREIGHT:
                weight = cargo.air_chargeable_weight(freight, per=per)
            case RequestType.TRUCKING:
                weight = cargo.road_chargeable_weight(freight, per=per)
            case _:
                return None
    except ValidationError:
        return None
    return Charge(weight.kilograms, "kg", weight.basis)


def gross(freight: Cargo, per: Per) -> GrossWeight | None:
    """What all units weigh; `None` where a measure is missing."""
    try:
        return cargo.gross_weight(freight, per=per)
    except ValidationError:
        return None


def units(freight: RateRequest | RateRequestDraft | Bid) -> str:
    """How many of what: `20 pallets`."""
    if freight.packaging is None or freight.quantity is None:
        return str(freight.quantity or freight.packaging or "")
    plural = "s" if freight.quantity != 1 and isinstance(freight.packaging, Packaging) else ""
    return f"{freight.quantity} {freight.packaging}{plural}"


def doubts(freight: RateRequest | RateRequestDraft, per: Per) -> list[CargoWarning]:
    """What is odd about the request: its weight, for the room that it takes, and its Incoterm, for how it travels."""
    weight = gross(freight, per)
    found = [None if weight is None else weight.warning, cargo.incoterm_warning(freight.incoterm, freight.type)]
    return [attrs.evolve(doubt, message=_worded(doubt.message)) for doubt in found if doubt is not None]


def as_object(request: RateRequest, per: Per) -> dict[str, Any]:
    """A request as a JSON object: its own fields, and what they come to."""
    weight, charged = gross(request, per), charge(request, per)
    return {
        **plain(request),
        "volume": request.volume,
        "weight_per": per,
        "gross_weight": None if weight is None else weight.kilograms,
        "chargeable": None if charged is None else plain(charged),
        "doubts": plain(doubts(request, per)),
    }


def _worded(message: str) -> str:
    for per, words in (("unit", "if it is that of one unit"), ("total", "if it is that of all units")):
        message = message.replace(f'with per="{per}"', words)
    return message
