"""Explanations why an offer, or a request with its offers, was delivered or not. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from freight_exchange.feed.status import Explanation
from freight_exchange.filters import OfferFilter
from freight_exchange.offer_feed.core.known_offers import KnownListing, KnownOffer
from freight_exchange.offer_feed.events import OfferEvent
from freight_exchange.offer_feed.serialization import unpack
from freight_exchange.store.protocol import StoredEvent, TrackedRequest

__all__ = ["explain_offer", "explain_request"]


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
    """Explain why an offer was delivered or not.

    Args:
        request: Index of the request.
        offer: Identifier of the offer.
        known: Known state of the request, if any.
        seen: Row of the request in the store, if any.
        events: Events of the request in the store.
        time, wall: The present time on the feed's clock, and in seconds since the epoch.
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
    return explained(
        "handed-out", f"{_state(entry)}: its last event was acknowledged, or it is as it was when the feed began"
    )


def explain_request(
    index: int,
    seen: TrackedRequest | None,
    events: Sequence[StoredEvent],
    *,
    time: float,
    wall: float,
) -> Explanation:
    """Explain why the offers on a request were delivered or not; the arguments are those of `explain_offer`.

    The verdict of a request without offers is `baseline`, as there is nothing to deliver.
    """
    known = None if seen is None or seen.record is None else KnownListing.load(seen.record)
    verdict: Literal["unseen", "baseline", "waiting", "handed-out"]
    if known is None:
        verdict, why = "unseen", "was in no scan of your requests"
    elif not known.offers:
        verdict, why = "baseline", "is one of your requests, without offers"
    else:
        offers = ", ".join(f"offer {number} {_state(entry)}" for number, entry in known.offers.items())
        verdict = "handed-out" if all(event.is_acknowledged for event in events) else "waiting"
        why = f"is one of your requests; {offers}"
    return Explanation(
        index=index,
        verdict=verdict,
        sentence=f"request {index} {why}",
        first_seen=None if seen is None else datetime.fromtimestamp(wall - (time - seen.first_seen), UTC),
        # The store does not know it: requests are written when they change, not with each scan.
        last_seen=None,
        events=tuple(event.kind for event in events),
    )


def _state(entry: KnownOffer) -> str:
    return "is gone" if entry.is_gone else f"is {entry.offer.status or 'listed'}"


def _read(event: StoredEvent) -> OfferEvent | None:
    """Return the offer event in a stored event that waits; `None` if it is acknowledged, or not about an offer."""
    if event.is_acknowledged:
        return None
    read = unpack(event.kind, event.payload)
    return read if isinstance(read, OfferEvent) else None
