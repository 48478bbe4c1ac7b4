"""Events of a watch, as lines for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import freight_exchange
from freight_exchange.cli.render.freight import request_to_json
from freight_exchange.cli.render.record import format_amount, format_value, to_json

if TYPE_CHECKING:
    from freight_exchange import OfferEvent
    from freight_exchange.cargo import Per
    from freight_exchange.feed.events import Event

__all__ = ["event_to_json", "format_event"]


def event_to_json(event: Event | OfferEvent, per: Per = "unit") -> dict[str, Any]:
    """Convert an event to a JSON object, requests with computed values; `per` selects the reading of weights."""
    converted: dict[str, Any] = {**to_json(event), "kind": event.kind}
    if isinstance(event, freight_exchange.RequestEvent):
        converted["request"] = request_to_json(event.request, per)
        if event.previous is not None:
            converted["previous"] = request_to_json(event.previous, per)
    return converted


def format_event(event: Event | OfferEvent, codes: Mapping[int, str] | None = None) -> str:
    """Format an event as a line; `codes` has the currencies' codes by their indexes."""
    match event:
        case freight_exchange.RequestEvent(request=request):
            parts = [
                f"{event.observed_between[1].astimezone():%H:%M:%S}",
                f"{event.kind:<9}",
                str(request.index),
                format_value(request.ref_id),
                format_value(request.type),
                format_value(request.commodity),
                f"{format_value(request.origin)} to {format_value(request.destination)}",
                "" if request.volume is None else f"{request.volume:f} m3",
                f"changed: {format_value(', '.join(event.changed))}" if event.changed else "",
            ]
            return "  ".join(part for part in parts if part)
        case freight_exchange.OfferEvent(offer=offer, listing=listing):
            parts = [
                f"{event.observed_between[1].astimezone():%H:%M:%S}",
                f"{event.answer or event.kind:<9}",
                f"request {listing.index}",
                f"offer {offer.id}",
                format_value(format_amount(offer.amount, offer.currency, codes or {})),
                f"{format_value(listing.origin)} to {format_value(listing.destination)}",
                format_value(offer.terms),
                f"changed: {format_value(', '.join(event.changed))}" if event.changed else "",
            ]
            return "  ".join(part for part in parts if part)
        case freight_exchange.Gap():
            return (
                f"no watch from {format_value(event.since)} to {format_value(event.until)}:"
                " updates of that time may be missing"
            )
        case freight_exchange.SchemaChanged():
            names = ", ".join([*(f"+{name}" for name in event.added), *(f"-{name}" for name in event.removed)])
            return f"the service changed the fields of its requests: {format_value(names)}"
        case freight_exchange.Unreadable():
            return f"request {format_value(event.index)} cannot be read: {format_value(event.error)}"
