"""Comparison of a request with its known state, to find new, changed, answered and gone offers. Pure.

An offer is compared with its last state only: a change that is undone later makes two events. Only documented fields
count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

import attrs

from freight_exchange.models import Listing, Offer, OfferStatus
from freight_exchange.offer_feed.core.known_offers import KnownListing, KnownOffer
from freight_exchange.offer_feed.events import Answer, OfferEvent, OfferKind
from freight_exchange.words import DECLINED

__all__ = ["ListingChange", "answer_to", "changed_fields", "compare", "expected_offers", "without_offers"]

FIELDS: Final = ("amount", "currency", "status", "terms", "rates")
"""Fields of an offer whose differences are events."""
_MAY_BE_EMPTY: Final = ("terms", "rates")


@attrs.frozen
class ListingChange:
    """Result of a comparison.

    Attributes:
        known: The new known state of the request.
        events: Events, in the order of the listing.
    """

    known: KnownListing
    events: tuple[OfferEvent, ...] = ()


def compare(
    listing: Listing,
    known: KnownListing | None,
    between: tuple[datetime | None, datetime],
    *,
    is_first_scan: bool = False,
    is_silent: bool = False,
) -> ListingChange:
    """Compare a listed request with its known state. Offers that the listing lacks keep their state.

    Args:
        listing: The request.
        known: Its known state, if any.
        between: Earliest and latest time of the differences.
        is_first_scan: Whether to make no events for offers that were answered before they were first seen.
        is_silent: Whether to make no events for offers that are seen for the first time.
    """
    offers = {} if known is None else dict(known.offers)
    events: list[OfferEvent] = []
    for number, offer in _by_identifier(listing).items():
        before = offers.get(number)
        event = _event(offer, listing, before, None if known is None else known.listing, between)
        if event is not None and before is None and (is_silent or (is_first_scan and event.kind != "new")):
            event = None
        version = 1 if before is None else before.version + (event is not None)
        offers[number] = KnownOffer(offer=offer, version=version)
        if event is not None:
            events.append(event)
    return ListingChange(KnownListing(listing=listing, offers=offers), tuple(events))


def changed_fields(before: Offer, now: Offer) -> tuple[str, ...]:
    """Return the names of the fields in which two states of an offer differ.

    Empty terms or rates are equal to missing ones, since one operation of a service may send them as empty and another
    may leave them out.
    """
    return tuple(name for name in FIELDS if _value(before, name) != _value(now, name))


def answer_to(offer: Offer, listing: Listing) -> Answer | None:
    """Return the answer that a listing shows to one of its offers; `None` for a pending one."""
    if offer.status == OfferStatus.SELECTED or (listing.selected is not None and listing.selected.id == offer.id):
        return "approved"
    return "declined" if offer.status in DECLINED else None


def expected_offers(known: KnownListing) -> frozenset[int]:
    """Return the identifiers of the offers that a listing of the request should contain.

    After an offer is selected, the service may list only that one (service document, Offer listing record).
    """
    listed = {number for number, entry in known.offers.items() if not entry.is_gone}
    selected = known.listing.selected
    return frozenset(listed) if selected is None else frozenset(listed & {selected.id})


def without_offers(
    known: KnownListing, gone: Collection[int], between: tuple[datetime | None, datetime]
) -> ListingChange:
    """Return the known state of a request after these offers are gone, and the events about that."""
    offers: Mapping[int, KnownOffer] = {
        number: attrs.evolve(entry, is_gone=True, version=entry.version + 1) if number in gone else entry
        for number, entry in known.offers.items()
    }
    events = tuple(
        OfferEvent(
            kind="gone",
            offer=entry.offer,
            listing=known.listing,
            previous=entry.offer,
            observed_between=between,
        )
        for number, entry in known.offers.items()
        if number in gone
    )
    return ListingChange(KnownListing(listing=known.listing, offers=offers), events)


def _value(offer: Offer, name: str) -> object:
    value: object = getattr(offer, name)
    return (value or None) if name in _MAY_BE_EMPTY else value


def _by_identifier(listing: Listing) -> dict[int, Offer]:
    """Return the offers with an identifier, the first if several have the same."""
    found: dict[int, Offer] = {}
    for offer in listing.offers:
        if offer.id is not None:
            found.setdefault(offer.id, offer)
    return found


def _event(
    offer: Offer,
    listing: Listing,
    before: KnownOffer | None,
    listing_before: Listing | None,
    between: tuple[datetime | None, datetime],
) -> OfferEvent | None:
    answer = answer_to(offer, listing)
    if before is None or listing_before is None:
        kind: OfferKind = "new" if answer is None else "answered"
        return OfferEvent(kind=kind, offer=offer, listing=listing, answer=answer, observed_between=between)
    changed = changed_fields(before.offer, offer)
    is_answered = answer is not None and answer != answer_to(before.offer, listing_before)
    if not (changed or is_answered or before.is_gone):
        return None
    return OfferEvent(
        kind="answered" if is_answered else "changed",
        offer=offer,
        listing=listing,
        previous=before.offer,
        changed=changed,
        returned=before.is_gone,
        answer=answer if is_answered else None,
        observed_between=between,
    )
