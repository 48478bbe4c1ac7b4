"""Records as bytes for a store."""

from __future__ import annotations

from freight_exchange.errors import ValidationError
from freight_exchange.models import Bid, RateRequest
from freight_exchange.serialization import from_json, to_json

__all__ = ["dump_record", "load_bid", "load_request"]


def dump_record(record: Bid | RateRequest) -> bytes:
    """Encode a record."""
    return to_json(record).encode()


def load_request(content: bytes) -> RateRequest:
    """Decode a stored request; raise `ValueError` for other bytes."""
    try:
        return from_json(content, RateRequest)
    except ValidationError as error:
        raise ValueError(str(error)) from error


def load_bid(content: bytes) -> Bid:
    """Decode a stored bid."""
    return from_json(content, Bid)
