"""Events of a feed of offers."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, get_args

import attrs

from freight_exchange.feed.events import Acknowledgeable, Unreadable
from freight_exchange.models import Listing, Offer

__all__ = ["KINDS", "Answer", "OfferEvent", "OfferFeedEvent", "OfferKind"]

OfferKind = Literal["new", "changed", "gone", "answered"]
"""Kind of an event about an offer."""

Answer = Literal["approved", "declined"]
"""Answer of a shipper to an offer."""


@attrs.frozen(kw_only=True)
class OfferEvent(Acknowledgeable):
    """An offer on one of your requests appeared, changed, was answered, or is gone (service document, 4.7).

    Attributes:
        kind: `new`, `changed`, `answered` or `gone`.
        offer: The offer as it is now; for a gone offer, as it was last seen.
        listing: The request as it was last seen, with all offers on it.
        previous: The offer as it was seen before; `None` for an offer seen for the first time.
        changed: The names of the fields that differ, among `amount`, `currency`, `status`, `terms` and `rates`.
        returned: Whether the offer was reported as gone and is listed again.
        answer: `approved` or `declined`, for an answered offer.
        answered_by: The id of the bot's handler that gave the answer; `None` if the bot's ledger does not have the
            answer, and outside of a bot.
        observed_between: Earliest and latest time of the change, UTC by the clock of this machine. The earliest is the
            start of the last scan before it; `None` without such a scan. The latest is when the change was seen.
    """

    kind: OfferKind
    offer: Offer
    listing: Listing
    previous: Offer | None = None
    changed: tuple[str, ...] = ()
    returned: bool = False
    answer: Answer | None = None
    answered_by: str | None = None
    observed_between: tuple[datetime | None, datetime]

    @property
    def request(self) -> int:
        """The index of the request."""
        return self.listing.index


OfferFeedEvent = OfferEvent | Unreadable
"""Event of a feed of offers. An `Unreadable` is about one of your requests, or an offer on it, that cannot be read."""

KINDS: Final = frozenset({*get_args(OfferKind), Unreadable.kind})
"""Kinds of the events that a feed of offers delivers."""
