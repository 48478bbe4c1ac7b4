"""Known state of the account's requests with their offers. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from freight_exchange.errors import StoreError, ValidationError
from freight_exchange.feed.core.state import AbsenceDoubt
from freight_exchange.feed.core.watermark import Watermark
from freight_exchange.feed.serialization import NOT_OURS, UNREADABLE
from freight_exchange.models import Listing, Offer
from freight_exchange.platform.clock import Reading
from freight_exchange.serialization import from_dict, to_dict

__all__ = ["KnownListing", "KnownOffer", "OfferFeedState"]

_NOT_OURS: Final = (*NOT_OURS, ValidationError)


@attrs.frozen(kw_only=True)
class KnownOffer:
    """An offer, as last seen.

    Attributes:
        offer: The offer.
        version: Number of events about it so far, plus 1.
        is_gone: Whether it was reported as gone.
    """

    offer: Offer
    version: int = 1
    is_gone: bool = False


@attrs.frozen(kw_only=True)
class KnownListing:
    """A request, as last seen, and the offers on it by their identifiers."""

    listing: Listing
    offers: Mapping[int, KnownOffer] = attrs.field(factory=dict)

    def dump(self) -> bytes:
        """Return the known state as bytes."""
        offers = [
            {"offer": to_dict(known.offer), "version": known.version, "gone": known.is_gone}
            for known in self.offers.values()
        ]
        return json.dumps({"listing": to_dict(self.listing), "offers": offers}, separators=(",", ":")).encode()

    @classmethod
    def load(cls, record: bytes) -> KnownListing:
        """Return the known state from its bytes.

        Raises:
            StoreError: The bytes are damaged, or another version of this package wrote them.
        """
        try:
            stored: dict[str, Any] = json.loads(record)
            known = [
                KnownOffer(offer=from_dict(entry["offer"], Offer), version=entry["version"], is_gone=entry["gone"])
                for entry in stored["offers"]
            ]
            offers = {entry.offer.id: entry for entry in known if entry.offer.id is not None}
            return cls(listing=from_dict(stored["listing"], Listing), offers=offers)
        except _NOT_OURS as error:
            raise StoreError(f"one of your requests in the store {UNREADABLE}") from error


@attrs.frozen(kw_only=True)
class OfferFeedState:
    """State of a feed of offers, apart from its requests. Times are on the feed's clock.

    Attributes:
        watermark: When the last complete scan began; before the first complete scan, when the feed was first entered.
        is_primed: Whether any scan was complete.
        doubt: Doubt about scans that lack many known offers, if any.
    """

    watermark: Watermark
    is_primed: bool = False
    doubt: AbsenceDoubt | None = None

    def dump(self) -> str:
        """Return the state as text."""
        return json.dumps(attrs.asdict(self, recurse=True), separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> OfferFeedState:
        """Return the state from its text.

        Raises:
            StoreError: It is damaged, or another version of this package wrote it.
        """
        try:
            kept: dict[str, Any] = json.loads(text)
            watermark, doubt = kept["watermark"], kept["doubt"]
            return cls(
                watermark=Watermark(watermark["time"], Reading(**watermark["reading"])),
                is_primed=kept["is_primed"],
                doubt=None if doubt is None else AbsenceDoubt(**doubt),
            )
        except _NOT_OURS as error:
            raise StoreError(f"the state of the feed of offers in the store {UNREADABLE}") from error
