"""Conversion of offer events to stored bytes, and back. Pure."""

from __future__ import annotations

from freight_exchange.errors import StoreError, ValidationError
from freight_exchange.feed.events import Unreadable
from freight_exchange.feed.serialization import UNREADABLE
from freight_exchange.feed.serialization import pack as pack_unreadable
from freight_exchange.feed.serialization import unpack as unpack_event
from freight_exchange.offer_feed.events import OfferEvent, OfferFeedEvent
from freight_exchange.serialization import from_json, to_json

__all__ = ["pack", "unpack", "unpack_offer_event"]


def pack(event: OfferFeedEvent) -> bytes:
    """Return the event as bytes."""
    return pack_unreadable(event) if isinstance(event, Unreadable) else to_json(event).encode()


def unpack(kind: str, payload: bytes) -> OfferFeedEvent:
    """Return the event from its bytes.

    Raises:
        StoreError: It is damaged, or another version of this package wrote it.
    """
    if kind == Unreadable.kind:
        event = unpack_event(kind, payload)
        assert isinstance(event, Unreadable)
        return event
    return unpack_offer_event(payload)


def unpack_offer_event(payload: bytes) -> OfferEvent:
    """Return an event about an offer from its bytes; raise `StoreError` as `unpack` does."""
    try:
        return from_json(payload, OfferEvent)
    except ValidationError as error:
        raise StoreError(f"an event about an offer in the store {UNREADABLE}") from error
