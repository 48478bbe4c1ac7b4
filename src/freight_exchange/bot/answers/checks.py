"""Comparison of an answer with the listed request, before the answer is sent. Pure."""

from __future__ import annotations

from freight_exchange.bot.answers.record import AnswerRecord
from freight_exchange.errors import AlreadyApprovedError, OfferChangedError
from freight_exchange.models import Listing, Offer
from freight_exchange.offer_feed.core.compare import answer_to, changed_fields

__all__ = ["already_approved_error", "check_against"]


def check_against(
    listing: Listing, draft: AnswerRecord, seen: Offer | None, decline: AnswerRecord | None = None
) -> bool:
    """Check an answer before it is sent; return whether the service shows it already.

    Args:
        listing: The request, read just now.
        draft: The answer.
        seen: The offer as the handler saw it; `None` if it gave the identifier only.
        decline: The decline of the offer in the ledger, if any: how the service shows one is not documented (service
            document, section 3).

    Raises:
        AlreadyApprovedError: Another offer on the request is selected, or the offer to decline is selected itself.
        OfferChangedError: The offer is gone, was declined, or differs from the offer that the handler saw.
    """
    if listing.selected is not None:
        if draft.approved and listing.selected.id == draft.offer:
            return True
        if draft.approved or listing.selected.id == draft.offer:
            raise already_approved_error(draft, listing.selected.id)
    offer = next((entry for entry in listing.offers if entry.id == draft.offer), None)
    if offer is None:
        raise _changed(draft, "is not listed any more")
    answer = answer_to(offer, listing)
    if answer is not None:
        if draft.approved == (answer == "approved"):
            return True
        raise _changed(draft, f"was {answer} before")
    if draft.approved and decline is not None and _declines(decline, offer):
        raise _changed(draft, "was declined before")
    # A new status that is not an answer does not change the terms.
    changed = [] if seen is None else [name for name in changed_fields(seen, offer) if name != "status"]
    if changed:
        raise _changed(draft, f"has changed since the handler saw it: {', '.join(changed)}")
    return False


def already_approved_error(draft: AnswerRecord, approved: int | None) -> AlreadyApprovedError:
    """Make the error for the handler."""
    which = "another offer" if approved is None else f"offer {approved}"
    return AlreadyApprovedError(
        f"{draft} was not sent: {which} on the request is approved", request=draft.request, offer=approved
    )


def _declines(decline: AnswerRecord, offer: Offer) -> bool:
    """Return whether the offer was declined at its present price. At another price it is another offer."""
    is_same_price = (decline.amount, decline.currency) == (offer.amount, offer.currency)
    return decline.state == "confirmed" and is_same_price


def _changed(draft: AnswerRecord, how: str) -> OfferChangedError:
    return OfferChangedError(
        f"{draft} was not sent: the offer {how}; its event follows", request=draft.request, offer=draft.offer
    )
