"""Explanation of an offer: why it was delivered, or was not yet. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from freight_exchange.feed.status import Explanation
from freight_exchange.models.offer_filter import OfferFilter
from freight_exchange.offer_feed.core.known import KnownListing
from freight_exchange.offer_feed.events import OfferEvent
from freight_exchange.offer_feed.serialization import unpack
from freight_exchange.store.protocol import StoredEvent, TrackedRequest

__all__ = ["explain_offer"]


def explain_offer(
    request: int,
    offer: int,
    known: KnownListing | None,
    seen: TrackedRequest | None,
    events: Sequence[StoredEvent],
    *,
    time: float,
    wall: float,
    where: OfferFilter | None,
) -> Explanation:
    """Explain why an offer was delivered, or was not yet.

    Args:
        request: Index of the request.
        offer: Identifier of the offer.
        known: What is known of the request.
        seen: What the store has of it.
        events: Its events in the store.
        time, wall: The same moment on the feed's clock and in seconds since the epoch.
        where: The feed's filter.
    """

    def explained(verdict: Literal["unseen", "excluded", "waiting", "handed-out"], why: str) -> Explanation:
        def at(moment: float) -> datetime:
            return datetime.fromtimestamp(wall - (time - moment), UTC)

        return Explanation(
            index=request,
            verdict=verdict,
            sentence=f"offer {offer} on request {request} {why}",
            first_seen=None if seen is None else at(seen.first_seen),
            last_seen=None if seen is None else at(seen.last_seen),
            events=tuple(event.kind for event in events),
        )

    entry = None if known is None else known.offers.get(offer)
    if known is None or entry is None:
        return explained("unseen", "was in no scan: the service has not listed it, or it cannot be read")
    waiting = [event for event in map(_read, events) if event is not None and event.offer.id == offer]
    wanted = [event for event in waiting if where is None or where.matches(event.offer, event.listing)]
    if wanted:
        return explained("waiting", f"is {wanted[0].kind}, and its event waits to be pulled or acknowledged")
    if waiting or (where is not None and not where.matches(entry.offer, known.listing)):
        return explained("excluded", "is left out by the filter")
    state = "is gone" if entry.is_gone else f"is {entry.offer.status or 'listed'}"
    return explained("handed-out", f"{state}: its last event was acknowledged, or it is as it was when the feed began")


def _read(event: StoredEvent) -> OfferEvent | None:
    """Return an event that waits; `None` if it is acknowledged, or about no offer."""
    if event.is_acknowledged:
        return None
    read = unpack(event.kind, event.payload)
    return read if isinstance(read, OfferEvent) else None
