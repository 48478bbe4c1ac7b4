"""Snapshots of rate requests and bids: bytes for a store, readable by later versions of this package."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final

import attrs

from freight_exchange.models import Bid, Company, Contact, Offer, RateRequest
from freight_exchange.models._base import Record
from freight_exchange.wire import fields
from freight_exchange.wire.json import CONSTANTS, parse
from freight_exchange.wire.scalars import UnreadableRecordError
from freight_exchange.wire.shapes import CONVERTER

__all__ = ["dump_bid", "dump_request", "load_bid", "load_request"]

_PARTS: Final = {"offer": Offer, "contact": Contact, "company": Company}
"""Nested records of a bid. A reply has them in one of several places, a snapshot always in the same."""


def dump_request(request: RateRequest) -> bytes:
    """Encode a request in the wire's format, with its unknown fields and unreadable dates.

    Unlike a request to send, it may have numbers beyond any price, since all that was read must be storable.
    """
    return _text(CONVERTER.unstructure(request)).encode()


def load_request(content: bytes) -> RateRequest:
    """Decode a stored request; raise `ValueError` for other bytes."""
    try:
        request: RateRequest = CONVERTER.structure(_parsed(content), RateRequest)
    except UnreadableRecordError as error:
        raise ValueError(f"{error.path}: {error.reason}") from error
    return request


def dump_bid(bid: Bid) -> bytes:
    """Encode a bid in the wire's format, its offer, contact and company beside it."""
    wire_form: dict[str, object] = {"bid": CONVERTER.unstructure(bid)}
    for name in _PARTS:
        part: Record | None = getattr(bid, name)
        if part is not None:
            wire_form[name] = CONVERTER.unstructure(part)
    if bid.offer is not None and bid.offer.rates is not None:
        without_amount: Any = bid.offer.extra.get(fields.RATES, {})
        wire_form["offer"] = {**CONVERTER.unstructure(bid.offer), fields.RATES: {**bid.offer.rates, **without_amount}}
    return _text(wire_form).encode()


def load_bid(content: bytes) -> Bid:
    """Decode a stored bid."""
    wire_form: Any = _parsed(content)
    parts: dict[str, Any] = {
        name: CONVERTER.structure(wire_form[name], model) for name, model in _PARTS.items() if name in wire_form
    }
    bid: Bid = attrs.evolve(CONVERTER.structure(wire_form["bid"], Bid), **parts)
    return bid


def _parsed(content: bytes) -> object:
    # Without a limit of size, since one byte of a reply may take six here.
    return parse(content, largest=None)


def _text(value: object) -> str:
    if isinstance(value, str):
        return encode_basestring(str.__str__(value))
    if value is None or value is True or value is False:
        return CONSTANTS[value]
    if isinstance(value, Mapping):
        return f"{{{','.join([f'{encode_basestring(key)}:{_text(item)}' for key, item in value.items()])}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join([_text(item) for item in value])}]"
    if isinstance(value, datetime):
        return f'"{value.isoformat(" ")}"'
    if isinstance(value, (int, Decimal)):
        return str(value)
    raise TypeError(f"no field of a request holds a {type(value).__name__}")
