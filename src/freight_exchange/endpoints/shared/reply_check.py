"""Check that the reply to a write is about that write. Pure.

A reply about another request, amount or currency does not prove the write: it may belong to another caller, or come
from a cache. The outcome is then unknown. Servers round amounts, reorder dimensions, change dates and omit fields:
these are not contradictions.
"""

from __future__ import annotations

from decimal import Decimal

from freight_exchange.base import EXACT
from freight_exchange.errors import DecodeError
from freight_exchange.models import (
    Bid,
    CreateRoute,
    Listing,
    OfferStatus,
    Publish,
    RateRequest,
    Respond,
    Route,
    SubmitOffer,
    UpdateRoute,
    Write,
)

__all__ = ["COARSEST_VOLUME", "check_reply", "is_rounded"]

COARSEST_VOLUME = Decimal("0.15")
"""Largest relative change of a volume by a server that rounds dimensions."""


def check_reply(write: Write, record: object) -> None:
    """Check that the record in a write's reply may be that write's.

    Raises:
        DecodeError: The record contradicts the write; the message names the field.
    """
    match write, record:
        case SubmitOffer(), Bid():
            found = _of_bid(write, record)
        case Respond(), Listing():
            found = _of_response(write, record)
        case Publish(), RateRequest():
            found = _of_publication(write, record)
        case CreateRoute(), Route():
            sent, returned = write.draft, record
            found = _compare_words(
                (sent.origin, sent.destination, sent.voyage_id),
                (returned.origin, returned.destination, returned.voyage_id),
            )
        case UpdateRoute(), Route():
            found = _differs("index", write.route.index, record.index)
        case _:
            return
    if found:
        raise DecodeError(f"the reply does not match what was sent: {found}")


def is_rounded(returned: Decimal, sent: Decimal) -> bool:
    """Return whether `returned` is `sent`, rounded in any direction to the decimal places that `returned` has."""
    exponent = returned.normalize(EXACT).as_tuple().exponent
    assert isinstance(exponent, int), "amounts are finite"
    difference = EXACT.subtract(returned, sent).copy_abs()
    return returned == sent or difference < EXACT.scaleb(Decimal(1), min(exponent, 0))


def _of_bid(write: SubmitOffer, bid: Bid) -> str:
    if found := _differs("index", write.request, bid.index) or _differs("currency", write.currency, bid.currency):
        return found
    if bid.amount is not None and not is_rounded(bid.amount, write.amount):
        return f"amount {bid.amount} for {write.amount}"
    return ""


def _of_response(write: Respond, listing: Listing) -> str:
    if write.request is not None and (found := _differs("index", write.request, listing.index)):
        return found
    if not write.approved:
        # The reply to a decline is not documented, so any listing is accepted.
        return ""
    named = [offer for offer in listing.offers if offer.id is not None]
    offer = next((offer for offer in named if offer.id == write.offer), None)
    if offer is None and named:
        return f"offer {named[0].id} for {write.offer}"
    if offer is None and len(listing.offers) == 1:
        # The document shows only the declined offer, and an id may be missing.
        offer = listing.offers[0]
    if offer is None:
        return ""
    return "" if offer.status in (None, OfferStatus.SELECTED) else f"the offer is {offer.status}"


def _of_publication(write: Publish, request: RateRequest) -> str:
    sent, returned = write.draft.volume, request.volume
    if returned is not None:
        difference = EXACT.subtract(returned, sent).copy_abs()
        if difference > EXACT.multiply(sent, COARSEST_VOLUME):
            return f"volume {returned} for {sent}"
    draft = write.draft
    return _compare_words(
        (draft.commodity, draft.origin, draft.destination), (request.commodity, request.origin, request.destination)
    )


def _compare_words(sent: tuple[str | None, ...], returned: tuple[str | None, ...]) -> str:
    """Return a sentence if every word differs; a server may respell one of them."""
    folded = [(_folded(ours), _folded(theirs)) for ours, theirs in zip(sent, returned, strict=True)]
    known = [pair for pair in folded if all(pair)]
    if known and len(known) == len(folded) and all(ours != theirs for ours, theirs in known):
        return ", ".join(f"{theirs!r} for {ours!r}" for ours, theirs in zip(sent, returned, strict=True))
    return ""


def _folded(word: str | None) -> str:
    return " ".join((word or "").split()).casefold()


def _differs(field: str, sent: object, returned: object) -> str:
    return f"{field} {returned} for {sent}" if returned is not None and returned != sent else ""
