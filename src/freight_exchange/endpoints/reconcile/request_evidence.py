"""Evidence of a published request in the shipper's listings."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import attrs

from freight_exchange.base import EXACT
from freight_exchange.endpoints.shared.reply_check import COARSEST_VOLUME
from freight_exchange.models import Applied, Listing, NotApplied, Publish, Reconciliation, StillUnknown

if TYPE_CHECKING:
    from freight_exchange.endpoints.offers import Offers

__all__ = ["PublishedRequest"]


@attrs.frozen
class PublishedRequest:
    """Evidence of a publication: a new request with the same commodity, lane, quantity, volume and weight."""

    offers: Offers
    write: Publish
    before: frozenset[int]

    async def search(self) -> Reconciliation:
        near: list[Listing] = []
        async for listing in self.offers.list(sweep=True):
            if listing.index in self.before:
                continue
            named, measured = self._compare(listing)
            if listing.volume not in (None, self.write.draft.volume):
                if named and self._rounded(listing):
                    near.append(listing)
            elif named and measured:
                return Applied(listing)
            elif named or measured or self._agrees(listing):
                near.append(listing)
        return StillUnknown(tuple(near)) if near else NotApplied()

    def _rounded(self, listing: Listing) -> bool:
        """Return whether the listed volume may be the sent one, computed from rounded dimensions."""
        listed, sent = listing.volume, self.write.draft.volume
        return listed is not None and abs(listed - sent) <= sent * COARSEST_VOLUME

    def _agrees(self, listing: Listing) -> bool:
        """Return whether all listed fields agree with the draft; fields may be missing."""
        draft = self.write.draft
        sent = _named(draft.commodity, draft.origin, draft.destination)
        listed = _named(listing.commodity, listing.origin, listing.destination)
        return (
            all(word in ("", ours) for word, ours in zip(listed, sent, strict=True))
            and listing.quantity in (None, draft.quantity)
            and listing.weight in (None, *self._weights())
        )

    def _weights(self) -> tuple[Decimal, Decimal]:
        """Return the weights that the service may list for the sent one: that of one unit, and that of all units."""
        draft = self.write.draft
        return draft.weight, EXACT.multiply(draft.weight, Decimal(draft.quantity))

    def _compare(self, listing: Listing) -> tuple[bool, bool]:
        """Compare the texts and the numbers."""
        draft = self.write.draft
        named = _named(listing.commodity, listing.origin, listing.destination)
        return (
            named == _named(draft.commodity, draft.origin, draft.destination),
            listing.volume is not None and listing.quantity == draft.quantity and listing.weight in self._weights(),
        )


def _named(*words: str | None) -> tuple[str, ...]:
    return tuple(" ".join((word or "").split()).casefold() for word in words)
