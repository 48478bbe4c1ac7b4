"""Records of a state file as JSON text, and a check of their references. No I/O."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import attrs

from freight_exchange.sandbox.core.database import Database
from freight_exchange.sandbox.model.state import Cargo, Offer, Request, Route

__all__ = ["check_references", "decode_record", "encode_record"]


def check_references(database: Database) -> None:
    """Check that the referenced records exist."""
    for name, table in (("request", database.requests), ("offer", database.offers)):
        indexes = table.indexes()
        if indexes and indexes != tuple(range(indexes[0], indexes[0] + len(indexes))):
            raise ValueError(f"a record of the kind {name} is missing")
    for _, _, _, request in database.requests.latest():
        if request.owner not in database.accounts:
            raise ValueError(f"request {request.index} belongs to no account")
        if request.selected is not None and database.offers.get(request.selected) is None:
            raise ValueError(f"the selected offer {request.selected} is missing")
    for _, _, _, offer in database.offers.latest():
        if database.requests.get(offer.request) is None or offer.account not in database.accounts:
            raise ValueError(f"offer {offer.index} has no request or account")


def encode_record(record: Request | Offer | Route) -> str:
    return json.dumps(attrs.asdict(record), default=_encode_value)


def _encode_value(value: object) -> object:
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    raise TypeError(f"{value!r} cannot be kept")


def _number(pairs: dict[str, Any]) -> Any:
    """Decode a marked decimal. A fee named `decimal` is not a mark, since its amount is not a text."""
    if len(pairs) == 1 and isinstance(pairs.get("decimal"), str):
        return Decimal(pairs["decimal"])
    return pairs


def decode_record(kind: str, body: str) -> Any:
    values = json.loads(body, object_hook=_number)
    match kind:
        case "request":
            return Request(**{**values, "cargo": Cargo(**values["cargo"])})
        case "offer":
            return Offer(**values)
        case "route":
            return Route(**values)
        case _:
            raise ValueError(f"a record of the kind {kind}")
